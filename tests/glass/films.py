"""Drawn screenshots: what a camera would have taken of a page with one word and one picture."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
from PIL import Image, ImageDraw

from multimodal.glass_judge import Film
from multimodal.glass_world import BLOCK_PX, COUNTER_BITS

WIDTH = 300
WORD: tuple[float, float, float, float] = (20, 150, 60, 22)
PICTURE: tuple[float, float, float, float] = (20, 30, 120, 90)

_PHOTO = Image.fromarray(np.random.default_rng(1).integers(0, 255, (90, 120, 3), dtype=np.uint8))


def shot(n: int | None, *, word: bool = False, picture: bool = False, scale: float = 1.0, parity: int = 0) -> bytes:
    """One JPEG of frame `n` (None = no counter in it); `parity=1` spoils the counter."""
    page = Image.new("RGB", (WIDTH, 200), "white")
    pen = ImageDraw.Draw(page)
    if n is not None:
        digits = [(n >> place) & 1 for place in range(COUNTER_BITS)]
        for place, bit in enumerate([1, 0, *digits, (sum(digits) + parity) % 2, 1]):
            box = (place * BLOCK_PX, 0, (place + 1) * BLOCK_PX - 1, BLOCK_PX - 1)
            pen.rectangle(box, fill="white" if bit else "black")
    if word:
        pen.text((WORD[0] + 2, WORD[1] + 2), "kettle", fill="black", font_size=18)
    if picture:
        page.paste(_PHOTO, (int(PICTURE[0]), int(PICTURE[1])))
    if scale != 1.0:
        page = page.resize((round(page.width * scale), round(page.height * scale)), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    page.save(data, "JPEG", quality=80)
    return data.getvalue()


def shots(frames: Iterable[int], word_at: int, picture_at: int, **options: float) -> list[bytes]:
    """Screenshots of these frames, with the word and the picture from the given frames on."""
    scale = options.get("scale", 1.0)
    return [shot(n % 4096, word=n >= word_at, picture=n >= picture_at, scale=scale) for n in frames]


def film(frames: Iterable[int], word_at: int, picture_at: int, **options: float) -> Film:
    """The same as a `Film`."""
    return Film(shots(frames, word_at, picture_at, **options), WIDTH)
