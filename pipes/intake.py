"""What a picture file is, and whether it is taken: the first bytes decide, and every refusal has its own
word.

No picture library here: a decoder would call a HEIC, an SVG, an empty file and a web page all the same.
"""

from __future__ import annotations

import hashlib
import re
import stat
from pathlib import Path

import msgspec

from multimodal.errors import PipeError, UsageError

__all__ = ["ImageSettings", "Moment", "PictureRefused", "Source", "broken", "content_of", "read_picture", "sniff"]

_ADVICE = {
    "empty": "the file is empty (0 bytes); copy it again",
    "heic": "HEIC pictures cannot be decoded here; export it as JPEG, PNG or WebP",
    "svg": "SVG drawings are not supported; export it as PNG or WebP",
    "html": "this is a web page, not a picture (often an error page saved by a download); download it again",
    "video": "this is a video; VideoImagePipe shows its frames, and a folder or catalogue its beginning as a clip",
    "unknown_format": "not a picture that is known here; use JPEG, PNG, WebP, AVIF, GIF, BMP or TIFF",
}
_MAGIC = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
)
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
_VIDEO_BRANDS = (b"isom", b"iso2", b"mp41", b"mp42", b"avc1", b"M4V ", b"qt  ", b"dash")
_HEAD_BYTES = 1024


class PictureRefused(PipeError):  # noqa: N818 - a verdict on the picture
    """A picture that cannot be shown.

    Args:
        reason: a short word: empty, heic, svg, html, video, unknown_format, truncated, too_many_pixels,
            too_many_bytes, not_found, unreadable, timeout.
        message: what, where, and what to do.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Moment(msgspec.Struct, frozen=True):
    """A place in a product video: what is on the screen then stands for the picture.

    Args:
        path: the video's file.
        at: seconds from its beginning.
        window: seconds before and after in which the sharpest frame is looked for.
    """

    path: Path
    at: float = 0.0
    window: float = 0.25


Source = Path | Moment
"""Where a picture comes from: a picture file, or a moment of a video."""


class ImageSettings(msgspec.Struct, frozen=True):
    """What a picture may be and what becomes of it.

    Args:
        max_px: pixels of the long side after preparation; smaller pictures are never enlarged.
        quality: 1 to 100, lowered for a picture that is above the budget of its size.
        background: the colour behind what is see-through, as ``#rrggbb``, such as the page's in a dark theme; "" = it
            stays see-through (but in JPEG, where it is white).
        max_pixels: largest picture that is decoded, width times height.
        max_bytes: largest file that is read.
        preview_px: pixels of the preview's long side.

    Raises:
        UsageError: a number out of range.
    """

    max_px: int = 1280
    quality: int = 80
    max_pixels: int = 50_000_000
    max_bytes: int = 64 * 1024 * 1024
    preview_px: int = 16
    background: str = "#ffffff"

    def __post_init__(self) -> None:
        for name, low, high in (
            ("max_px", 1, 16_383),  # as large as WebP can be
            ("quality", 1, 100),
            ("max_pixels", 1, 2**31),
            ("max_bytes", 1, 2**31),
            ("preview_px", 1, 64),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"ImageSettings {name}={value} must lie between {low} and {high}")
        if self.background and not re.fullmatch("#[0-9a-fA-F]{6}", self.background):
            raise UsageError(f"ImageSettings background={self.background!r} is no colour; write #rrggbb, or nothing")


def sniff(head: bytes) -> str:
    """What the first bytes of a file say it is, whatever its name says.

    Args:
        head: the first 1,024 bytes, or all there are.

    Returns:
        jpeg, png, webp, gif, bmp, tiff, avif; or a reason to refuse it: empty, heic, svg, html, video,
        unknown_format.
    """
    if not head:
        return "empty"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[4:8] == b"ftyp":
        brands = head[8 : int.from_bytes(head[:4], "big")]
        if b"avif" in brands or b"avis" in brands:
            return "avif"
        if any(brand in brands for brand in _HEIF_BRANDS):
            return "heic"
        return "video" if any(brand in brands for brand in _VIDEO_BRANDS) else "unknown_format"
    if head.startswith(b"\x1aE\xdf\xa3"):
        return "video"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith(b"<"):
        if any(mark in text for mark in (b"<!doctype html", b"<html", b"<head>", b"<body")):
            return "html"
        if b"<svg" in text:
            return "svg"
    return "unknown_format"


def read_picture(path: Path, settings: ImageSettings) -> tuple[str, bytes]:
    """The format and the bytes of a picture file within the limits.

    Args:
        path: the file.
        settings: its limits.

    Raises:
        PictureRefused: not_found, unreadable, too_many_bytes, or what `sniff` found in a picture's stead.
    """
    data = _read(path, settings)
    kind = sniff(data[:_HEAD_BYTES])
    if kind in _ADVICE:
        raise PictureRefused(kind, f"{path}: {_ADVICE[kind]}")
    return kind, data


def _read(path: Path, settings: ImageSettings) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a FIFO would block its thread for ever
            raise PictureRefused("unreadable", f"{path}: not a regular file")
        if status.st_size > settings.max_bytes:
            raise PictureRefused(
                "too_many_bytes",
                f"{path}: {status.st_size:,} bytes, above the limit of {settings.max_bytes:,}; compress it",
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise PictureRefused("not_found", f"{path}: no such file") from error
    except OSError as error:
        raise PictureRefused("unreadable", f"{path}: {error.strerror or error}") from error


def content_of(source: Source, settings: ImageSettings) -> str:
    """SHA-256 of what a picture is made of, hex: two names of one picture are one picture.

    Raises:
        PictureRefused: not_found, unreadable, too_many_bytes.
    """
    if isinstance(source, Moment):
        place = f"{source.at:.6f} {source.window:.6f} "
        return hashlib.sha256(place.encode() + _read(source.path, settings)).hexdigest()
    return hashlib.sha256(_read(source, settings)).hexdigest()


def broken(path: Path, kind: str, data: bytes, error: Exception) -> PictureRefused:
    """Why a decoder failed, told from the file itself: decoders report a cut file in a dozen ways."""
    if isinstance(error, MemoryError):
        return PictureRefused("unreadable", f"{path}: not enough memory to decode it; scale it down")
    if "truncated" in str(error).lower() or _cut_short(kind, data):
        return PictureRefused("truncated", f"{path}: the {kind} file ends too early; copy it again")
    return PictureRefused("unreadable", f"{path}: broken {kind} file ({str(error) or type(error).__name__})")


def _cut_short(kind: str, data: bytes) -> bool:
    """Whether the end that the format prescribes is missing."""
    tail = data[-64:]
    if kind == "jpeg":
        return b"\xff\xd9" not in tail
    if kind == "png":
        return b"IEND" not in tail
    if kind == "gif":
        return not data.rstrip(b"\x00").endswith(b";")
    if kind == "webp":
        return int.from_bytes(data[4:8], "little") + 8 > len(data)
    if kind == "bmp":
        return int.from_bytes(data[2:6], "little") > len(data)
    return False
