"""A folder of files that is made once and kept: a list of them, written last, by which each later process judges it.

S1. A folder is whole where it holds the listed files and no others, each with the size and the sha256 of the list.
S2. Without a list it is not: it is of an earlier version, or its making was cut short.
S3. Names that begin with a dot are the system's, and count for nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

__all__ = ["LIST", "fault_of", "seal"]

LIST = "manifest.json"


class _File(msgspec.Struct, frozen=True):
    bytes: int
    sha256: str


class _List(msgspec.Struct, frozen=True):
    made_of: str
    files: dict[str, _File]


def seal(folder: Path, made_of: str) -> None:
    """Write the list of a folder's files, after the last of them.

    Args:
        folder: with files only.
        made_of: what they were made of, so that those of something else are known for it.

    Raises:
        OSError: a file cannot be read, or the list not be written.
    """
    files = {path.name: _File(path.stat().st_size, _sha256(path)) for path in _inside(folder)}
    (folder / LIST).write_bytes(msgspec.json.format(msgspec.json.encode(_List(made_of, files))))


def fault_of(folder: Path, made_of: str) -> str | None:
    """Why a folder is not what was sealed (S1-S3), in words that go after its name; None = it is.

    Every byte is read: 0.2 s for 270 MB where the processor has instructions for it, about 1 s where it has none.

    Args:
        folder: the folder.
        made_of: what it is to be made of.
    """
    try:
        found = {path.name: path for path in _inside(folder)}
        if not (folder / LIST).is_file():
            return f"it has no {LIST}, being of an earlier version or not finished"
        listed = msgspec.json.decode((folder / LIST).read_bytes(), type=_List)
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    except (msgspec.MsgspecError, ValueError) as error:  # of letters that are no UTF-8 the latter is raised
        return f"its {LIST} is broken ({error})"
    if listed.made_of != made_of:
        return "it was made of something else"
    for name in sorted({*listed.files, *found}):
        if (fault := _fault_of(found.get(name), listed.files.get(name))) is not None:
            return f"its {name} {fault}"
    return None


def _fault_of(path: Path | None, listed: _File | None) -> str | None:
    if path is None:
        return "is missing"
    if listed is None:
        return "does not belong there"
    try:
        if (size := path.stat().st_size) != listed.bytes:
            return f"has {size:,} bytes instead of {listed.bytes:,}"
        return None if _sha256(path) == listed.sha256 else "does not hold what was written to it"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _inside(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.name != LIST and not path.name.startswith(".")]


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
