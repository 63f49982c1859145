"""From a picture file to pixels: header first, then decode, straighten, scale, bring into sRGB.

Blocking and free of state. With `multimodal.pipes.encode` the only module that imports Pillow.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageChops,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from multimodal.pipes.encode_headers import announced, late_exif, plain_png
from multimodal.pipes.encode_modes import common_mode, short_of_rows, to_srgb
from multimodal.pipes.intake import (
    ImageSettings,
    Moment,
    PictureRefused,
    Source,
    broken,
    no_picture,
    read_picture,
)

__all__ = ["Opened", "fit", "open_picture", "render"]


class _Jpeg(JpegImagePlugin.JpegImageFile):
    def getexif(self) -> Image.Exif:
        # The decoder looks for a resolution in it while it opens; metadata is no reason to lose a picture.
        try:
            return super().getexif()
        except Exception:
            return Image.Exif()


# Image.open() would try every format it knows and warn about large pictures of its own accord; the plugins
# named here are called directly, so that our own limit is the only one and nothing else is ever decoded.
_DECODERS: dict[str, Callable[..., Any]] = {
    "jpeg": _Jpeg,
    "png": PngImagePlugin.PngImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "bmp": BmpImagePlugin.BmpImageFile,
    "tiff": TiffImagePlugin.TiffImageFile,
    "avif": AvifImagePlugin.AvifImageFile,
}


def _decoder(kind: str, path: Path) -> Callable[..., Any]:
    if kind != "heic":
        return _DECODERS[kind]
    try:
        from pillow_heif import HeifImageFile
    except ImportError as error:
        raise no_picture(path, kind) from error
    decoder: Callable[..., Any] = HeifImageFile
    return decoder


_ORIENTATION_TAG, _PHOTOMETRIC_TAG = 0x0112, 0x0106
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation (TIFF 6.0, tag 274) -> what sets the picture upright; 1 needs nothing."""


class Opened(msgspec.Struct, frozen=True):
    """A picture file whose header was read: its decoder, its format and its bytes, and which of its frames is shown."""

    path: Path
    image: Any
    kind: str
    data: bytes
    frame: int = 0
    frames: int = 1

    @property
    def note(self) -> str:
        """What is said of a picture that was one of several; "" = it was not."""
        what = "page" if self.kind == "tiff" else "frame"
        return f"{what} {self.frame + 1} of {self.frames}" if self.frames > 1 else ""

    def size(self, max_px: int) -> tuple[int, int]:
        """Width and height in pixels once it is upright and its long side at most `max_px`."""
        width, height = self.image.size
        if _orientation(self) >= 5:
            width, height = height, width
        return fit(width, height, max_px)


def open_picture(source: Source, settings: ImageSettings) -> Opened:
    """Read the header only: nothing is decoded before the limits were checked. Of a video, decode the frame.

    Raises:
        PictureRefused: it cannot be shown, and why.
    """
    if isinstance(source, Moment):
        from multimodal.pipes.video import sharpest_frame

        pixels = sharpest_frame(source.path, settings, source.at, source.window)
        return Opened(source.path, Image.fromarray(pixels), "video", b"")
    path = source
    kind, data = read_picture(path, settings)
    head = announced(kind, data, settings.frame)
    if head.excessive:
        raise PictureRefused("unreadable", f"{path}: a {kind} file of {head.blocks:,} parts or more; export it anew")
    _within(path, head.width, head.height, head.frames, settings)
    decoder = _decoder(kind, path)
    try:
        image = decoder(io.BytesIO(plain_png(data) if kind == "png" else data), str(path))
        frames = getattr(image, "n_frames", 1) if kind == "avif" else head.frames
        frame = min(settings.frame, frames - 1)
        _turn_to(image, frame)
        width, height = image.size
    except PictureRefused:
        raise
    except Exception as error:  # decoders raise whatever they like on a broken header
        raise broken(path, kind, data, error) from error
    if kind == "png":
        # Asked for its EXIF, the decoder would decode the whole picture to see what follows: 2 s at 50 megapixels.
        image.info["exif"] = b"Exif\0\0" + late_exif(data)
    if min(width, height) < 1:
        raise PictureRefused("unreadable", f"{path}: {width} x {height} pixels; export it anew")
    _within(path, width, height, frames, settings)
    return Opened(path, image, kind, data, frame, frames)


def _within(path: Path, width: int, height: int, frames: int, settings: ImageSettings) -> None:
    if width * height > settings.max_pixels:
        raise PictureRefused(
            "too_many_pixels",
            f"{path}: {width} x {height} is {width * height / 1e6:.0f} megapixels, above the limit of "
            f"{settings.max_pixels / 1e6:g}; scale it down",
        )
    if frames > settings.max_frames:
        limit = f"above the limit of {settings.max_frames:,}"
        raise PictureRefused("too_many_frames", f"{path}: {frames:,} frames or pages, {limit}; shorten it")


def _turn_to(image: Any, frame: int) -> None:
    """Which frame a decode gives. A PNG's plain picture, for programs that know no animation, may be none of them."""
    hidden = int(getattr(image, "default_image", False))
    if frame + hidden:
        image.seek(frame + hidden)


def _orientation(opened: Opened) -> int:
    if opened.kind in {"tiff", "heic"}:  # their decoders set them upright
        return 1
    try:
        value = opened.image.getexif().get(_ORIENTATION_TAG, 1)
    except Exception:  # broken metadata is no reason to lose a picture
        return 1
    return value if value in _UPRIGHT else 1


def fit(width: int, height: int, longest: int) -> tuple[int, int]:
    """The same shape with no side above `longest` pixels; never enlarged."""
    scale = min(1.0, longest / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def render(opened: Opened, size: tuple[int, int], background: str) -> Image.Image:
    """Decode, at a reduced size where the format can, and bring into the shape that is shown.

    Args:
        opened: the file.
        size: width and height in pixels, from `Opened.size`.
        background: the colour behind what is see-through; "" = it stays see-through.

    Raises:
        PictureRefused: its data is broken.
    """
    path, image, kind, data = opened.path, opened.image, opened.kind, opened.data
    orientation = _orientation(opened)
    stored = (size[1], size[0]) if orientation >= 5 else size
    profile = image.info.get("icc_profile")
    try:
        if kind == "jpeg":
            image.draft(None, stored)
        image = _decoded(opened)
        grey = image.mode in {"1", "L", "LA", "I", "F"} or image.mode.startswith("I;16")
        plain = common_mode(image, inverted=kind == "tiff" and image.tag_v2.get(_PHOTOMETRIC_TAG) == 0)
        if plain.size != stored:
            plain = plain.resize(stored, Image.Resampling.LANCZOS, reducing_gap=2.0)
    except Exception as error:  # decoders raise whatever they like on broken data
        raise broken(path, kind, data, error) from error
    if orientation != 1:
        plain = plain.transpose(_UPRIGHT[orientation])
    alpha = plain.getchannel("A") if plain.mode == "RGBA" else None
    plain = plain.convert("RGB") if alpha else plain
    plain = to_srgb(plain.convert("L") if grey else plain, profile)
    if alpha and background:
        # After the colours are in sRGB, as the background is.
        behind = Image.new("RGB", plain.size, background)
        behind.paste(plain, mask=alpha)
        plain = behind
    elif alpha:
        plain.putalpha(alpha)
    plain.info.clear()  # GPS position, camera, comments: nothing of it is passed on
    return plain


def _decoded(opened: Opened) -> Any:
    image = opened.image
    if opened.kind == "gif":
        return _on_canvas(image, opened.frame)
    image.load()
    if opened.kind == "png" and not opened.frame and short_of_rows(image, opened.data):
        raise OSError("image file is truncated")
    return image


def _on_canvas(image: Any, frame: int) -> Any:
    """A frame of a GIF: where none was drawn yet one sees the page, as browsers do, and no colour of the palette."""
    drawn = Image.new("L", image.size, 0)
    for number in range(frame + 1) if frame else ():
        image.seek(number)
        drawn.paste(255, image.dispose_extent)
    image.load()
    drawn.paste(255, image.dispose_extent)
    if drawn.getextrema() == (255, 255):
        return image
    plain = image.convert("RGBA")
    plain.putalpha(ImageChops.multiply(plain.getchannel("A"), drawn))
    plain.info.update(image.info)
    return plain
