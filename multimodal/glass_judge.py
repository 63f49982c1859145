"""Reading a film of screenshots: the frame counter in each, when a word and a picture were first seen, the verdict.

Pure: pixels and notes in, verdicts out. Nothing here asks the page what it claims to have painted.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from multimodal.glass_world import BLOCK_PX, CELLS, COUNTER_BITS

__all__ = ["Film", "Pair", "Sight", "Spot", "Verdict", "judge", "read_counter"]

Verdict = Literal["same", "apart", "undetermined", "not judged"]
Box = tuple[float, float, float, float]
Pixels = NDArray[np.int16]

WRAP = 1 << COUNTER_BITS
SETTLE_FRAMES = 40
"""How long a target may take to look as it will: a 1,600-px picture shown without decode() was blank 1-25 frames."""
BEFORE_FRAMES = 2
"""The note of a change may be one frame off (a change between two frames is painted with the later one)."""
VISIBLE_RMS = 6.0
"""Less difference between before and after, in grey levels, is JPEG noise (measured: below 2 on still patches)."""


class Spot(msgspec.Struct, frozen=True):
    """Where a target stood: from frame `n` (as the page's DOM had it) until before frame `until`; box in CSS pixels."""

    n: int
    box: Box
    hidden: bool = False
    until: int | None = None


class Sight(msgspec.Struct, frozen=True):
    """What the pixels say of one target.

    Args:
        index: the first screenshot that shows it; None = none does.
        counter: that screenshot's frame counter.
        gap: True = screenshots are missing where it would have shown first, so the frame is not known.
        why: for a person, where `index` is None or `gap` is True.
    """

    index: int | None = None
    counter: int | None = None
    gap: bool = False
    why: str = ""


class Pair(msgspec.Struct, frozen=True):
    """One reveal and the last word before its mark, as seen on the glass.

    Args:
        cue: the cue's number.
        key: the picture.
        mark: the sync mark; the word is token `mark - 1`.
        verdict: same = first seen in one screenshot; apart; undetermined (counts as a miss); not judged.
        apart_frames: picture minus word in frames (+ = picture late); None where either was not seen.
        why: the reason where the verdict is not `same`.
        preview: True = the reveal showed only the tiny preview.
    """

    cue: int
    key: str
    mark: int
    verdict: Verdict
    apart_frames: int | None = None
    why: str = ""
    preview: bool = False


def read_counter(pixels: NDArray[np.uint8], cell: float = BLOCK_PX) -> int | None:
    """The frame counter in the top left corner of a grey picture; None where it cannot be read with certainty.

    Args:
        pixels: grey levels, rows by columns.
        cell: width and height of a cell in pixels of the picture.
    """
    if pixels.ndim != 2 or pixels.shape[0] < cell or pixels.shape[1] < CELLS * cell:
        return None
    bits: list[int] = []
    for place in range(CELLS):
        # The middle half of a cell: its rim belongs to a scaled picture's neighbours too.
        rows = slice(int(cell * 0.25), max(int(cell * 0.75), int(cell * 0.25) + 1))
        left = int(cell * (place + 0.25))
        level = float(pixels[rows, left : max(int(cell * (place + 0.75)), left + 1)].mean())
        if 80 < level < 176:
            return None
        bits.append(int(level >= 176))
    guards, digits, parity = (bits[0], bits[1], bits[-1]), bits[2:-2], bits[-2]
    if guards != (1, 0, 1) or sum(digits) % 2 != parity:
        return None
    return sum(bit << place for place, bit in enumerate(digits))


class Film:
    """Screenshots in the order they were taken, with their counters unwrapped; one that cannot be read is left out.

    Args:
        shots: JPEG bytes, in order.
        width_px: width of the viewport in CSS pixels; the screenshots may be smaller.
        cell_px: width of a counter cell in CSS pixels.
    """

    def __init__(self, shots: Iterable[bytes], width_px: int, cell_px: float = BLOCK_PX) -> None:
        self.unreadable = 0
        self.scale = 1.0
        self.counters: list[int] = []
        self._shots: list[bytes] = []
        self._cache: OrderedDict[int, Pixels] = OrderedDict()
        for shot in shots:
            counter = self._counter(shot, width_px, cell_px)
            if counter is None:
                self.unreadable += 1
                continue
            if self.counters:
                step = (counter - self.counters[-1]) % WRAP
                # A step back over more than half the circle is a screenshot out of order, not an hour's gap.
                counter = self.counters[-1] + (step if step < WRAP // 2 else step - WRAP)
                if counter < self.counters[-1]:
                    self.unreadable += 1
                    continue
            self.counters.append(counter)
            self._shots.append(shot)

    def _counter(self, shot: bytes, width_px: int, cell_px: float) -> int | None:
        try:
            with Image.open(io.BytesIO(shot)) as picture:
                self.scale = picture.width / width_px
                cell = cell_px * self.scale
                picture.draft("L", picture.size)  # the counter is black and white: colours need not be decoded
                strip = picture.convert("L").crop((0, 0, int(cell * CELLS) + 1, int(cell) + 1))
                return read_counter(np.asarray(strip), cell)
        except (UnidentifiedImageError, OSError):
            return None

    def __len__(self) -> int:
        return len(self.counters)

    @property
    def lost(self) -> int:
        """Frames between the first and the last screenshot of which there is none."""
        return sum(max(after - before - 1, 0) for before, after in pairwise(self.counters))

    def at_or_after(self, counter: int) -> int:
        """The index of the first screenshot of frame `counter` or later."""
        return bisect_left(self.counters, counter)

    def patch(self, index: int, box: Box) -> Pixels:
        """The pixels of a box given in CSS pixels; empty where it lies outside the viewport."""
        pixels = self._pixels(index)
        left, top, width, height = (value * self.scale for value in box)
        rows = slice(max(round(top), 0), max(round(top + height), 0))
        return pixels[rows, max(round(left), 0) : max(round(left + width), 0)]

    def _pixels(self, index: int) -> Pixels:
        if index in self._cache:
            self._cache.move_to_end(index)
            return self._cache[index]
        with Image.open(io.BytesIO(self._shots[index])) as picture:
            pixels = np.asarray(picture.convert("RGB"), dtype=np.int16)
        self._cache[index] = pixels
        if len(self._cache) > 2 * SETTLE_FRAMES:
            self._cache.popitem(last=False)
        return pixels


def sight(film: Film, spot: Spot) -> Sight:
    """When a target was first seen: the first screenshot from which on it looks as it does once it has settled."""
    start = film.at_or_after(spot.n - BEFORE_FRAMES + 1) - 1
    if start < 0:
        return Sight(gap=True, why="no screenshot from before it")
    last = spot.n + SETTLE_FRAMES if spot.until is None else min(spot.until - 1, spot.n + SETTLE_FRAMES)
    end = film.at_or_after(last + 1) - 1
    if end <= start:
        return Sight(gap=True, why="no screenshot while it stood there")
    before, after = film.patch(start, spot.box), film.patch(end, spot.box)
    if not before.size or before.shape != after.shape:
        return Sight(gap=True, why="outside the viewport")
    change = _rms(before, after)
    if change < VISIBLE_RMS:
        return Sight(why="nothing changed where it should stand")
    first = end
    while first > start + 1:
        # Half-way and beyond counts as seen: a fade in is not an appearance at its first faint frame.
        if _rms(film.patch(first - 1, spot.box), after) > 0.5 * change:
            break
        first -= 1
    missing = film.counters[first] - film.counters[first - 1] > 1
    return Sight(first, film.counters[first], missing, "screenshots are missing before it" if missing else "")


def _rms(one: Pixels, other: Pixels) -> float:
    return float(np.sqrt(np.mean(np.square((one - other).astype(np.float32)))))


def judge(word: Sight | None, picture: Sight | None) -> tuple[Verdict, int | None, str]:
    """The verdict over one pair, its distance in frames, and the reason; None = the DOM never had it.

    A screenshot with one and without the other proves them apart, whatever is missing around it. First seen in one
    and the same screenshot is `same` only where the frame before it was captured too: else they may have come apart
    in a frame that nobody saw. Two screenshots of one counter are two frames on the glass.
    """
    if word is None:
        return "undetermined", None, "the page never held the word for a whole frame"
    if picture is None:
        return "apart", None, "the page never held the picture for a whole frame"
    if word.index is None or word.counter is None:
        return "undetermined", None, f"word: {word.why}"
    if picture.index is None or picture.counter is None:
        return ("undetermined" if picture.gap else "apart"), None, f"picture: {picture.why}"
    if word.index == picture.index:
        return ("undetermined", None, word.why or picture.why) if word.gap or picture.gap else ("same", 0, "")
    frames = picture.counter - word.counter
    if frames == 0:
        frames = 1 if picture.index > word.index else -1
    return "apart", frames, f"picture {abs(frames)} frame(s) {'after' if frames > 0 else 'before'} its word"


def nearest(spots: Sequence[Spot], n: int, within: int = 3 * SETTLE_FRAMES) -> Spot | None:
    """The spot whose change lies nearest to frame `n`, at most `within` frames away."""
    close = min(spots, key=lambda spot: abs(spot.n - n), default=None)
    return close if close is not None and abs(close.n - n) <= within else None
