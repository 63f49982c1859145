"""What a picture file announces before a decoder sees it, and a PNG without the chunks that do not show. Pure.

Decoders judge sizes by limits of their own, count frames by decoding them, and give a picture up for a comment that is
broken or unpacks to gigabytes. So the headers of the formats that allow this are read here first.
"""

from __future__ import annotations

import struct
import zlib

import msgspec

__all__ = ["Announced", "announced", "late_exif", "plain_png"]

_SHOWN = frozenset({b"tRNS", b"acTL", b"fcTL", b"fdAT"})
"""Chunks of a PNG that change what is seen, beside the critical ones, whose names begin with a capital letter."""
_MOST_BLOCKS = 200_000
"""Chunks and blocks of one file: 64 MB of pixels make 8,000 to 60,000 (a GIF's, read four at a time); millions of empty
ones are an attack on whoever walks over them."""
_MOST_PROFILE = 4 * 1024 * 1024
"""Bytes of an unpacked colour profile; the largest of presses and printers have 3 MB."""


class Announced(msgspec.Struct, frozen=True):
    """Width and height in pixels (0 = its decoder tells them), pictures in the file, blocks that were walked over."""

    width: int = 0
    height: int = 0
    frames: int = 1
    blocks: int = 0

    @property
    def excessive(self) -> bool:
        """More blocks than any picture needs; counting stopped there."""
        return self.blocks >= _MOST_BLOCKS


def announced(kind: str, data: bytes, frame: int = 0) -> Announced:
    """What the header says, of a PNG, GIF, WebP or TIFF.

    Args:
        kind: the format, from `sniff`.
        data: the file.
        frame: the frame that is to be shown: a GIF is as large as its frames up to that one.
    """
    reader = {"png": _png, "webp": _webp, "tiff": _tiff}.get(kind)
    try:
        if kind == "gif":
            return _gif(data, frame)
        return reader(data) if reader else Announced()
    except (struct.error, IndexError):  # cut short: its decoder says so
        return Announced()


def _png(data: bytes) -> Announced:
    width, height = struct.unpack_from(">II", data, 16)
    frames, place, blocks = 1, 8, 0
    while place + 8 <= len(data) and blocks < _MOST_BLOCKS:
        size, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"acTL" and size >= 8:
            frames = max(1, *struct.unpack_from(">I", data, place + 8))
        place, blocks = place + size + 12, blocks + 1
    return Announced(width, height, frames, blocks)


def _webp(data: bytes) -> Announced:
    if data[12:16] != b"VP8X":
        return Announced()
    width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    place, frames, blocks = 12, 0, 0
    while place + 8 <= len(data) and blocks < _MOST_BLOCKS:
        (size,) = struct.unpack_from("<I", data, place + 4)
        frames += data[place : place + 4] == b"ANMF"
        place, blocks = place + 8 + size + size % 2, blocks + 1
    return Announced(width, height, max(1, frames), blocks)


def _tiff(data: bytes) -> Announced:
    """Pages: directories that point to each other, in a ring where somebody meant harm."""
    order = "<" if data[:2] == b"II" else ">"
    big = data[2:4] in {b"+\x00", b"\x00+"}
    at, count, entry, offset = (8, f"{order}Q", 20, f"{order}Q") if big else (4, f"{order}H", 12, f"{order}I")
    (place,) = struct.unpack_from(offset, data, at)
    seen: set[int] = set()
    while place and place not in seen and place < len(data) and len(seen) < _MOST_BLOCKS:
        seen.add(place)
        (tags,) = struct.unpack_from(count, data, place)
        behind = place + struct.calcsize(count) + tags * entry
        if behind + struct.calcsize(offset) > len(data):
            break
        (place,) = struct.unpack_from(offset, data, behind)
    return Announced(frames=max(1, len(seen)), blocks=len(seen))


def _gif(data: bytes, frame: int) -> Announced:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    place = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    frames = blocks = 0
    while place < len(data) and data[place] != 0x3B and blocks < _MOST_BLOCKS:
        blocks += 1
        if data[place] == 0x2C:
            left, top, wide, high, flags = struct.unpack_from("<4HB", data, place + 1)
            if frames <= frame:
                width, height = max(width, left + wide), max(height, top + high)
            frames += 1
            place += 11 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        elif data[place] == 0x21:
            place += 2
        else:
            place += 1
            continue
        steps = 0
        while place < len(data) and data[place]:
            place, steps = place + 1 + data[place], steps + 1
        place, blocks = place + 1, blocks + steps // 4
    return Announced(width, height, max(1, frames), blocks)


def plain_png(data: bytes) -> bytes:
    """A PNG without texts, times and whatever else does not show; a colour profile stays if it is of use.

    A broken sum or a bomb in what is left out then costs nothing. Sums of what stays are the decoder's to check.
    """
    kept: list[bytes | memoryview] = [data[:8]]
    view, place, dropped = memoryview(data), 8, False
    while place + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        end = place + size + 12
        if kind[:1].isupper() or kind in _SHOWN or (kind == b"iCCP" and _useful(data[place + 8 : end - 4])):
            kept.append(view[place:end])
        else:
            dropped = True
        place = end
        if kind == b"IEND":
            break
    return b"".join([*kept, view[place:]]) if dropped else data


def _useful(body: bytes) -> bool:
    """Whether the profile unpacks, to a size that profiles have."""
    name, _, packed = body.partition(b"\0")
    unpack = zlib.decompressobj()
    try:
        found = unpack.decompress(packed[1:], _MOST_PROFILE)
    except zlib.error:
        return False
    return bool(name) and unpack.eof and len(found) >= 128


def late_exif(data: bytes) -> bytes:
    """The eXIf chunk of a PNG wherever it stands (some programs write it behind the pixels)."""
    place = 8
    while place + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"eXIf":
            return data[place + 8 : place + 8 + size]
        place += size + 12
    return b""
