"""From a picture file to pixels: header first, then decode, straighten, scale, bring into sRGB.

Blocking and free of state. With `multimodal.pipes.encode` the only module that imports Pillow.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageCms,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from multimodal.pipes.intake import ImageSettings, Moment, PictureRefused, Source, broken, read_picture

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

_PNG_METADATA = {"exif", "Raw profile type exif", "XML:com.adobe.xmp", "xmp"}
_ORIENTATION_TAG = 0x0112
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
    """A picture file whose header was read: its decoder, its format and its bytes."""

    path: Path
    image: Any
    kind: str
    data: bytes

    def size(self, max_px: int) -> tuple[int, int]:
        """Width and height in pixels once it is upright and its long side at most `max_px`."""
        width, height = self.image.size
        if _orientation(self.image) >= 5:
            width, height = height, width
        return fit(width, height, max_px)


def open_picture(source: Source, settings: ImageSettings) -> Opened:
    """Read the header only: nothing is decoded before the limits were checked. Of a video, decode the frame.

    Raises:
        PictureRefused: it cannot be shown, and why.
    """
    if isinstance(source, Moment):
        from multimodal.pipes.video import sharpest_frame

        frame = sharpest_frame(source.path, settings, source.at, source.window)
        return Opened(source.path, Image.fromarray(frame), "video", b"")
    path = source
    kind, data = read_picture(path, settings)
    try:
        image = _DECODERS[kind](io.BytesIO(data), str(path))
    except Exception as error:  # decoders raise whatever they like on a broken header
        raise broken(path, kind, data, error) from error
    if kind == "png" and not _PNG_METADATA & image.info.keys():
        # Asked for its EXIF, the decoder would decode the whole picture to see what follows: 2 s at 50 megapixels.
        image.info["exif"] = b"Exif\0\0" + _late_exif(data)
    width, height = image.size
    if width * height > settings.max_pixels:
        raise PictureRefused(
            "too_many_pixels",
            f"{path}: {width} x {height} is {width * height / 1e6:.0f} megapixels, above the limit of "
            f"{settings.max_pixels / 1e6:g}; scale it down",
        )
    return Opened(path, image, kind, data)


def _late_exif(data: bytes) -> bytes:
    """The eXIf chunk of a PNG wherever it stands (some programs write it behind the pixels)."""
    place = 8
    while place + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"eXIf":
            return data[place + 8 : place + 8 + size]
        place += size + 12
    return b""


def _orientation(image: Any) -> int:
    try:
        value = image.getexif().get(_ORIENTATION_TAG, 1)
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
    orientation = _orientation(image)
    stored = (size[1], size[0]) if orientation >= 5 else size
    profile = image.info.get("icc_profile")
    try:
        if kind == "jpeg":
            image.draft(None, stored)
        image.load()
        plain = _common_mode(image)
        if plain.size != stored:
            plain = plain.resize(stored, Image.Resampling.LANCZOS, reducing_gap=2.0)
    except Exception as error:  # decoders raise whatever they like on broken data
        raise broken(path, kind, data, error) from error
    if orientation != 1:
        plain = plain.transpose(_UPRIGHT[orientation])
    alpha = plain.getchannel("A") if plain.mode == "RGBA" else None
    plain = _to_srgb(plain.convert("RGB") if alpha else plain, profile)
    if alpha and background:
        # After the colours are in sRGB, as the background is.
        behind = Image.new("RGB", plain.size, background)
        behind.paste(plain, mask=alpha)
        plain = behind
    elif alpha:
        plain.putalpha(alpha)
    plain.info.clear()  # GPS position, camera, comments: nothing of it is passed on
    return plain


def _common_mode(image: Image.Image) -> Image.Image:
    """One of L, RGB, RGBA, CMYK: what can be resized well."""
    if image.mode.startswith("I;16"):
        # convert("L") clips: everything above 255 of 65,535 would turn white.
        return image.convert("I").point(lambda value: value * (255 / 65535)).convert("L")
    if image.mode in {"I", "F"}:
        low, high = (float(edge) for edge in image.getextrema())  # type: ignore[arg-type]
        scale = 255 / ((high - low) or 1.0)
        return image.point(lambda value: value * scale + -low * scale).convert("L")
    if image.has_transparency_data:
        return image.convert("RGBA")
    if image.mode in {"L", "RGB", "CMYK"}:
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def _to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Colours are meant as the embedded profile says; without it browsers take them for sRGB."""
    if profile and image.mode in {"RGB", "CMYK"}:
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            if "sRGB" not in ImageCms.getProfileDescription(source):
                target = ImageCms.createProfile("sRGB")
                converted = ImageCms.profileToProfile(image, source, target, outputMode="RGB")
                if converted is not None:
                    return converted
        except (ImageCms.PyCMSError, OSError, ValueError):
            pass  # a profile that cannot be used is left aside, as browsers do
    return image.convert("RGB")
