"""A shop's catalogue and its pictures: products for the stream, picture files for the viewer, problems by line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.feed import Shop, feed_files, read_feed
from multimodal.pipes.feed_fold import Fold
from multimodal.pipes.feed_products import RowProblem
from multimodal.pipes.feed_words import currency_code
from multimodal.pipes.finder import FETCHED, PictureFinder
from multimodal.pipes.images import ImageStore, PictureRefused, Warmed
from multimodal.pipes.ladder import AVIF, WEBM, WEBP
from multimodal.pipes.prepared import PictureFile, PreparedImagePipe, source_of
from multimodal.sync.matcher import NameOwners
from multimodal.values import Product, ViewerNeeds

if TYPE_CHECKING:
    from multimodal.pipes.remote_pictures import RemotePictures

__all__ = ["Catalog", "CatalogImagePipe", "Progress", "RowProblem", "Shop", "load_catalog"]

Progress = Callable[[int, float], None]

_EVERY = 256
_NAMED = 8
"""Columns that a report names, of those that nobody reads."""
_FINE = ("", "")
_PLAYS = ViewerNeeds((WEBM,))


class Catalog(msgspec.Struct, frozen=True):
    """Products with their pictures, in the order of the file.

    Args:
        products: all that can be talked about, those without a picture too.
        pictures: their picture files; one that is missing on disk keeps its place and its reason.
        shop: what the file says of the shop.
        unit: what lines of its first file count: line, or product in a JSON catalogue; each problem has its own.
        rejected: rows that were left out.
        warnings: rows that were taken with something missing.
        unpublished: rows that the shop itself does not show, left out too.
        format: which of `multimodal.pipes.feed.FORMATS` its first file is.
        formats: those of all its files, each once.
        unread: columns of its tables of which nothing is read, each once.
    """

    products: tuple[Product, ...]
    pictures: tuple[PictureFile, ...]
    shop: Shop = Shop()
    unit: str = "line"
    rejected: tuple[RowProblem, ...] = ()
    warnings: tuple[RowProblem, ...] = ()
    unpublished: tuple[RowProblem, ...] = ()
    format: str = ""
    formats: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def duplicates(self) -> tuple[RowProblem, ...]:
        """The rows left out because their id was there already."""
        return tuple(problem for problem in self.rejected if problem.reason == "duplicate_id")

    def report(self, limit: int = 20) -> str:
        """What was read and what was wrong, for a person; at most `limit` problems are spelled out."""
        found = sum(picture.path is not None for picture in self.pictures)
        remote = sum(picture.path is None and bool(picture.url) for picture in self.pictures)
        counts = f"{len(self.products)} products, {found} of {len(self.pictures)} pictures found"
        lines = [counts + (f" ({remote} are remote)" if remote else "")]
        if self.unread:
            more = f" and {len(self.unread) - _NAMED} more" if len(self.unread) > _NAMED else ""
            names = ", ".join(self.unread[:_NAMED])
            lines.append(f"  not read: {names}{more}; a column that holds a fact is named by --map facts=A+B")
        if self.unpublished:
            lines.append(f"  {len(self.unpublished)} rows are not published, and left out")
        problems = [("left out", problem) for problem in self.rejected]
        problems += [("taken", problem) for problem in self.warnings]
        problems.sort(key=lambda entry: (entry[1].file, entry[1].line))
        for verdict, problem in problems[:limit]:
            place = f"{problem.file}, {problem.unit}" if problem.file else problem.unit
            lines.append(f"  {place} {problem.line}: {verdict}, {problem.reason}: {problem.detail}")
        if len(problems) > limit:
            lines.append(f"  and {len(problems) - limit} more")
        return "\n".join(lines)


def load_catalog(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    images: str | os.PathLike[str] | None = None,
    *,
    mapping: Mapping[str, str] | None = None,
    base: str | os.PathLike[str] | None = None,
    format: str | None = None,
    encoding: str | None = None,
    currency: str = "",
    now: datetime | None = None,
    progress: Progress | None = None,
    empty: bool = False,
    fetch: bool = False,
) -> Catalog:
    """Read a catalogue; a bad row is reported and never fails the rest.

    A row of a table without id and title (or with the id of the row above and no title) is a variant of the product
    above; its pictures are added. Pictures are found by path below `images` or `base`, else by name: exactly, in other
    case, by stem; a URL by its last part. One that has a URL and no file keeps the URL, for a pipe that may fetch it:
    nothing is fetched here. Keys of pictures that name none: the product's id, then id-2, id-3, ...

    Args:
        path: a file in any of `multimodal.pipes.feed.FORMATS`, told by its content; several files (the pages of a
            shop's products.json, say); or a folder, of which all files that may be a catalogue are read by name.
        images: folder of the pictures, searched with its sub-folders.
        mapping: field -> column, as in {"title": "name", "image": "assets"}; ``facts`` takes several: "care+power".
        base: folder that paths in the catalogue start from; None = the catalogue's own.
        format: one of `multimodal.pipes.feed.FORMATS`; None = as the content tells.
        encoding: of its text; None = UTF-8, UTF-16 with its mark, else Windows-1252.
        currency: ISO 4217 code of prices where the catalogue says none.
        now: for sale prices that hold between two dates; None = the present moment.
        progress: called with the number of rows read and the share of the file from 0 to 1, every few hundred rows.
        empty: give a catalogue without any product too, for what it says of its rows.
        fetch: pictures that have a URL and no file below `images` will be fetched, and are not warned of.

    Raises:
        UsageError: a file or folder that is missing, not readable or empty, a column that is missing, a format or a
            currency that does not exist, or no product.
    """
    if currency_code(currency) != currency:
        raise UsageError(f"currency {currency!r} is no code of ISO 4217, such as EUR")
    paths = feed_files(path)
    fold = Fold(now or datetime.now(UTC), currency)
    shop, unit = Shop(), "line"
    kinds: dict[str, None] = {}
    unread: dict[str, None] = {}
    for number, file in enumerate(paths):
        try:
            feed = read_feed(file, mapping, kind=format, encoding=encoding, now=fold.now)
            unread.update(dict.fromkeys(feed.unread))
            fold.begin(feed, file.name if len(paths) > 1 else "")
            before = fold.count
            for count, row in enumerate(feed.rows, fold.count + 1):
                fold.add(row)
                if progress is not None and not count % _EVERY:
                    progress(count, (number + feed.share) / len(paths))
        except UsageError as error:
            if len(paths) == 1:
                raise
            fold.unreadable(file.name, str(error))  # one bad page fails no import
            continue
        if feed.note:
            fold.note(1, "encoding", feed.note)
        shop = feed.shop if shop == Shop() else shop
        unit = unit if kinds else feed.unit
        kinds[feed.format] = None
        if fold.count == before:
            what = "nothing below the row of column names" if feed.unit == "line" else "an empty list of products"
            fold.note(1, "no_rows", f"it holds {what}")
    fold.settle()
    finder = PictureFinder(
        Path(base) if base is not None else paths[0].parent, None if images is None else Path(images), fold.sources()
    )
    products, pictures = _found(fold, finder, shop.currency, remote=fetch or images is None)
    if progress is not None:
        progress(fold.count, 1.0)
    if not products and not empty:
        left = next(iter((*fold.rejected, *fold.unpublished, *fold.warnings)), None)
        raise UsageError(
            f"no product in the catalogue {path}" + (f"; {left.unit} {left.line}: {left.detail}" if left else "")
        )
    problems = (tuple(fold.rejected), tuple(fold.warnings), tuple(fold.unpublished))
    return Catalog(products, pictures, shop, unit, *problems, next(iter(kinds), ""), tuple(kinds), tuple(unread))


def _found(
    fold: Fold, finder: PictureFinder, currency: str, *, remote: bool
) -> tuple[tuple[Product, ...], tuple[PictureFile, ...]]:
    """The products, and where their pictures lie.

    Args:
        fold: all rows.
        finder: looks pictures up.
        currency: what the catalogue says of prices that name none.
        remote: a picture that has a URL is missing nowhere: it is fetched, or no folder was given that it should be in.
    """
    products: list[Product] = []
    files: list[PictureFile] = []
    names = NameOwners()
    for product, where in fold.products(currency):
        products.append(product)
        if (shared := names.add(product)) is not None:
            name, owner = shared
            both = f"{name!r} names both {owner!r} and {product.id!r}"
            fold.warn(where, "shared_name", f"{both}; a model's tour cannot tell them apart, and is refused")
        if not product.images:
            fold.warn(where, "no_picture", f"{product.title}: the row names no picture")
        for image in product.images:
            file = finder.find(image.source)
            problem = _FINE
            url = image.source if file is None and image.source.casefold().startswith(FETCHED) else ""
            if file is None:
                problem = finder.missing(image.source)
                if not (remote and url):
                    fold.warn(where, *problem)
            files.append(PictureFile(image.key, file, product.id, image.alt, problem, url))
    return tuple(products), tuple(files)


class CatalogImagePipe(PreparedImagePipe):
    """The pictures of a catalogue, prepared for the web in worker threads.

    Args:
        catalog: a loaded `Catalog`, or the path of one.
        images: folder of the pictures, where `catalog` is a path.
        mapping: field -> column, where `catalog` is a path.
        store: who prepares them; None = the store that all pipes of the process share.
        ahead: how many pictures to prepare before they are pulled.
        remote: who fetches pictures that have a URL and no file; None = they are missed as ``not_found``.
        held: begin with none before `release` is called.

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
        remote: RemotePictures | None = None,
        held: bool = False,
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
        super().__init__(catalog.pictures, missing=missing, store=store, ahead=ahead, remote=remote, held=held)

    @property
    def products(self) -> tuple[Product, ...]:
        """The catalogue's products, in its order."""
        return self.catalog.products

    @property
    def fetches(self) -> bool:
        """Whether pictures that have a URL and no file are fetched."""
        return self._remote is not None

    async def locate(self, picture: PictureFile) -> Path | PictureRefused:
        """The file of one of its pictures, fetched where it has to be; why there is none, otherwise."""
        path = self._path(picture)
        if path is not None:
            return path
        if self._remote is None or not picture.url:
            return PictureRefused(*picture.problem)
        return await self._remote.fetch(picture.url)

    async def warm(
        self,
        products: Iterable[str] | None = None,
        *,
        formats: tuple[str, ...] = (WEBP, AVIF),
        progress: Progress | None = None,
    ) -> Warmed:
        """Fetch and encode pictures before anybody asks: each in every size of the ladder, a clip in its own.

        Every pipe of the same store has them then, AVIF for viewers that decode it. A store that keeps less than this
        in memory and has no disk lets go of what was made first. Cancelling it keeps what is ready.

        Args:
            products: whose pictures, most wanted first; None = the whole catalogue, in its order.
            formats: the formats of still pictures.
            progress: called with the number of pictures done and their share from 0 to 1, after each.

        Raises:
            UsageError: an id that is not in the catalogue.
        """
        wanted, began = self._of(products), time.monotonic()
        ready, refused = 0, []
        for number, picture in enumerate(wanted, 1):
            place = await self.locate(picture)
            if isinstance(place, PictureRefused):
                refused.append(place)
            else:
                ladder = self._store.ladder
                rungs = ladder.choose_clip(_PLAYS) if picture.clip else ladder.every(formats)
                warmed = await self._store.warm([source_of(picture, place)], rungs)
                ready += warmed.ready
                refused += warmed.refused[:1]  # the same of every size
            if progress is not None:
                progress(number, number / len(wanted))
        return Warmed(ready, tuple(refused), time.monotonic() - began)

    def _of(self, products: Iterable[str] | None) -> list[PictureFile]:
        if products is None:
            return list(self._pictures.values())
        named: dict[str, list[PictureFile]] = {product.id: [] for product in self.catalog.products}
        for picture in self._pictures.values():
            named[picture.product].append(picture)
        order = list(dict.fromkeys(products))
        if unknown := next((product for product in order if product not in named), None):
            raise UsageError(f"no product {unknown!r} in the catalogue; it has {len(named)}")
        return [picture for product in order for picture in named[product]]
