"""The second reference: what libvips makes of a file, upright, in sRGB, on white."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyvips
from numpy.typing import NDArray

__all__ = ["reference"]


def reference(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """RGB of the picture at most as large as `size`, [height, width, 3].

    Raises:
        pyvips.Error: libvips cannot decode it.
    """
    image = pyvips.Image.new_from_buffer(path.read_bytes(), "").autorot()
    if image.get_typeof("icc-profile-data"):
        image = image.icc_transform("srgb", embedded=True, intent="perceptual")
    else:
        image = image.colourspace("srgb")
    if image.hasalpha():
        image = image.flatten(background=255)
    if image.width > size[0]:
        image = image.resize(size[0] / image.width)
    pixels = np.asarray(image.cast("uchar").numpy())
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return pixels.repeat(3, axis=2) if pixels.shape[2] == 1 else pixels
