"""A tour ready to play: the demo shop's own, or one told from any shop's catalogue."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.demos.product_tour.narrators import SCRIPT, Narrator, Voice, label, language_of, model_voice
from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.catalog import Catalog, CatalogImagePipe, load_catalog
from multimodal.pipes.extractive import EXTRACTIVE, ExtractiveTextPipe, extractive_plan
from multimodal.pipes.script import ScriptTextPipe, split_tokens
from multimodal.pipes.spoken import BREATH, PacedTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.cues import Segment, TourPlan, plan_tour
from multimodal.values import Cue, LatePolicy, Place, Product

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from multimodal.pipes.blocklist import Blocklist
    from multimodal.pipes.images import ImageStore
    from multimodal.pipes.remote_pictures import RemotePictures
    from multimodal.serving.door import Recorder

__all__ = ["Settings", "Tour", "demo_tour", "shop_tour", "told", "tour_app"]

GAP = 0.15
"""Seconds between two words: 400 words a minute, a brisk reader's pace."""
POSTER_LIMIT_BYTES = 500_000
"""The poster is sent as it lies on disk: a photograph from the camera would be megabytes."""
TOLD_WORDS = 28
"""Words of a description that a tour told from a catalogue takes, in whole sentences where it can."""


class Settings(msgspec.Struct, frozen=True):
    """How a tour is played; as the options of `multimodal tour`. `slow_images` is in seconds."""

    sync_interval: int = 3
    late: LatePolicy = "placeholder"
    slow_images: float = 0.0
    speed: float = 1.0


class Tour(msgspec.Struct, frozen=True):
    """A tour: the shop's name and line, its catalogue, and the plan of what is said and shown.

    `store` prepares its pictures (None = the store that the process shares), `remote` fetches those that have no file.
    `narrator` says who tells it. A model's words are not known beforehand: then `voice` makes its text pipe, the plan
    has no words, and pictures come when a product is named. `blocked` is what no narrator may show (`behind`).
    """

    name: str
    tagline: str
    language: str
    catalog: Catalog
    plan: TourPlan
    store: ImageStore | None = None
    remote: RemotePictures | None = None
    narrator: str = SCRIPT
    voice: Voice | None = None
    blocked: Blocklist | None = None

    def behind(self, blocked: Blocklist) -> Tour:
        """The same tour behind a list of words that must not be seen; its pictures keep their places."""
        tokens = blocked.tokens(self.plan.tokens) if self.plan.tokens else ()
        return msgspec.structs.replace(
            self, plan=msgspec.structs.replace(self.plan, tokens=tuple(tokens)), blocked=blocked
        )

    @property
    def nameless(self) -> list[Product]:
        """Products of the tour whose titles must not be seen."""
        return [] if self.blocked is None else [each for each in self.shown if self.blocked.hides(each.title)]

    def prepare(self) -> None:
        """Read the model that tells it, where one does, so that no viewer waits for that; it takes seconds.

        Raises:
            UsageError, PipeError: it cannot be had.
        """
        if self.voice is not None:
            self.voice.prepare()

    def text_pipe(self, settings: Settings, on_begin: Callable[[], object] | None = None) -> TextPipe:
        """Its words at a narrator's pace.

        Args:
            settings: how it is played.
            on_begin: of a model's words: called once, right before the first of them.
        """
        if self.voice is not None:
            return PacedTextPipe(self.voice(self.blocked), speed=settings.speed, on_begin=on_begin)
        if self.narrator == EXTRACTIVE:
            return ExtractiveTextPipe(self.plan, speed=settings.speed)
        tokens = self.plan.tokens
        breaths = {
            i + 1: BREATH for i, token in enumerate(tokens[:-1]) if re.search(r"[.!?。！？]['\"”’)]*\s*$", token)
        }
        return _ScriptPipe(list(tokens), gap=GAP, stalls=breaths, speed=settings.speed)

    def image_pipe(self, *, held: bool = False) -> CatalogImagePipe:
        """Its pictures; `held` = none is begun before its `release`."""
        return CatalogImagePipe(self.catalog, store=self.store, remote=self.remote, held=held)

    @property
    def shown(self) -> list[Product]:
        """The catalogue's products in the order of the tour."""
        catalogue = {product.id: product for product in self.catalog.products}
        order = dict.fromkeys(cue.product for cue in self.plan.cues if cue.product in catalogue)
        return [catalogue[product] for product in order]

    def stream(self, settings: Settings, resume: Place | None = None) -> MultiModalStream:
        """A stream that plays it once. Pictures are prepared once for all streams of the process.

        Args:
            settings: how.
            resume: where another process left it; None = from its beginning.
        """
        named: dict[str, Any] = {"cues": self.plan.cues, "chapters": self.plan.starts}
        if self.voice is not None:
            named = {"mentions": self.shown, "markers": True}
        # Pictures are needed seconds later than a model's first words, and are made by the same processors.
        pictures = self.image_pipe(held=self.voice is not None and self.voice.here)
        stream = MultiModalStream(
            text_pipe=self.text_pipe(settings, pictures.release),
            image_pipe=pictures,
            sync_interval=settings.sync_interval,
            **named,
            late=settings.late,
            slow_images=settings.slow_images,
            resume=resume,
        )
        if self.voice is not None:
            # Where a model names them is not known, but their order is: a slot is reserved before its name is said.
            stream.expect(cue.key for cue in self.plan.cues)
        return stream


class _ScriptPipe(ScriptTextPipe):
    narrator = SCRIPT


def demo_tour(narrator: Narrator | None = None, language: str | None = None) -> Tour:
    """The demo shop's tour, as it ships with the package.

    Args:
        narrator: who tells it; None = the written script.
        language: ``en`` or ``zh``; None = English.

    Raises:
        UsageError: the script in another language than English; what a model needs is not there.
    """
    narrator = narrator or Narrator(SCRIPT)
    language = language_of((), language)
    folder = Path(str(files("multimodal.assets"))) / "demo"
    catalog = load_catalog(folder / ("catalog.zh.json" if language == "zh" else "catalog.json"))
    script = json.loads((folder / "tour.json").read_text(encoding="utf-8"))
    if narrator.name == SCRIPT:
        if language != script["language"]:
            raise UsageError(
                f"--lang {language}: the demo's script is in English; --narrator extractive speaks Chinese"
            )
        segments = [_segment(entry) for entry in script["segments"]]
        plan = plan_tour(segments, catalog.products, split_tokens)
        return Tour(catalog.shop.name, catalog.shop.tagline, language, catalog, plan)
    by_id = {product.id: product for product in catalog.products}
    products = [by_id[entry["sku"]] for entry in script["segments"] if entry["sku"]]
    return _told_by(narrator, catalog, products, catalog.shop.name, language)


def shop_tour(
    path: Path,
    images: Path | None = None,
    mapping: Mapping[str, str] | None = None,
    *,
    fetch: bool = False,
    narrator: Narrator | None = None,
    language: str | None = None,
) -> Tour:
    """A tour of a shop's own catalogue.

    Args:
        path: the catalogue, CSV or JSON (`multimodal.pipes.catalog.load_catalog`).
        images: the folder of its pictures.
        mapping: other column names, such as ``{"title": "name"}``.
        fetch: pictures that have a URL and no file will be fetched, and are not warned of.
        narrator: who tells it; None = the script, which is each product's title, the beginning of its description and
            its price.
        language: ``en`` or ``zh``; None = that of most titles.

    Raises:
        UsageError: the catalogue cannot be read, or holds no product; what a model needs is not there.
    """
    catalog = load_catalog(path, images, mapping=mapping, fetch=fetch)
    if not catalog.products:
        raise UsageError(f"{path} holds no product to tell of: {catalog.report(3)}")
    name = catalog.shop.name or path.stem
    language = language_of(catalog.products, language)
    if narrator is not None and narrator.name != SCRIPT:
        return _told_by(narrator, catalog, catalog.products, name, language)
    segments = [Segment(told(product), product.id) for product in catalog.products]
    return Tour(name, catalog.shop.tagline, language, catalog, plan_tour(segments, catalog.products, split_tokens))


def _told_by(narrator: Narrator, catalog: Catalog, products: Sequence[Product], name: str, language: str) -> Tour:
    """A tour of these products by a narrator that knows the catalogue."""
    shop, tagline = catalog.shop.name, catalog.shop.tagline
    if narrator.planned:
        plan = extractive_plan(products, shop=shop, language=language, seed=narrator.seed)
        return Tour(name, tagline, language, catalog, plan, narrator=narrator.name)
    voice = model_voice(narrator, products, shop=shop, language=language)
    # Where they stand is not known before they are named; who they are is.
    cues = [Cue(0, product.images[0].key if product.images else product.id, product=product.id) for product in products]
    spoken_by = f"remote: {narrator.model}" if narrator.remote else narrator.name
    return Tour(name, tagline, language, catalog, TourPlan((), tuple(cues)), narrator=spoken_by, voice=voice)


def tour_app(tour: Tour, settings: Settings, recorder: Recorder | None = None, **serving: Any) -> Starlette:
    """The page and the signalling of one tour, as one application.

    Args:
        tour: what is played.
        settings: how.
        recorder: called for every new session's stream, gives what takes the lines of its recording.
        serving: further arguments of `multimodal.asgi`, such as a journal and a secret.
    """
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    from starlette.applications import Starlette
    from starlette.routing import Mount

    from multimodal.demos.product_tour import build_routes
    from multimodal.serving.app import asgi
    from multimodal.serving.limits import Quotas

    def make_stream(name: str, place: Place | None = None) -> MultiModalStream:
        if name != "demo":
            raise UsageError(f"there is no tour {name!r}; there is: demo")
        return tour.stream(settings, place)

    # The demo is served on loopback, to whoever started it.
    serving.setdefault("quotas", Quotas.unlimited())
    tours = asgi(make_stream, resume_stream=make_stream, recorder=recorder, **serving)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await tours.state.sessions.aclose()

    page = build_routes(
        tour.name,
        tour.tagline,
        language=tour.language,
        products=tour.shown,
        poster=_poster(tour),
        narrator=label(tour.narrator),
    )
    return Starlette(routes=[Mount("/tour", tours), *page], lifespan=lifespan)


def _poster(tour: Tour) -> bytes:
    """What stands on the stage before the tour: its first picture, else the catalogue's; empty if too large to send."""
    files_by_key = {picture.key: picture.path for picture in tour.catalog.pictures}
    path = next((files_by_key.get(key) for key in (*(cue.key for cue in tour.plan.cues), *files_by_key)), None)
    if path is None or not path.is_file() or path.stat().st_size > POSTER_LIMIT_BYTES:
        return b""
    return path.read_bytes()


def _segment(entry: dict[str, Any]) -> Segment:
    places = tuple((place["key"], place["at"]) for place in entry.get("cues", ()))
    return Segment(entry["text"], entry["sku"], places)


def told(product: Product) -> str:
    """What a tour says of a product: its title, the beginning of its description, its price."""
    sentences = re.findall(r"[^.!?]+[.!?]+(?=\s|$)|[^.!?]+$", " ".join(product.description.split()))
    said: list[str] = []
    for sentence in sentences:
        words = sum(len(part.split()) for part in said)
        if said and words + len(sentence.split()) > TOLD_WORDS:
            break
        said.append(sentence.strip())
    text = " ".join(said)
    if len(text.split()) > 2 * TOLD_WORDS:
        text = " ".join(text.split()[:TOLD_WORDS]) + " …"
    price = f"{product.price} {product.currency}".strip() + "." if product.price is not None else ""
    return " ".join(part for part in (f"{product.title}.", text, price) if part)
