"""A shop's catalogue and its pictures: products for the stream, picture files for the viewer, problems by line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.feed import Feed, FeedPicture, FeedRow, Shop, read_feed
from multimodal.pipes.finder import PictureFinder
from multimodal.pipes.images import ImageStore
from multimodal.pipes.prepared import PictureFile, PreparedImagePipe
from multimodal.pipes.price import parse_price, uses_decimal_comma
from multimodal.values import Product, ProductImage

__all__ = ["Catalog", "CatalogImagePipe", "RowProblem", "Shop", "load_catalog"]


class RowProblem(msgspec.Struct, frozen=True):
    """What is wrong with a row.

    Args:
        line: its line in the file; its number in the list of a JSON catalogue.
        reason: malformed, no_title, duplicate_id, continues_left_out; or, of a row that was taken: no_picture,
            not_found, duplicate_key, bad_price, encoding.
        detail: one sentence for a person.
        product: id of the product ("" = none was made).
    """

    line: int
    reason: str
    detail: str
    product: str = ""


class Catalog(msgspec.Struct, frozen=True):
    """Products with their pictures, in the order of the file.

    Args:
        products: all that can be talked about, those without a picture too.
        pictures: their picture files; one that is missing on disk keeps its place and its reason.
        shop: what the file says of the shop.
        unit: what `RowProblem.line` counts: line, or product in a JSON catalogue.
        rejected: rows that were left out.
        warnings: rows that were taken with something missing.
    """

    products: tuple[Product, ...]
    pictures: tuple[PictureFile, ...]
    shop: Shop = Shop()
    unit: str = "line"
    rejected: tuple[RowProblem, ...] = ()
    warnings: tuple[RowProblem, ...] = ()

    @property
    def duplicates(self) -> tuple[RowProblem, ...]:
        """The rows left out because their id was there already."""
        return tuple(problem for problem in self.rejected if problem.reason == "duplicate_id")

    def report(self, limit: int = 20) -> str:
        """What was read and what was wrong, for a person; at most `limit` problems are spelled out."""
        found = sum(picture.path is not None for picture in self.pictures)
        lines = [f"{len(self.products)} products, {found} of {len(self.pictures)} pictures found"]
        problems = [("left out", problem) for problem in self.rejected]
        problems += [("taken", problem) for problem in self.warnings]
        problems.sort(key=lambda entry: entry[1].line)
        for verdict, problem in problems[:limit]:
            lines.append(f"  {self.unit} {problem.line}: {verdict}, {problem.reason}: {problem.detail}")
        if len(problems) > limit:
            lines.append(f"  and {len(problems) - limit} more")
        return "\n".join(lines)


def load_catalog(
    path: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
    *,
    mapping: Mapping[str, str] | None = None,
    base: str | os.PathLike[str] | None = None,
) -> Catalog:
    """Read a catalogue; a bad row is reported and never fails the rest.

    A row without id and title (or with the id of the row above and no title) is a variant of the product above; its
    pictures are added. Pictures are found by path below `images` or `base`, else by name: exactly, in other case, by
    stem; a URL by its last part, as nothing is fetched from the network. Keys of pictures that name none: the
    product's id, then id-2, id-3, ...

    Args:
        path: JSON in our own format, or a CSV or TSV with a header row.
        images: folder of the pictures, searched with its sub-folders.
        mapping: field -> column, as in {"title": "name", "image": "assets"}.
        base: folder that paths in the catalogue start from; None = the catalogue's own.

    Raises:
        UsageError: a file or folder that is missing, not readable or empty, a column that is missing, or no product.
    """
    path = Path(path)
    feed = read_feed(path, mapping)
    sources = {picture.source for row in feed.rows for picture in row.pictures}
    finder = PictureFinder(
        Path(base) if base is not None else path.parent, None if images is None else Path(images), sources
    )
    builder = _Builder(feed)
    if feed.note:
        builder.warnings.append(RowProblem(1, "encoding", feed.note))
    for row in feed.rows:
        builder.add(row)
    products, pictures = builder.finish(finder)
    if not products:
        first = f"; {feed.unit} {builder.rejected[0].line}: {builder.rejected[0].detail}" if builder.rejected else ""
        raise UsageError(f"no product in the catalogue {path}{first}")
    return Catalog(products, pictures, feed.shop, feed.unit, tuple(builder.rejected), tuple(builder.warnings))


class CatalogImagePipe(PreparedImagePipe):
    """The pictures of a catalogue, prepared for the web in worker threads.

    Args:
        catalog: a loaded `Catalog`, or the path of one.
        images: folder of the pictures, where `catalog` is a path.
        mapping: field -> column, where `catalog` is a path.
        store: who prepares them; None = the store that all pipes of the process share.
        ahead: how many pictures to prepare before they are pulled.

    Raises:
        UsageError: as `load_catalog`; or `images` or `mapping` beside a loaded catalogue.
    """

    def __init__(
        self,
        catalog: Catalog | str | os.PathLike[str],
        *,
        images: str | os.PathLike[str] | None = None,
        mapping: Mapping[str, str] | None = None,
        store: ImageStore | None = None,
        ahead: int = 4,
    ) -> None:
        if not isinstance(catalog, Catalog):
            catalog = load_catalog(catalog, images, mapping=mapping)
        elif images is not None or mapping is not None:
            raise UsageError("CatalogImagePipe images and mapping belong to load_catalog; this catalogue is loaded")
        self.catalog = catalog
        missing = {
            product.id: ("no_picture", f"the catalogue names no picture for {product.id!r}")
            for product in catalog.products
            if not product.images
        }
        super().__init__(catalog.pictures, missing=missing, store=store, ahead=ahead)

    @property
    def products(self) -> tuple[Product, ...]:
        """The catalogue's products, in its order."""
        return self.catalog.products


class _Draft:
    """A product while rows are still added to it."""

    def __init__(self, row: FeedRow, product: Product) -> None:
        self.line, self.product = row.line, product
        self.pictures: dict[str, FeedPicture] = {}


class _Builder:
    def __init__(self, feed: Feed) -> None:
        self._unit, self._currency = feed.unit, feed.shop.currency
        self._decimal_comma = uses_decimal_comma(row.price for row in feed.rows)
        self._drafts: dict[str, _Draft] = {}
        self._current: _Draft | None = None
        self._above = ""  # id of the row above, taken or not: its variants share its fate
        self._left_out = 0  # its line, where it was left out
        self.rejected: list[RowProblem] = []
        self.warnings: list[RowProblem] = []

    def add(self, row: FeedRow) -> None:
        if row.broken:
            self._reject(row, "malformed", row.broken)
        elif row.title:
            self._begin(row)
        elif self._above and row.id in {"", self._above}:
            self._continue(row)
        else:
            self._reject(row, "no_title", "a row without a title, and no product above that it belongs to")

    def _reject(self, row: FeedRow, reason: str, detail: str) -> None:
        self.rejected.append(RowProblem(row.line, reason, detail))
        self._left_out = row.line
        if not row.broken:
            self._current = None
        self._above = row.id or self._above

    def _continue(self, row: FeedRow) -> None:
        # Behind a broken row, whose id nobody knows, only a row that names its product is sure to belong to it.
        if self._current is None or (self._left_out and not row.id):
            detail = f"it continues {self._unit} {self._left_out}, which was left out"
            self.rejected.append(RowProblem(row.line, "continues_left_out", detail))
            return
        self._left_out = 0
        self._current.pictures.update((picture.source, picture) for picture in row.pictures)

    def _begin(self, row: FeedRow) -> None:
        key = row.id or re.sub(r"\W+", "-", row.title.casefold()).strip("-") or row.title
        first = self._drafts.get(key)
        if first is not None:
            detail = f"the id {key!r} ({row.title}) stands in {self._unit} {first.line} already ({first.product.title})"
            self._reject(row, "duplicate_id", detail)
            self._above = key
            return
        price, currency = parse_price(row.price, decimal_comma=self._decimal_comma)
        if row.price and price is None:
            self.warnings.append(RowProblem(row.line, "bad_price", f"{row.price!r} is no price", key))
        product = Product(
            key,
            row.title,
            row.aliases,
            row.description,
            row.brand,
            price,
            row.currency or currency or self._currency,
            row.availability,
            row.url,
        )
        self._current = self._drafts[key] = _Draft(row, product)
        self._above, self._left_out = key, 0
        self._current.pictures.update((picture.source, picture) for picture in row.pictures)

    def finish(self, finder: PictureFinder) -> tuple[tuple[Product, ...], tuple[PictureFile, ...]]:
        # A first picture goes by its product's id, so an id that looks like a second picture's key is never taken.
        taken = set(self._drafts)
        products: list[Product] = []
        files: dict[str, PictureFile] = {}
        for draft in self._drafts.values():
            images: list[ProductImage] = []
            for number, picture in enumerate(draft.pictures.values(), 1):
                key = picture.key or _free_key(draft.product.id, number, taken)
                taken.add(key)
                if key in files:
                    self._warn(draft, "duplicate_key", f"two pictures are called {key!r}; the first is kept")
                    continue
                alt = picture.alt or draft.product.title
                images.append(ProductImage(key, picture.source, alt))
                file = finder.find(picture.source)
                problem = ("", "")
                if file is None:
                    problem = ("not_found", finder.missing(picture.source))
                    self._warn(draft, *problem)
                files[key] = PictureFile(key, file, draft.product.id, alt, problem)
            if not draft.pictures:
                self._warn(draft, "no_picture", f"{draft.product.title}: the row names no picture")
            products.append(msgspec.structs.replace(draft.product, images=tuple(images)))
        return tuple(products), tuple(files.values())

    def _warn(self, draft: _Draft, reason: str, detail: str) -> None:
        self.warnings.append(RowProblem(draft.line, reason, detail, draft.product.id))


def _free_key(product: str, number: int, taken: set[str]) -> str:
    if number == 1:
        return product
    key = f"{product}-{number}"
    while key in taken:
        number += 1
        key = f"{product}-{number}"
    return key
