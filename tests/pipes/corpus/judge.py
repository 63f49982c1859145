"""Whether an odd file came to what it had to: for the tests, and for `multimodal bench images`."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from multimodal.pipes.encode import Encoded
from multimodal.pipes.intake import PictureRefused
from tests.pipes.corpus.chart import Odd, delta, patches_of
from tests.pipes.corpus.vips import reference

__all__ = ["MOST_DELTA", "Verdict", "judge"]

MOST_DELTA = 3.0
"""Largest CIE76 difference of a patch from its reference, after lossy encoding at the usual quality."""


@dataclass(frozen=True)
class Verdict:
    """What became of one file: `wrong` says what is not as it should be ("" = nothing).

    `by_hand` and `by_vips` are its largest CIE76 differences from the two references; -1 = not compared.
    """

    name: str
    wrong: str = ""
    by_hand: float = -1.0
    by_vips: float = -1.0


def judge(folder: Path, odd: Odd, result: Encoded | PictureRefused) -> Verdict:
    """Compare reason, size, orientation and colours with what the file has to come to."""
    reason = result.reason if isinstance(result, PictureRefused) else ""
    if reason != odd.reason or odd.says not in str(result):
        return Verdict(odd.name, f"{reason!r} instead of {odd.reason!r}: {str(result)[:200]}")
    if not isinstance(result, Encoded):
        where = "" if str(folder / odd.name) in str(result) else f"does not say where: {result}"
        return Verdict(odd.name, where)
    with Image.open(io.BytesIO(result.data)) as image:
        pixels = np.asarray(image.convert("RGB"))
    if not (pixels.shape[1], pixels.shape[0]) == odd.size == (result.width_px, result.height_px):
        return Verdict(odd.name, f"{pixels.shape[1]} x {pixels.shape[0]} instead of {odd.size}")
    ours = patches_of(pixels)
    known = [(color, wanted) for color, wanted in zip(ours, odd.patches, strict=True) if wanted is not None]
    by_hand = max((float(delta(color, wanted)) for color, wanted in known), default=-1.0)
    by_vips = float(delta(ours, patches_of(reference(folder / odd.name, odd.size))).max()) if odd.vips else -1.0
    far = max(by_hand, by_vips)
    return Verdict(odd.name, f"{far:.1f} from a reference" if far > MOST_DELTA else "", by_hand, by_vips)
