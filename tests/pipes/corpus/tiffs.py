"""TIFF: packings, inks, depths, byte orders, pages, and directories that lead nowhere."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Literal

import numpy as np
import pyvips
from numpy.typing import NDArray
from PIL import Image, ImageCms

from tests.pipes.corpus.chart import CHART, GREYS, WHITE, Odd, chart, data_of, grey, picture, write
from tests.pipes.corpus.jpegs import in_cmyk, noise, turned, with_exif
from tests.pipes.corpus.pngs import alpha, see_through
from tests.pipes.corpus.profiles import in_wide_gamut, wide_gamut

__all__ = ["make", "tiff"]


def tiff(
    samples: NDArray[np.generic], photometric: int, order: Literal["<", ">"] = ">", extra: int | None = None
) -> bytes:
    """An uncompressed TIFF of one strip by hand (TIFF 6.0).

    Args:
        samples: [height, width, channels] or [height, width]; their type says the depth.
        photometric: 0 = white is zero, 1 = black is zero, 2 = RGB, 5 = inks.
        order: ``>`` or ``<``.
        extra: meaning of the last channel: 1 = alpha that is multiplied in, 2 = alpha apart.
    """
    height, width = samples.shape[:2]
    count = samples.shape[2] if samples.ndim == 3 else 1
    size = samples.dtype.itemsize
    kind = {"u": 1, "i": 2, "f": 3}[samples.dtype.kind]
    data = samples.astype(samples.dtype.newbyteorder(order)).tobytes()
    entries = [
        (256, 4, [width]),
        (257, 4, [height]),
        (258, 3, [size * 8] * count),
        (259, 3, [1]),
        (262, 3, [photometric]),
    ]
    entries += [(273, 4, [8]), (277, 3, [count]), (278, 4, [height]), (279, 4, [len(data)])]
    entries += [(338, 3, [extra])] if extra is not None else []
    entries += [(339, 3, [kind] * count)]
    table = 8 + len(data) + len(data) % 2
    behind = table + 2 + 12 * len(entries) + 4
    body, long = b"", b""
    for tag, type_, values in entries:
        packed = struct.pack(f"{order}{len(values)}{'H' if type_ == 3 else 'I'}", *values)
        place = packed.ljust(4, b"\0")
        if len(packed) > 4:
            place = struct.pack(f"{order}I", behind + len(long))
            long += packed
        body += struct.pack(f"{order}HHI", tag, type_, len(values)) + place
    head = (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(f"{order}I", table)
    ifd = struct.pack(f"{order}H", len(entries)) + body + bytes(4)
    return head + data + bytes(len(data) % 2) + ifd + long


def make(folder: Path) -> list[Odd]:
    """Write them all."""
    plain, rgb, one = picture(), chart(), np.asarray(grey())
    wide = one.astype(np.uint16) * 257
    vips = pyvips.Image.new_from_array(rgb, interpretation="srgb")
    deep = (vips * 257).cast("ushort").copy(interpretation="rgb16")
    mask = alpha().astype(np.uint8)
    premultiplied = np.dstack([rgb * (mask > 0), mask]).astype(np.uint8)
    noisy = data_of(noise(), "TIFF", compression="tiff_lzw")
    loop = bytearray(tiff(rgb, 2, "<"))
    # The next directory is this one. Twelve bytes of values stand behind it.
    loop[-16:-12] = loop[4:8]
    pages = {"save_all": True, "append_images": [picture(tuple(reversed(CHART)))]}
    bilevel = picture(((0, 0, 0), *(WHITE,) * 3, (0, 0, 0), (0, 0, 0), *(WHITE,) * 2)).convert("1")
    black = tuple((0, 0, 0) if place in {0, 4, 5} else WHITE for place in range(8))
    files = [
        (data_of(plain, "TIFF"), Odd("plain.tif")),
        (data_of(plain, "TIFF", compression="tiff_lzw"), Odd("lzw.tif")),
        (data_of(plain, "TIFF", compression="tiff_adobe_deflate"), Odd("deflate.tif")),
        (data_of(plain, "TIFF", compression="jpeg", quality=95), Odd("jpeg-inside.tif")),
        (data_of(bilevel, "TIFF", compression="group4"), Odd("fax.tif", patches=black)),
        (data_of(picture().quantize(8), "TIFF"), Odd("palette.tif")),
        (data_of(in_cmyk(), "TIFF"), Odd("cmyk.tif", vips=False)),
        (data_of(lab(plain), "TIFF"), Odd("lab.tif", vips=False)),
        (data_of(Image.fromarray(in_wide_gamut(rgb)), "TIFF", icc_profile=wide_gamut()), Odd("wide-gamut.tif")),
        (data_of(plain, "TIFF", **pages), Odd("two-pages.tif", frames=2)),
        *(
            (data_of(turned(plain, way), "TIFF", exif=with_exif(way)), Odd(f"orientation-{way}.tif"))
            for way in (2, 3, 5, 6, 8)
        ),
        (tiff(rgb, 2, ">"), Odd("big-endian.tif")),
        (tiff(wide, 1, ">"), Odd("16-bit-big-endian.tif", patches=GREYS)),
        (tiff(wide, 1, "<"), Odd("16-bit.tif", patches=GREYS)),
        (tiff(65_535 - wide, 0, "<"), Odd("16-bit-white-is-zero.tif", patches=GREYS)),
        (tiff(255 - one, 0, "<"), Odd("white-is-zero.tif", patches=GREYS)),
        (tiff(rgb.astype(np.uint16) * 257, 2, "<"), Odd("16-bit-color.tif")),
        (tiff((one / 255).astype(np.float32), 1, "<"), Odd("float.tif", vips=False, patches=GREYS)),
        (tiff(np.where(one == 84, np.nan, one / 255).astype(np.float32), 1, "<"), nan("float-nan.tif")),
        (tiff(premultiplied, 2, "<", 1), Odd("multiplied-alpha.tif", patches=see_through(CHART))),
        (tiff(np.dstack([rgb, mask]), 2, "<", 2), Odd("alpha.tif", patches=see_through(CHART))),
        (deep.tiffsave_buffer(bigtiff=True), Odd("bigtiff.tif")),
        (vips.tiffsave_buffer(tile=True, tile_width=64, tile_height=64, compression="deflate"), Odd("tiles.tif")),
        ((vips / 255.0).tiffsave_buffer(), Odd("float-color.tif", "unreadable")),
        (noisy[: len(noisy) // 2], Odd("cut.tif", "truncated")),
        (noisy[:100], Odd("cut-early.tif", "truncated")),
        (b"II*\0\x08\0\0\0" + bytes(2) + bytes(4), Odd("no-tags.tif", "unreadable")),
        (b"II*\0\xff\xff\xff\x7f" + bytes(100), Odd("directory-beyond.tif", "truncated")),
        (bytes(loop), Odd("endless-directory.tif")),
        (resized(tiff(rgb, 2, "<"), 60_000, 60_000), Odd("bomb.tif", "too_many_pixels")),
        (resized(tiff(rgb, 2, "<"), 6000, 6000), Odd("more-rows-than-data.tif", "truncated")),
    ]
    return [write(folder, data, odd) for data, odd in files]


def nan(name: str) -> Odd:
    """Where there is no number there is no colour to judge."""
    return Odd(name, vips=False, patches=tuple(None if color[0] == 84 else color for color in GREYS))


def lab(image: Image.Image) -> Image.Image:
    """The same colours in L*a*b*."""
    srgb, target = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    made = ImageCms.profileToProfile(image, srgb, target, outputMode="LAB")
    assert made is not None
    return made


def resized(data: bytes, width: int, height: int) -> bytes:
    """The same little-endian file with another size in its directory."""
    found = bytearray(data)
    table = struct.unpack_from("<I", found, 4)[0] + 2
    struct.pack_into("<I", found, table + 8, width)
    struct.pack_into("<I", found, table + 12 + 8, height)
    return bytes(found)
