"""The frames of a product video as an image pipe: at given times, or all around a turntable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from multimodal.errors import UsageError
from multimodal.pipes.images import ImageStore
from multimodal.pipes.intake import PictureRefused, sniff
from multimodal.pipes.prepared import PictureFile, PreparedImagePipe
from multimodal.pipes.video import VideoFacts, read_facts
from multimodal.values import check_seconds

__all__ = ["VideoImagePipe"]

_PICTURES = ("jpeg", "png", "webp", "gif", "bmp", "tiff", "avif", "heic")


class VideoImagePipe(PreparedImagePipe):
    """Frames of a video, each the sharpest near its time, prepared for the web in worker threads.

    Args:
        path: the video.
        frames: key -> seconds from the beginning, in the order in which the pictures come.
        views: instead of `frames`, so many pictures at equal distances, as of a turntable: view 1 at the beginning,
            none at the end, where it would show the beginning again. Keys: the file's stem and the number.
        product: id of the product that they show.
        alt: their alternative text; None = the key, readably.
        window: seconds around each time in which the sharpest frame is looked for; with `views` at most a quarter of
            the distance between two, so that no two of them are the same frame.
        store: who prepares them; None = the store that all pipes of the process share.
        ahead: how many to prepare before they are pulled.

    Raises:
        UsageError: neither or both of `frames` and `views`, a wrong number, a still picture, or a file that holds no
            video.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        frames: Mapping[str, float] | None = None,
        *,
        views: int = 0,
        product: str = "",
        alt: str | None = None,
        window: float = 0.25,
        store: ImageStore | None = None,
        ahead: int = 4,
    ) -> None:
        path = Path(path)
        if isinstance(views, bool) or not isinstance(views, int):
            raise UsageError(f"VideoImagePipe views={views!r} is no number of pictures; give a whole number")
        if frames is not None and not isinstance(frames, Mapping):
            raise UsageError(f"VideoImagePipe frames is a {type(frames).__name__}; give {{key: seconds}}")
        if (frames is None) == (views == 0) or views < 0 or (frames is not None and not frames):
            raise UsageError("VideoImagePipe needs either frames={key: seconds} or views=NUMBER of 1 or more")
        check_seconds("VideoImagePipe window", window)
        for key, at in (frames or {}).items():
            check_seconds(f"VideoImagePipe frames[{key!r}]", at)
        if (kind := _still(path)) is not None:
            raise UsageError(f"{path} is a still picture ({kind}) and no video; give it to a FolderImagePipe")
        self.facts = _facts(path, store)
        if frames is None:
            if not self.facts.seconds:
                raise UsageError(f"{path} does not say how long it is; give frames={{key: seconds}} instead of views")
            frames = {f"{path.stem}-{view + 1}": self.facts.seconds * view / views for view in range(views)}
            window = min(window, self.facts.seconds / views / 4)
        readable = {key: key.replace("-", " ").replace("_", " ") if alt is None else alt for key in frames}
        super().__init__(
            [PictureFile(key, path, product, readable[key], at=float(at), window=window) for key, at in frames.items()],
            store=store,
            ahead=ahead,
        )


def _still(path: Path) -> str | None:
    """Which kind of picture a file is, where it is one that does not move: a decoder of videos takes it for a frame."""
    try:
        with path.open("rb") as file:
            kind = sniff(file.read(4096))
    except OSError:
        return None  # whoever reads it says why
    if kind not in _PICTURES:
        return None
    try:
        with Image.open(path) as picture:
            return kind if getattr(picture, "n_frames", 1) == 1 else None
    except (OSError, ValueError):
        return kind


def _facts(path: Path, store: ImageStore | None) -> VideoFacts:
    from multimodal.pipes.images import shared_store

    try:
        return read_facts(path, (store or shared_store()).settings)
    except PictureRefused as refused:
        raise UsageError(str(refused)) from refused
