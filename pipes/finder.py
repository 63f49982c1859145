"""Where the picture that a catalogue names lies on disk."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from multimodal.errors import UsageError
from multimodal.pipes.folder import may_be_picture

__all__ = ["FETCHED", "PictureFinder"]

FETCHED = ("http://", "https://")
"""How the address of a picture begins that may be fetched."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""Two letters at least: one is a drive."""
_NAMED = 5
_SHOWN = 200


class PictureFinder:
    """Finds pictures below the folders they may lie in, and nowhere else.

    A name stands for a path only where nothing else goes by it, on disk or in the catalogue: a wrong picture is
    worse than none.

    Args:
        base: folder that paths start from.
        images: folder of pictures, searched with its sub-folders; None = only `base` itself is.
        sources: every picture that the catalogue names.

    Raises:
        UsageError: a folder is missing, or `images` holds no picture.
    """

    def __init__(self, base: Path, images: Path | None, sources: Iterable[str]) -> None:
        self._base, self._images = base, images
        for folder in (base, images or base):
            if not folder.is_dir():
                raise UsageError(f"no such folder of pictures: {folder}")
        # Without a folder of pictures only the catalogue's own is listed: it may be somebody's home.
        files = list(_files_below(images) if images is not None else _files_in(base))
        if images is not None and not files:
            raise UsageError(f"no pictures in the folder {images}")
        self._by_name = _listed((file.name, file) for file in files)
        self._by_folded = _listed((file.name.casefold(), file) for file in files)
        self._by_stem = _listed((file.stem.casefold(), file) for file in files)
        names = [_name(source) for source in set(sources)]
        self._names = Counter(map(str.casefold, names))
        self._stems = Counter(_stem(name).casefold() for name in names)

    def find(self, source: str) -> Path | None:
        """The file of a picture: by path, else by name, in other case, by stem; None where it is not sure."""
        if "://" not in source:
            place = PurePosixPath(source.replace("\\", "/"))
            if not place.is_absolute() and ".." not in place.parts:
                for root in (self._images, self._base):
                    if root is not None and _is_file(root / place):
                        return root / place
        name = _name(source)
        folded = name.casefold()
        found = None
        if self._names[folded] == 1:
            found = _only(self._by_name.get(name)) or _only(self._by_folded.get(folded))
        if found is None and self._by_stem:
            stem = _stem(folded)
            found = _only(self._by_stem.get(stem)) if self._stems[stem] == 1 else None
        return found

    def missing(self, source: str) -> tuple[str, str]:
        """The reason why a picture was not found, and what to tell a person of it."""
        where = self._images or self._base
        shown = source if len(source) <= _SHOWN else f"{source[:_SHOWN]}..."
        web = source.casefold().startswith(FETCHED)
        folded = _name(source).casefold()
        files = self._by_folded.get(folded) or self._by_stem.get(_stem(folded)) or []
        load = f"; download it into {where}, or fetch it: --fetch (remote= in code)" if web else ""
        if files:
            names = ", ".join(file.relative_to(where).as_posix() for file in files[:_NAMED])
            more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
            advice = "name its path" if len(files) > 1 else "other pictures of the catalogue go by that name too"
            return "not_found", f"{shown} is ambiguous: {names}{more} in {where}; {advice}{load}"
        if not web and (scheme := _SCHEME.match(source)):
            refused = f"its scheme is {scheme.group()[:-1]!r}; only http and https are fetched, and files named by path"
            return "refused_address", f"{shown}: {refused}"
        return "not_found", f"{shown} is not in {where}{load}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file system takes: too long, say
        return False


def _name(source: str) -> str:
    """The last part of a path or URL. By hand: a path object for each picture is most of a large import's time."""
    if "://" not in source:
        return source.replace("\\", "/").rstrip("/").rpartition("/")[2]
    path = source.partition("://")[2].partition("?")[0].partition("#")[0].rstrip("/")
    return unquote(path.rpartition("/")[2]).rpartition("/")[2]


def _stem(name: str) -> str:
    stem, dot, _ = name.rpartition(".")
    return stem if stem and dot else name


def _listed(entries: Iterable[tuple[str, Path]]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for name, file in entries:
        found.setdefault(name, []).append(file)
    return found


def _only(files: list[Path] | None) -> Path | None:
    return files[0] if files is not None and len(files) == 1 else None


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(parent, name) for name in sorted(names) if may_be_picture(name))


def _files_in(folder: Path) -> Iterator[Path]:
    yield from (file for file in sorted(folder.iterdir()) if may_be_picture(file.name) and file.is_file())
