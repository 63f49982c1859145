"""Every way in which a decoder gives pixels, brought to a few that can be resized, and into sRGB.

Blocking and free of state; with `multimodal.pipes.encode` and `encode_render` the only modules that import Pillow.
"""

from __future__ import annotations

import io
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

__all__ = ["common_mode", "short_of_rows", "to_srgb"]


def common_mode(image: Image.Image, *, inverted: bool = False) -> Image.Image:
    """One of L, RGB, RGBA, CMYK: what can be resized well.

    Args:
        image: as it was decoded.
        inverted: white is 0, and the decoder leaves that to us where a sample has more than 8 bits.
    """
    if image.mode.startswith("I;16"):
        return _from_16_bits(image, inverted)
    if image.mode in {"I", "F"}:
        plain = _from_own_range(np.asarray(image, dtype=np.float32))
        return Image.fromarray(255 - plain if inverted else plain)
    if image.has_transparency_data:
        return image.convert("RGBA")
    if image.mode in {"L", "RGB", "CMYK"}:
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def _from_16_bits(image: Image.Image, inverted: bool) -> Image.Image:
    # convert("L") clips: everything above 255 of 65,535 would turn white.
    deep: NDArray[np.uint16] = np.asarray(image).astype(np.uint16)
    # The nearest of 8 bits, (v + 128) / 257, without leaving 16 bits.
    plain = (deep - (deep >> 8) + 128 >> 8).astype(np.uint8)
    grey = Image.fromarray(255 - plain if inverted else plain)
    key = image.info.get("transparency")
    if not isinstance(key, int):
        return grey
    return Image.merge("LA", (grey, Image.fromarray(np.where(deep == key, 0, 255).astype(np.uint8)))).convert("RGBA")


def _from_own_range(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Floats of 0 to 1 as they are meant; other numbers, which say nothing of what white is, from least to most."""
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0.0, 1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif high == low:
        low, high = 0.0, max(255.0, high)
    scaled = (np.where(known, values, low) - low) * (255 / (high - low))
    return np.rint(np.clip(scaled, 0, 255)).astype(np.uint8)


def short_of_rows(image: Any, data: bytes) -> bool:
    """Whether a PNG's compressed pixels end before its last row: its decoder leaves the rest black without a word.

    Only where the last row is black all over is it worth a look: then the pixels are unpacked and counted.
    """
    last = image.crop((0, image.height - 1, image.width, image.height))
    if any(last.tobytes()):
        return False
    depth, color, interlaced = data[24], data[25], data[28]
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(color, 1)
    wanted = _rows_bytes(image.width, image.height, bits, bool(interlaced))
    unpack, place, found = zlib.decompressobj(), 8, 0
    while place + 12 <= len(data) and found < wanted and not unpack.eof:
        size, kind = int.from_bytes(data[place : place + 4], "big"), data[place + 4 : place + 8]
        part = data[place + 8 : place + 8 + size] if kind == b"IDAT" else b""
        while part and found < wanted:
            found += len(unpack.decompress(part, 1 << 20))
            part = unpack.unconsumed_tail
        place += size + 12
    return found < wanted


def _rows_bytes(width: int, height: int, bits: int, interlaced: bool) -> int:
    """Bytes of a PNG's unpacked pixels, each row behind one byte that says how it is filtered."""
    passes = (
        ((0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2))
        if interlaced
        else ((0, 1, 0, 1),)
    )
    total = 0
    for left, across, top, down in passes:
        columns, rows = -((left - width) // across), -((top - height) // down)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits + 7) // 8)
    return total


def to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Colours are meant as the embedded profile says; without it browsers take them for sRGB."""
    if profile and image.mode in {"L", "RGB", "CMYK"}:
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            if image.mode == "L" and getattr(source.profile, "xcolor_space", "").strip() != "GRAY":
                image = image.convert("RGB")  # a profile of colours, which says what its greys mean too
            if "sRGB" not in ImageCms.getProfileDescription(source):
                target = ImageCms.createProfile("sRGB")
                converted = ImageCms.profileToProfile(image, source, target, outputMode="RGB")
                if converted is not None:
                    return converted
        except (ImageCms.PyCMSError, OSError, ValueError):
            pass  # a profile that cannot be used is left aside, as browsers do
    return image.convert("RGB")
