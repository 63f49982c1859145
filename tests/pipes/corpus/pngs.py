"""PNG: every depth and kind of colour, chunks where they should not be, sums that are wrong, and bombs."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pyvips
from numpy.typing import NDArray

from tests.pipes.corpus.chart import CHART, GREYS, PATCH, WHITE, Color, Odd, chart, data_of, grey, picture, write
from tests.pipes.corpus.jpegs import noise, turned, with_exif
from tests.pipes.corpus.profiles import in_wide_gamut, wide_gamut

__all__ = ["SIGNATURE", "chunk", "make", "png", "see_through"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
_CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}


def chunk(kind: bytes, body: bytes) -> bytes:
    """One chunk with its sum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(samples: NDArray[np.generic], depth: int, color: int, before: bytes = b"", behind: bytes = b"") -> bytes:
    """A PNG by hand (W3C PNG, third edition).

    Args:
        samples: [height, width, channels], or without channels where there is one.
        depth: bits a sample.
        color: colour type.
        before: chunks before the pixels.
        behind: chunks behind them.
    """
    rows = samples.reshape(samples.shape[0], -1)
    if depth == 16:
        raw = rows.astype(">u2").view(np.uint8).reshape(len(rows), -1)
    elif depth == 8:
        raw = rows.astype(np.uint8)
    else:
        bits = np.unpackbits(rows.astype(np.uint8)[..., None], axis=2)[..., 8 - depth :]
        raw = np.packbits(bits.reshape(len(rows), -1), axis=1)
    filtered = np.hstack([np.zeros((len(raw), 1), np.uint8), raw]).tobytes()
    width = rows.shape[1] // _CHANNELS[color]
    head = struct.pack(">IIBBBBB", width, len(rows), depth, color, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(filtered, 1))
    return SIGNATURE + chunk(b"IHDR", head) + before + pixels + behind + chunk(b"IEND", b"")


def see_through(colors: tuple[Color, ...]) -> tuple[Color, ...]:
    """What is shown of a chart whose second and seventh patch are see-through, on white."""
    return tuple(WHITE if place in {1, 6} else color for place, color in enumerate(colors))


def alpha(peak: int = 255) -> NDArray[np.uint16]:
    """The alpha channel of such a chart, [height, width, 1]."""
    mask = np.full(8, peak, np.uint16)
    mask[[1, 6]] = 0
    return mask.reshape(2, 4, 1).repeat(PATCH, axis=0).repeat(PATCH, axis=1)


def make(folder: Path) -> list[Odd]:
    """Write them all."""
    rgb, one = chart(), np.asarray(grey())
    places = np.arange(8, dtype=np.uint8).reshape(2, 4).repeat(PATCH, axis=0).repeat(PATCH, axis=1)
    palette = chunk(b"PLTE", bytes(part for color in CHART for part in color))
    plain = png(rgb, 8, RGB)
    huge = zlib.compress(bytes(200_000_000), 1)
    exif = chunk(b"eXIf", with_exif(6, gps=True).tobytes()[6:])
    two = np.where(np.arange(8) < 4, 0, 1).reshape(2, 4).repeat(PATCH, axis=0).repeat(PATCH, axis=1)
    bilevel: tuple[Color, ...] = ((0, 0, 0),) * 4 + (WHITE,) * 4
    shown = {
        "1-bit.png": (png(two, 1, GREY), Odd("1-bit.png", patches=bilevel)),
        "2-bit.png": (
            png(places % 4, 2, GREY),
            Odd("2-bit.png", patches=tuple((v * 85,) * 3 for v in (0, 1, 2, 3)) * 2),
        ),
        "4-bit-palette.png": (png(places, 4, PALETTE, palette), Odd("4-bit-palette.png")),
        "8-bit-palette.png": (png(places, 8, PALETTE, palette), Odd("8-bit-palette.png")),
        "palette-alpha.png": (
            png(places, 8, PALETTE, palette + chunk(b"tRNS", b"\xff\x00\xff\xff\xff\xff\x00\xff")),
            Odd("palette-alpha.png", patches=see_through(CHART)),
        ),
        "grey.png": (png(one, 8, GREY), Odd("grey.png", patches=GREYS)),
        "16-bit-grey.png": (png(one.astype(np.uint16) * 257, 16, GREY), Odd("16-bit-grey.png", patches=GREYS)),
        "16-bit-grey-key.png": (
            png(one.astype(np.uint16) * 257, 16, GREY, chunk(b"tRNS", struct.pack(">H", GREYS[1][0] * 257))),
            Odd("16-bit-grey-key.png", patches=(GREYS[0], WHITE, *GREYS[2:])),
        ),
        "grey-key.png": (
            png(one, 8, GREY, chunk(b"tRNS", struct.pack(">H", GREYS[1][0]))),
            Odd("grey-key.png", patches=(GREYS[0], WHITE, *GREYS[2:])),
        ),
        "color-key.png": (
            png(rgb, 8, RGB, chunk(b"tRNS", struct.pack(">3H", *CHART[1]))),
            Odd("color-key.png", patches=(CHART[0], WHITE, *CHART[2:])),
        ),
        "16-bit.png": (png(rgb.astype(np.uint16) * 257, 16, RGB), Odd("16-bit.png")),
        "16-bit-alpha.png": (
            png(np.dstack([rgb.astype(np.uint16) * 257, alpha(65_535)]), 16, RGBA),
            Odd("16-bit-alpha.png", patches=see_through(CHART)),
        ),
        "grey-alpha.png": (
            png(np.dstack([one, alpha()]), 8, GREY_ALPHA),
            Odd("grey-alpha.png", patches=see_through(GREYS)),
        ),
        "16-bit-grey-alpha.png": (
            png(np.dstack([one.astype(np.uint16) * 257, alpha(65_535)]), 16, GREY_ALPHA),
            Odd("16-bit-grey-alpha.png", patches=see_through(GREYS)),
        ),
        "alpha.png": (png(np.dstack([rgb, alpha()]), 8, RGBA), Odd("alpha.png", patches=see_through(CHART))),
        "interlaced.png": (
            pyvips.Image.new_from_array(rgb, interpretation="srgb").pngsave_buffer(interlace=True),
            Odd("interlaced.png"),
        ),
        "wide-gamut.png": (png(in_wide_gamut(rgb), 8, RGB, profile(wide_gamut())), Odd("wide-gamut.png")),
        "exif.png": (data_of(turned(picture(), 6), "PNG", exif=with_exif(6)), Odd("exif.png")),
        # libvips reads the eXIf chunk before the pixels alone.
        "late-exif.png": (png(np.asarray(turned(picture(), 6)), 8, RGB, behind=exif), Odd("late-exif.png", vips=False)),
        "spoilt-text.png": (png(rgb, 8, RGB, spoilt(chunk(b"tEXt", b"Comment\0hello"))), Odd("spoilt-text.png")),
        "spoilt-behind.png": (png(rgb, 8, RGB, behind=spoilt(chunk(b"tEXt", b"a\0b"))), Odd("spoilt-behind.png")),
        "text-bomb.png": (png(rgb, 8, RGB, chunk(b"zTXt", b"Comment\0\0" + huge)), Odd("text-bomb.png")),
        "text-bomb-utf8.png": (
            png(rgb, 8, RGB, chunk(b"iTXt", b"Comment\0\1\0\0\0" + huge)),
            Odd("text-bomb-utf8.png"),
        ),
        "profile-bomb.png": (png(rgb, 8, RGB, chunk(b"iCCP", b"x\0\0" + huge)), Odd("profile-bomb.png")),
        "no-profile.png": (png(rgb, 8, RGB, chunk(b"iCCP", b"x\0\0junk")), Odd("no-profile.png")),
        "pixel-bomb.png": (with_more_pixels(rgb, 300_000_000), Odd("pixel-bomb.png")),
        "many-texts.png": (
            png(rgb, 8, RGB, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(900_000), 1)) * 80),
            Odd("many-texts.png"),
        ),
        "garbage-behind.png": (plain + b"garbage" * 1000, Odd("garbage-behind.png")),
        "named.jpg": (plain, Odd("named.jpg")),
        "49-megapixels.png": (
            png(np.full((7000, 7000), GREYS[3][0], np.uint8), 8, GREY),
            Odd("49-megapixels.png", size=(1280, 1280), patches=GREYS[3:4] * 8),
        ),
    }
    noisy = data_of(noise(), "PNG")
    head = SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", 192, 96, 8, 2, 0, 0, 0))
    end = chunk(b"IEND", b"")
    missed = {
        "spoilt-pixels.png": (plain.replace(plain[-20:-12], bytes(8)), "unreadable"),
        "cut.png": (noisy[: len(noisy) // 2], "truncated"),
        "cut-behind-header.png": (plain[:33], "truncated"),
        "cut-in-header.png": (plain[:20], "truncated"),
        "no-pixels.png": (head + end, "unreadable"),
        "no-width.png": (SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 9, 8, 2, 0, 0, 0)) + end, "unreadable"),
        "bad-depth.png": (SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 9, 7, 2, 0, 0, 0)) + end, "unreadable"),
        "bomb.png": (
            SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0)),
            "too_many_pixels",
        ),
        "few-rows.png": (head + chunk(b"IDAT", zlib.compress(bytes(577 * 30))) + end, "truncated"),
    }
    return [
        *(write(folder, data, odd) for data, odd in shown.values()),
        *(write(folder, data, Odd(name, reason)) for name, (data, reason) in missed.items()),
    ]


def profile(data: bytes) -> bytes:
    """An iCCP chunk."""
    return chunk(b"iCCP", b"profile\0\0" + zlib.compress(data))


def spoilt(data: bytes) -> bytes:
    """A chunk whose sum is wrong."""
    return data[:-4] + b"\0\0\0\0"


def with_more_pixels(pixels: NDArray[np.uint8], count: int) -> bytes:
    """Behind the last row the compressed data goes on, and on."""
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    packer = zlib.compressobj(1)
    packed = packer.compress(rows) + packer.compress(bytes(count)) + packer.flush()
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, RGB, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
