"""The picture that odd files hold: eight patches whose colours and places tell what a decoder did to it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

__all__ = ["CHART", "GREYS", "WHITE", "Box", "Color", "Odd", "chart", "delta", "delta_2000", "patches_of", "srgb"]

Color = tuple[int, int, int]
Pixels = NDArray[np.uint8]
WHITE: Color = (255, 255, 255)

CHART: tuple[Color, ...] = (
    *((200, 60, 50), (60, 150, 70), (50, 70, 170), (230, 230, 230)),
    *((40, 40, 40), (220, 180, 60), (120, 160, 200), (150, 90, 140)),
)
"""Four above, four below; all within sRGB and none near another, so that a turned picture is far off."""
GREYS = tuple((value, value, value) for value in (20, 52, 84, 116, 148, 180, 212, 244))
"""The chart of formats without colour."""
PATCH = 48
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Odd:
    """One odd file and what has to become of it.

    Args:
        name: its file name.
        reason: why it is missed; "" = it is shown.
        size: width and height in pixels of what is shown.
        patches: the colours shown, in the order of the chart; None = not judged.
        vips: whether libvips decodes it, and the same way.
        frames: pictures in it.
        heic: it takes the extra to show it.
        says: words that its refusal has to hold.
        listed: whether a folder holds it as a picture.
    """

    name: str
    reason: str = ""
    size: tuple[int, int] = (4 * PATCH, 2 * PATCH)
    patches: tuple[Color | None, ...] = CHART
    vips: bool = True
    frames: int = 1
    heic: bool = False
    says: str = ""
    listed: bool = True

    @property
    def turned(self) -> bool:
        """Whether its pixels are stored otherwise than upright."""
        turning = ("orientation", "turned", "exif", "late-exif", "gps")
        return self.name.startswith(turning) and "-1." not in self.name


def chart(colors: tuple[Color, ...] = CHART, patch: int = PATCH) -> Pixels:
    """RGB, [2 patch, 4 patch, 3]."""
    rows = np.array(colors, dtype=np.uint8).reshape(2, 4, 3)
    return rows.repeat(patch, axis=0).repeat(patch, axis=1)


def picture(colors: tuple[Color, ...] = CHART, patch: int = PATCH) -> Image.Image:
    """The same for Pillow."""
    return Image.fromarray(chart(colors, patch))


def grey(patch: int = PATCH) -> Image.Image:
    """The chart of formats without colour, one channel."""
    return picture(GREYS, patch).convert("L")


def data_of(image: Image.Image, kind: str, **options: Any) -> bytes:
    """A picture file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def write(folder: Path, data: bytes, odd: Odd) -> Odd:
    """Write one file."""
    (folder / odd.name).write_bytes(data)
    return odd


def patches_of(pixels: Pixels) -> NDArray[np.float64]:
    """Mean colour of the middle of each patch, [8, 3]: what a lossy format does at edges is left out."""
    height, width = pixels.shape[:2]
    found = []
    for row in range(2):
        for column in range(4):
            top, left = int((row + 0.3) * height / 2), int((column + 0.3) * width / 4)
            bottom, right = int((row + 0.7) * height / 2), int((column + 0.7) * width / 4)
            part = pixels[top : max(bottom, top + 1), left : max(right, left + 1), :3]
            found.append(part.reshape(-1, 3).mean(axis=0))
    return np.array(found)


def srgb() -> bytes:
    """An sRGB profile made by LittleCMS."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


# ---- differences of colours


def _lab(colors: Any) -> NDArray[np.float64]:
    """CIE L*a*b* (D65) of sRGB colours, [..., 3] of 0 to 255 (IEC 61966-2-1, CIE 15)."""
    share = np.asarray(colors, dtype=np.float64) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = linear @ to_xyz.T / (to_xyz @ np.ones(3))
    curve = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(curve, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def delta(ours: Any, wanted: Any) -> NDArray[np.float64]:
    """CIE76 difference of each pair of sRGB colours: the distance in L*a*b*, which is strict on saturated colours."""
    return np.asarray(np.linalg.norm(_lab(ours) - _lab(wanted), axis=-1))


def delta_2000(ours: Any, wanted: Any) -> NDArray[np.float64]:
    """CIEDE2000 difference (Sharma, Wu, Dalal 2005), which counts colours as the eye does."""
    one, two = _lab(ours), _lab(wanted)
    mean_chroma = (np.hypot(one[..., 1], one[..., 2]) + np.hypot(two[..., 1], two[..., 2])) / 2
    g = 0.5 * (1 - np.sqrt(mean_chroma**7 / (mean_chroma**7 + 25.0**7)))
    l1, l2 = one[..., 0], two[..., 0]
    a1, a2 = (1 + g) * one[..., 1], (1 + g) * two[..., 1]
    c1, c2 = np.hypot(a1, one[..., 2]), np.hypot(a2, two[..., 2])
    h1, h2 = np.arctan2(one[..., 2], a1) % (2 * np.pi), np.arctan2(two[..., 2], a2) % (2 * np.pi)
    turn = (h2 - h1 + np.pi) % (2 * np.pi) - np.pi
    turn = np.where(c1 * c2 == 0, 0.0, turn)
    hue = np.where(c1 * c2 == 0, h1 + h2, (h1 + turn / 2) % (2 * np.pi))
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        *(1 - 0.17 * np.cos(hue - np.pi / 6), 0.24 * np.cos(2 * hue)),
        *(0.32 * np.cos(3 * hue + np.pi / 30), -0.20 * np.cos(4 * hue - np.radians(63))),
    )
    s_l = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    s_c, s_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * sum(t)
    around = np.radians(30) * np.exp(-(((np.degrees(hue) - 275) / 25) ** 2))
    r_t = -np.sin(2 * around) * 2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    d_l, d_c = (l2 - l1) / s_l, (c2 - c1) / s_c
    d_h = 2 * np.sqrt(c1 * c2) * np.sin(turn / 2) / s_h
    return np.asarray(np.sqrt(d_l**2 + d_c**2 + d_h**2 + r_t * d_c * d_h))
