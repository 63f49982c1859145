"""What a picture file is, and whether it is taken: the first bytes decide, and every refusal has its own
word.

No picture library here: a decoder would call a HEIC, an SVG, an empty file and a web page all the same.
"""

from __future__ import annotations

import codecs
import hashlib
import re
import stat
from pathlib import Path

import msgspec

from multimodal.errors import PipeError, UsageError

__all__ = [
    "ImageSettings",
    "Moment",
    "PictureRefused",
    "Source",
    "broken",
    "content_of",
    "no_picture",
    "read_picture",
    "sniff",
]

_ADVICE = {
    "empty": "the file is empty (0 bytes); copy it again",
    "heic": "HEIC pictures need one more library, pip install 'multimodal-stream[heic]'; or export it as JPEG or PNG",
    "svg": "SVG drawings are not supported; export it as PNG or WebP",
    "html": "this is a web page, not a picture (often an error page saved by a download); download it again",
    "video": "this is a video; rename it to end in .mp4 or .webm, and a folder or catalogue shows its beginning as a "
    "clip; VideoImagePipe shows its frames",
    "unknown_format": "{} use JPEG, PNG, WebP, AVIF, GIF, BMP or TIFF",
}
_MAGIC = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
)
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
_VIDEO_BRANDS = (b"isom", b"iso2", b"mp41", b"mp42", b"avc1", b"M4V ", b"qt  ", b"dash")
_BITMAP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
"""Sizes of the header behind "BM", by which a bitmap is told from a text about BMW."""
_STRANGERS = (
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "packed with gzip"),
    (b"8BPS", "a Photoshop file"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"\x00\x00\x00\x0cjP", "a JPEG 2000 picture"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000 picture"),
    (b"\x00\x00\x00\x0cJXL", "a JPEG XL picture"),
    (b"\xff\x0a", "a JPEG XL picture"),
)
_HEAD_BYTES = 4096


class PictureRefused(PipeError):  # noqa: N818 - a verdict on the picture
    """A picture that cannot be shown.

    Args:
        reason: a short word: empty, heic, svg, html, video, unknown_format, truncated, too_many_pixels,
            too_many_frames, too_many_bytes, not_found, unreadable, timeout.
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
        frame: which frame of an animation, or page of a TIFF, is shown, from 0; behind the last, the last.
        max_frames: most frames of a file that is decoded.

    Raises:
        UsageError: a number out of range.
    """

    max_px: int = 1280
    quality: int = 80
    max_pixels: int = 50_000_000
    max_bytes: int = 64 * 1024 * 1024
    preview_px: int = 16
    background: str = "#ffffff"
    frame: int = 0
    max_frames: int = 2_000

    def __post_init__(self) -> None:
        for name, low, high in (
            ("max_px", 1, 16_383),  # as large as WebP can be
            ("quality", 1, 100),
            ("max_pixels", 1, 2**31),
            ("max_bytes", 1, 2**31),
            ("preview_px", 1, 64),
            ("frame", 0, 2**31),
            ("max_frames", 1, 2**31),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"ImageSettings {name}={value} must lie between {low} and {high}")
        if self.background and not re.fullmatch("#[0-9a-fA-F]{6}", self.background):
            raise UsageError(f"ImageSettings background={self.background!r} is no colour; write #rrggbb, or nothing")


def sniff(head: bytes) -> str:
    """What the first bytes of a file say it is, whatever its name says.

    Args:
        head: the first 4,096 bytes, or all there are; with fewer, a web page or drawing that begins with long comments
            is an unknown format.

    Returns:
        jpeg, png, webp, gif, bmp, tiff, avif, heic; or a reason to refuse it: empty, svg, html, video, unknown_format.
    """
    if not head:
        return "empty"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BITMAP_HEADERS:
        return "bmp"
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
    text = _text(head).lower()
    if text.startswith("<"):
        if any(mark in text for mark in ("<!doctype html", "<html", "<head>", "<body")):
            return "html"
        if "<svg" in text:
            return "svg"
    return "unknown_format"


def _text(head: bytes) -> str:
    """The head as text without what stands before it; "" = it is none."""
    try:
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            text = head[: len(head) // 2 * 2].decode("utf-16", "replace")
        else:
            # A character may be cut at the end of the head.
            text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        text = head.decode("latin-1") if head.lstrip().startswith(b"<") else ""
    return "" if any(ord(letter) < 32 and letter not in "\t\n\r\f\x1b" for letter in text) else text.lstrip()


def _stranger(head: bytes) -> str:
    """What something is that is no picture, for its owner."""
    for magic, name in _STRANGERS:
        if head.startswith(magic):
            return f"it is {name};"
    text = _text(head)
    if not text:
        return "not a picture that is known here;"
    what = "JSON" if text[0] in "{[" else "XML" if text.startswith("<") else "text"
    return f"it is {what} and not a picture (often an error that was saved by a download);"


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
    if kind in _ADVICE and kind != "heic":
        raise no_picture(path, kind, data)
    return kind, data


def no_picture(path: Path, kind: str, data: bytes = b"") -> PictureRefused:
    """Why a file of that kind is not shown, and what to do."""
    return PictureRefused(kind, f"{path}: {_ADVICE[kind].format(_stranger(data[:_HEAD_BYTES]))}")


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
        with open(path, "rb") as file:
            data = file.read(settings.max_bytes + 1)
        if len(data) > settings.max_bytes:  # it grew, or does not say how large it is
            limit = f"{settings.max_bytes:,} bytes"
            raise PictureRefused("too_many_bytes", f"{path}: more than the limit of {limit}; compress it")
        return data
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
    if any(word in str(error).lower() for word in ("truncated", "not enough image data")) or _cut_short(kind, data):
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
    if kind == "tiff" and data[2:4] in {b"*\x00", b"\x00*"}:
        # Its directory often stands at the end.
        return int.from_bytes(data[4:8], "little" if data[:2] == b"II" else "big") >= len(data)
    return kind in {"avif", "heic"} and _box_beyond(data)


def _box_beyond(data: bytes) -> bool:
    """Whether a box reaches beyond the end (ISO 14496-12); the last may say 0, to the end."""
    place = 0
    while place + 8 <= len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        if size == 1:
            size = int.from_bytes(data[place + 8 : place + 16], "big")
        if size < 8:
            return False
        place += size
    return place != len(data)
