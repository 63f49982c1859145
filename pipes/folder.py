"""A folder of pictures as an image pipe: the file's stem is the key, the names give the order."""

from __future__ import annotations

import os
import re
from pathlib import Path

from multimodal.errors import UsageError
from multimodal.pipes.images import ImageStore
from multimodal.pipes.prepared import PictureFile, PreparedImagePipe, as_text

__all__ = ["FolderImagePipe", "may_be_picture", "readable"]

# Files that lie beside pictures and are plainly none. Everything else is taken for a picture, so that a
# broken or misnamed one is reported instead of missing without a word.
_FOREIGN = re.compile(
    r"\.(7z|bak|cfg|conf|css|csv|db|docx?|gz|html?|ini|js|jsonl?|lock|log|md|mp3|pdf|ps1|pyc?|rst|rtf|sh"
    r"|sqlite|tar|tmp|toml|ts|tsv|txt|url|wav|xlsx?|xml|ya?ml|zip)$",
    re.IGNORECASE,
)
_FOREIGN_NAMES = frozenset({"license", "licence", "readme", "makefile", "desktop.ini", "thumbs.db"})


class FolderImagePipe(PreparedImagePipe):
    """The pictures of a folder, prepared for the web in worker threads.

    The key of a picture is its file's stem (with `recursive` the path below the folder, without its
    suffix), which also names the product; the alternative text is the stem made readable. The order is that
    of the sorted names. A video is shown as a short silent clip, to viewers that play none as a picture of its
    beginning. A picture that cannot be shown is yielded as an ImageFailure with its reason; the
    rest goes on.

    Args:
        path: the folder.
        recursive: take the pictures of its sub-folders too.
        store: who prepares them; None = the store that all pipes of the process share.
        ahead: how many pictures to prepare before they are pulled.

    Raises:
        UsageError: no such folder, no picture in it, or two pictures of one key.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        recursive: bool = False,
        store: ImageStore | None = None,
        ahead: int = 4,
    ) -> None:
        self.path = Path(path)
        files = _picture_files(self.path, recursive)
        by_key: dict[str, Path] = {}
        for file in files:
            key = as_text(file.relative_to(self.path).with_suffix("").as_posix())
            if key in by_key:
                raise UsageError(f"{by_key[key]} and {file} would both be the picture {key!r}; rename one of them")
            by_key[key] = file
        super().__init__(
            [PictureFile(key, file, key, readable(as_text(file.stem))) for key, file in by_key.items()],
            store=store,
            ahead=ahead,
        )


def readable(stem: str) -> str:
    """A file's stem as a person would read it: `red_kettle-02` is "red kettle 02"."""
    return re.sub(r"[\s_.-]+", " ", stem).strip() or stem


def _picture_files(folder: Path, recursive: bool) -> list[Path]:
    if not folder.exists():
        raise UsageError(f"no such folder: {folder}")
    if not folder.is_dir():
        raise UsageError(f"not a folder: {folder}; give the folder that holds the pictures")
    found: list[Path] = []
    try:
        for parent, folders, names in os.walk(folder, onerror=_raise):
            folders[:] = [name for name in folders if recursive and not name.startswith(".")]
            found += [Path(parent, name) for name in names if may_be_picture(name)]
    except OSError as error:
        raise UsageError(f"cannot read the folder {error.filename}: {error.strerror or error}") from error
    if not found:
        below = "" if recursive else " (its sub-folders count with recursive=True)"
        raise UsageError(f"no pictures in {folder}{below}; put JPEG, PNG, WebP, AVIF or GIF files there")
    return sorted(found, key=lambda file: file.relative_to(folder).as_posix())


def may_be_picture(name: str) -> bool:
    """Whether a file of that name is to be looked at: not hidden, and not plainly something else."""
    hidden = name.startswith((".", "~"))
    return not (hidden or name.lower() in _FOREIGN_NAMES or _FOREIGN.search(name))


def _raise(error: OSError) -> None:
    raise error
