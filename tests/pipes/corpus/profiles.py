"""ICC profiles for odd files: a wide gamut, a grey curve, and pixels that mean the chart under them."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from tests.pipes.corpus.chart import srgb

__all__ = ["grey_gamma", "in_wide_gamut", "wide_gamut"]

# Colorants of Display P3 under D50, as in Apple's own profile; the curve is sRGB's.
_P3 = {
    b"rXYZ": (0.51512, 0.24120, -0.00105),
    b"gXYZ": (0.29198, 0.69225, 0.04189),
    b"bXYZ": (0.15710, 0.06657, 0.78407),
}
_SRGB_D50 = np.array([[0.43607, 0.38515, 0.14307], [0.22249, 0.71687, 0.06061], [0.01392, 0.09708, 0.71410]])


def wide_gamut() -> bytes:
    """Display P3, from the sRGB profile that LittleCMS makes: its colorants replaced, and its name."""
    data = bytearray(srgb().replace(b"s\0R\0G\0B", b"W\0i\0d\0e").replace(b"sRGB", b"Wide"))
    for name, color in _P3.items():
        entry = data.index(name, 128)
        (place,) = struct.unpack_from(">I", data, entry + 4)
        struct.pack_into(">3i", data, place + 8, *(round(part * 65536) for part in color))
    return bytes(data)


def in_wide_gamut(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The pixels that mean the same colours in Display P3."""
    share = pixels / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    to_p3 = np.linalg.inv(np.array(list(_P3.values())).T) @ _SRGB_D50
    linear = np.clip(linear @ to_p3.T, 0, 1)
    curve = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    found: NDArray[np.uint8] = np.rint(curve * 255).astype(np.uint8)
    return found


def grey_gamma(gamma: float) -> bytes:
    """A profile for grey: ICC version 2, one curve (ICC.1:2001-04)."""
    text = b"grey"
    tags = {
        b"desc": b"desc" + bytes(4) + struct.pack(">I", len(text) + 1) + text + bytes(1 + 8 + 3 + 67),
        b"cprt": b"text" + bytes(4) + b"CC0\0",
        b"wtpt": b"XYZ " + bytes(4) + struct.pack(">3i", 63190, 65536, 54061),
        b"kTRC": b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256)) + bytes(2),
    }
    table, body = struct.pack(">I", len(tags)), b""
    start = 128 + 4 + 12 * len(tags)
    for name, value in tags.items():
        value += bytes(-len(value) % 4)
        table += name + struct.pack(">II", start + len(body), len(value))
        body += value
    head = bytearray(128)
    struct.pack_into(">I4sI4s4s4s", head, 0, start + len(body), b"\0\0\0\0", 0x02100000, b"mntr", b"GRAY", b"XYZ ")
    head[36:40] = b"acsp"
    struct.pack_into(">3i", head, 68, 63190, 65536, 54061)
    return bytes(head) + table + body
