"""The product tour: a shop's page around the player. Give it a catalogue, get routes to mount."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from multimodal.values import Product

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import BaseRoute

if __name__ != "multimodal.demos.product_tour":
    raise ImportError("import multimodal.demos.product_tour: the folder is installed as part of the multimodal package")

__all__ = ["PRODUCTS_LISTED", "build_routes", "render"]

PRODUCTS_LISTED = 24
"""A catalogue may be long; the page lists its beginning."""

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_SIGNS = {"EUR": "€", "GBP": "£", "USD": "$", "JPY": "¥", "": ""}
_POSTER_TYPES = ((b"\xff\xd8", "image/jpeg"), (b"\x89PNG", "image/png"), (b"RIFF", "image/webp"))


def render(
    name: str,
    tagline: str = "",
    *,
    language: str = "en",
    products: Sequence[Product] = (),
    poster: bool = False,
    narrator: str = "",
    tour: str = "/tour/whep/demo",
    player: str = "/tour/player/product-tour.js",
) -> str:
    """The page's HTML; whatever a catalogue says is escaped.

    Args:
        name: the shop, or the name of its catalogue's file.
        tagline: one line beside it; may be empty.
        language: BCP 47 tag of narration and catalogue.
        products: those the tour may show, in its order.
        poster: True = the picture at `poster` stands on the stage before the tour starts.
        narrator: who tells the tour, as the end of "Words: ..."; empty = not said.
        tour: URL of the tour's signalling resource.
        player: URL of the player's module.
    """
    # Not a template engine: nine words to fill in, each escaped here.
    page = resources.files(__name__).joinpath("index.html").read_text(encoding="utf-8")
    count = len(products)
    return Template(page).substitute(
        name=escape(name),
        tagline=escape(tagline),
        language=escape(language),
        tour=escape(tour),
        player=escape(player),
        count=f"{count} things from {escape(name)}" if count > 1 else f"what is new at {escape(name)}",
        narrator=f"Words: {escape(narrator)}. " if narrator else "",
        poster='<img slot="poster" src="poster" alt="">' if poster else "",
        products="\n".join(_item(product) for product in products[:PRODUCTS_LISTED]),
    )


def _item(product: Product) -> str:
    price = "" if product.price is None else f"{_SIGNS.get(product.currency, product.currency + ' ')}{product.price}"
    text = f"<p>{escape(product.description)}</p>" if product.description else ""
    return (
        f'      <li data-product="{escape(product.id)}"><div class="line"><h3>{escape(product.title)}</h3>'
        f'<span class="price">{escape(price)}</span></div>{text}</li>'
    )


def build_routes(
    name: str,
    tagline: str = "",
    *,
    language: str = "en",
    products: Sequence[Product] = (),
    poster: bytes = b"",
    narrator: str = "",
    tour: str = "/tour/whep/demo",
    player: str = "/tour/player/product-tour.js",
) -> list[BaseRoute]:
    """Routes of the page: `/`, `/style.css`, `/page.js`, `/api/shop` (the same facts as JSON) and, if given, `/poster`.

    Args:
        name: the shop, or the name of its catalogue's file.
        tagline: one line beside it; may be empty.
        language: BCP 47 tag of narration and catalogue.
        products: those the tour may show, in its order.
        poster: a JPEG, PNG or WebP that stands on the stage before the tour starts; empty = none.
        narrator: who tells the tour, as `render`.
        tour: URL of the tour's signalling resource.
        player: URL of the player's module.
    """
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    page = render(
        name,
        tagline,
        language=language,
        products=products,
        poster=bool(poster),
        narrator=narrator,
        tour=tour,
        player=player,
    )
    shop = {
        "name": name,
        "tagline": tagline,
        "language": language,
        "narrator": narrator,
        "tour": tour,
        "products": [
            {
                "id": product.id,
                "title": product.title,
                "price": "" if product.price is None else str(product.price),
                "currency": product.currency,
                "url": product.url,
            }
            for product in products
        ],
    }

    def fixed(path: str, content: str | bytes, media_type: str) -> Route:
        async def answer(_: Request) -> Response:
            headers = {"Content-Security-Policy": _CSP, "X-Content-Type-Options": "nosniff"}
            return Response(content, media_type=media_type, headers=headers)

        return Route(path, answer)

    async def api(_: Request) -> Response:
        return JSONResponse(shop)

    files = resources.files(__name__)
    routes: list[BaseRoute] = [
        fixed("/", page, "text/html"),
        fixed("/style.css", files.joinpath("style.css").read_bytes(), "text/css"),
        fixed("/page.js", files.joinpath("page.js").read_bytes(), "text/javascript"),
        Route("/api/shop", api),
    ]
    if poster:
        kind = next((kind for magic, kind in _POSTER_TYPES if poster.startswith(magic)), "application/octet-stream")
        routes.append(fixed("/poster", poster, kind))
    return routes
