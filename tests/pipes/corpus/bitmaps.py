"""BMP: packed, upside down, see-through, old, and cut. libvips reads none; the colours are known by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from tests.pipes.corpus.chart import CHART, PATCH, Odd, chart, data_of, picture, write
from tests.pipes.corpus.jpegs import noise
from tests.pipes.corpus.pngs import alpha, see_through

__all__ = ["make"]

WIDTH, HEIGHT = 4 * PATCH, 2 * PATCH


def bmp(
    pixels: bytes, depth: int, packing: int = 0, height: int = HEIGHT, palette: bytes = b"", masks: bytes = b""
) -> bytes:
    """A BMP by hand: the header of Windows 3, or of Windows 95 where it names an alpha mask.

    Args:
        pixels: rows as they are stored.
        depth: bits a pixel.
        packing: 0 = none, 1 = RLE8, 2 = RLE4, 3 = masks.
        height: negative = the first row is the top one.
        palette: four bytes a colour.
        masks: red, green, blue and alpha, four bytes each.
    """
    size = 108 if masks else 40
    head = struct.pack(
        "<IiiHHIIiiII", size, WIDTH, height, 1, depth, packing, len(pixels), 2835, 2835, len(palette) // 4, 0
    )
    head += masks.ljust(68, b"\0") if masks else b""
    start = 14 + len(head) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + head + palette + pixels


def make(folder: Path) -> list[Odd]:
    """Write them all."""
    rgb = chart()
    bgr = rgb[..., ::-1]
    palette = bytes(part for color in CHART for part in (*reversed(color), 0))
    rows = np.arange(8).reshape(2, 4)
    runs = b"".join(
        b"".join(bytes((PATCH, int(place))) for place in rows[row // PATCH]) + b"\0\0"
        for row in reversed(range(HEIGHT))
    )
    nibbles = b"".join(
        b"".join(bytes((PATCH, int(place) * 17)) for place in rows[row // PATCH]) + b"\0\0"
        for row in reversed(range(HEIGHT))
    )
    masks = struct.pack("<4I", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    with_alpha = np.dstack([bgr, alpha().astype(np.uint8)])[::-1].astype(np.uint8).tobytes()
    zero = np.dstack([bgr, np.zeros((HEIGHT, WIDTH), np.uint8)])[::-1].astype(np.uint8).tobytes()
    deep = rgb.astype(np.uint16)
    five = ((deep[..., 0] >> 3) << 11 | (deep[..., 1] >> 2) << 5 | deep[..., 2] >> 3).astype("<u2")
    masks565 = struct.pack("<4I", 0xF800, 0x7E0, 0x1F, 0)
    old = b"BM" + struct.pack("<IHHI", 26 + rgb.size, 0, 0, 26) + struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, 24)
    cut = data_of(noise(), "BMP")
    bomb = bytearray(bmp(b"", 24))
    struct.pack_into("<ii", bomb, 18, 60_000, 60_000)
    files = [
        (data_of(picture(), "BMP"), Odd("plain.bmp", vips=False)),
        (bmp(runs + b"\0\1", 8, 1, palette=palette), Odd("rle8.bmp", vips=False)),
        (bmp(nibbles + b"\0\1", 4, 2, palette=palette), Odd("rle4.bmp", vips=False)),
        (bmp(bgr.tobytes(), 24, height=-HEIGHT), Odd("top-down.bmp", vips=False)),
        (bmp(zero, 32), Odd("32-bit.bmp", vips=False)),
        (bmp(with_alpha, 32, 3, masks=masks), Odd("alpha.bmp", vips=False, patches=see_through(CHART))),
        (bmp(five[::-1].tobytes(), 16, 3, masks=masks565), five_bits("16-bit.bmp")),
        (old + bgr[::-1].tobytes(), Odd("os2.bmp", vips=False)),
        (cut[: len(cut) // 2], Odd("cut.bmp", "truncated")),
        (cut[:20], Odd("cut-head.bmp", "truncated")),
        (bytes(bomb), Odd("bomb.bmp", "too_many_pixels")),
        (bmp(runs[:50], 8, 1, palette=palette), Odd("rle8-cut.bmp", "truncated", vips=False)),
        (b"BMW and Mini: a catalogue of spare parts", Odd("letter.bmp", "unknown_format", says="text")),
    ]
    return [write(folder, data, odd) for data, odd in files]


def five_bits(name: str) -> Odd:
    """Five and six bits a channel, stretched to eight."""
    patches = tuple(
        (round((r >> 3) * 255 / 31), round((g >> 2) * 255 / 63), round((b >> 3) * 255 / 31)) for r, g, b in CHART
    )
    return Odd(name, vips=False, patches=patches)
