"""Options about pictures that several commands share: fetching them, keeping them, making them beforehand."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multimodal.errors import UsageError

if TYPE_CHECKING:
    from multimodal.pipes.catalog import CatalogImagePipe
    from multimodal.pipes.images import ImageStore
    from multimodal.pipes.intake import PictureRefused
    from multimodal.pipes.prepared import PictureFile
    from multimodal.pipes.remote_pictures import RemotePictures

__all__ = [
    "add_fetch",
    "add_store",
    "inspect_pictures",
    "picture_words",
    "remote_of",
    "store_of",
    "telling_failures",
    "warm_up",
]

_AT_ONCE = 16


def add_fetch(group: Any) -> None:
    """Add `--fetch`, `--fetch-allow`, `--fetch-port` and `--referer`."""
    group.add_argument(
        "--fetch",
        action="store_true",
        help="fetch pictures that have a URL and no file, from public addresses only (extra: remote)",
    )
    group.add_argument(
        "--fetch-allow",
        action="append",
        default=[],
        metavar="NETWORK",
        help="a network of one's own to fetch from all the same, such as 10.1.2.0/24; may be given again",
    )
    group.add_argument(
        "--fetch-port",
        action="append",
        type=int,
        default=[],
        metavar="N",
        help="a port to fetch from beside 80 and 443; may be given again",
    )
    group.add_argument("--referer", metavar="URL", help="sent with every fetch, for servers that ask for it")


def add_store(group: Any) -> None:
    """Add `--warm` and `--keep-pictures`."""
    group.add_argument(
        "--warm",
        type=int,
        metavar="N",
        help="encode the pictures of the first N products before serving, in every size, as WebP and AVIF",
    )
    group.add_argument(
        "--keep-pictures", type=Path, metavar="DIR", help="keep fetched and encoded pictures there for the next start"
    )


def picture_words(options: argparse.Namespace) -> list[str]:
    """These options again, as words."""
    words = ["--fetch"] if options.fetch else []
    words += [word for network in options.fetch_allow for word in ("--fetch-allow", network)]
    words += [word for port in options.fetch_port for word in ("--fetch-port", str(port))]
    for name in ("referer", "warm", "keep_pictures"):
        if getattr(options, name) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return words


def remote_of(options: argparse.Namespace, folder: Path | None = None) -> RemotePictures | None:
    """Who fetches pictures; None = nobody.

    Args:
        options: with those of `add_fetch`.
        folder: keeps what was fetched; None = a temporary one.

    Raises:
        UsageError: an option that says how to fetch, without `--fetch`; or a value that is wrong.
    """
    if not options.fetch:
        if options.fetch_allow or options.fetch_port or options.referer is not None:
            raise UsageError("--fetch-allow, --fetch-port and --referer say how to --fetch; give it too")
        return None
    from multimodal.pipes.remote_pictures import RemotePictures

    headers = {} if options.referer is None else {"Referer": options.referer}
    return RemotePictures(folder, headers=headers, allow=options.fetch_allow, ports=(80, 443, *options.fetch_port))


def store_of(options: argparse.Namespace) -> tuple[ImageStore | None, Path | None]:
    """Who prepares pictures and where fetched ones are kept; (None, None) = as without options.

    Raises:
        UsageError: `--warm` below 1, or a folder that cannot be made.
    """
    if options.warm is not None and options.warm < 1:
        raise UsageError(f"--warm {options.warm} must be 1 or more products")
    if options.keep_pictures is None:
        return None, None
    from multimodal.pipes.images import ImageStore

    return ImageStore(disk=options.keep_pictures / "encoded"), options.keep_pictures / "fetched"


def warm_up(pipe: CatalogImagePipe, products: list[str], store: ImageStore) -> None:
    """Make the pictures of these products, and say on stderr how far it is and what it came to."""

    async def work() -> None:
        try:
            warmed = await pipe.warm(products, progress=_told("warming"))
        finally:
            await pipe.aclose()
        stats = store.stats()
        print(
            f"warmed {len(products)} products in {warmed.seconds:.1f} s: {warmed.ready} encodings ready "
            f"({stats.encoded} made now), {stats.memory.bytes / 2**20:.1f} MiB in memory"
            + (f", {stats.disk.bytes / 2**20:.1f} MiB on disk" if stats.disk else ""),
            file=sys.stderr,
            flush=True,
        )
        for refused in warmed.refused:
            print(f"  {refused.reason}: {refused}", file=sys.stderr)

    asyncio.run(work())


async def inspect_pictures(pipe: CatalogImagePipe, store: ImageStore) -> list[tuple[PictureFile, PictureRefused]]:
    """Look into every picture, fetched where it has to be: those that cannot be shown, in order, and why.

    One that has a URL and no file is passed over by a pipe that fetches nothing.
    """
    from multimodal.pipes.intake import PictureRefused
    from multimodal.pipes.prepared import source_of

    gate, done = asyncio.Semaphore(_AT_ONCE), 0
    pictures = [picture for picture in pipe.catalog.pictures if pipe.fetches or picture.path or not picture.url]
    told = _told("looking at pictures")

    async def one(picture: PictureFile) -> PictureRefused | None:
        nonlocal done
        async with gate:
            place = await pipe.locate(picture)
            seen = place if isinstance(place, PictureRefused) else await store.look(source_of(picture, place))
        done += 1
        if pipe.fetches or sys.stderr.isatty():
            told(done, done / len(pictures))
        return seen if isinstance(seen, PictureRefused) else None

    try:
        verdicts = await asyncio.gather(*map(one, pictures))
    finally:
        await pipe.aclose()
    return [(picture, refused) for picture, refused in zip(pictures, verdicts, strict=True) if refused is not None]


@contextmanager
def telling_failures() -> Iterator[None]:
    """While it lasts, each picture that fails in a stream is named on stderr, with its reason."""
    logger, handler = logging.getLogger("multimodal.pumps"), logging.StreamHandler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(level or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _told(what: str) -> Callable[[int, float], None]:
    """Tells progress on stderr: a line at every tenth, or one line that is written over on a terminal."""
    last = 0

    def tell(number: int, share: float) -> None:
        nonlocal last
        if sys.stderr.isatty():
            print(f"\r{what}: {share:4.0%}, {number} pictures", end="\n" if share == 1 else "", file=sys.stderr)
        elif int(share * 10) > last:
            last = int(share * 10)
            print(f"{what}: {share:.0%}, {number} pictures", file=sys.stderr, flush=True)

    return tell
