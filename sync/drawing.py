"""The drawing inside a timeline: a recording as SVG, words above, one lane for each picture below. Pure.

Every place is a time on the stream's own base (`pts_ms`). Shape tells as much as colour: a hollow circle is a request,
a square the bytes, a disc a picture that the viewer has decoded, a diamond the reveal, a bar the frame that painted it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

import msgspec

from multimodal.events import CueMissed, Interrupted, Reveal, Swap, SyncMark
from multimodal.sync.drift import Pair, pairs
from multimodal.sync.faults import Fault
from multimodal.sync.log import SyncLog
from multimodal.sync.pace import moment

__all__ = ["Drawing", "draw"]

CHAR_PX, WIDE_PX, GAP_PX = 7.0, 13.0, 8.0
"""Room that a character takes at 12 px, a wide one, and the air after a word: generous, no font is measured here."""
WORD_LANES = 8
"""Lanes over which words spread that came too close together; more than that overlap."""
PX_PER_SECOND = (60.0, 2000.0)
FITTING = 0.9
"""Share of the words that must end before the next one begins: one row then holds nearly all of them."""
WIDTH_LIMIT_PX = 150_000.0
"""Beyond this browsers stop to draw smoothly; a longer tour is drawn more narrowly."""
MARGIN_PX, AXIS_PX, WORD_PX, ROW_PX, LANE_PX = 24.0, 34.0, 18.0, 30.0, 30.0


class Drawing(msgspec.Struct, frozen=True):
    """An SVG and the labels of its rows.

    Args:
        svg: the element.
        labels: (distance from the top in px, text, remark) of every row.
        height_px: of the drawing.
    """

    svg: str
    labels: tuple[tuple[float, str, str], ...]
    height_px: float


def draw(log: SyncLog, faults: Sequence[Fault]) -> Drawing:
    """Draw a recording. One without reveals, receipts or even words gives fewer rows, never an error."""
    scale = _Scale(log)
    words, word_lanes = _words(log, scale)
    y = AXIS_PX
    labels = [(y + WORD_PX * word_lanes / 2, "Words", "as emitted")]
    body = [f'<g class="words" transform="translate(0 {y:g})">', *words, "</g>"]
    y += WORD_PX * word_lanes + 4
    if painted := _painted_words(log, scale, y):
        labels.append((y + ROW_PX / 2, "Words painted", "one tick a frame"))
        body += painted
        y += ROW_PX
    labels.append((y + ROW_PX / 2, "Sync marks", "after this many tokens"))
    body += _marks(log, scale, y)
    y += ROW_PX + 6
    for row in _rows(log):
        body.append(f'<path class="lane" d="M0 {y + LANE_PX:g}H{scale.width:.0f}"/>')
        labels.append((y + LANE_PX / 2, row.key, row.remark))
        body += _lane(log, row, scale, y + LANE_PX / 2)
        y += LANE_PX
    y += 8 + 14 * bool(log.of(Interrupted))
    flags = [_flag(log, fault, number, scale, y) for number, fault in enumerate(faults, start=1)]
    seconds = scale.last_ms / 1000
    about = (
        f"{len(log.texts)} pieces of text, {len(log.marks)} sync marks and {len(log.of(Reveal))} pictures over "
        f"{seconds:.1f} seconds, from left to right; {len(faults)} faults. The table below says the same in words."
    )
    svg = "\n".join(
        [
            f'<svg width="{scale.width:.0f}" height="{y:.0f}" viewBox="0 0 {scale.width:.0f} {y:.0f}"'
            ' role="img" aria-labelledby="t d">',
            f'<title id="t">Timeline of the tour</title><desc id="d">{escape(about)}</desc>',
            *_axis(scale, y),
            *_turns(log, scale, y),
            *body,
            *flags,
            "</svg>",
        ]
    )
    return Drawing(svg, tuple(labels), y)


class _Scale:
    """Milliseconds to pixels, wide enough for the words to stand side by side."""

    def __init__(self, log: SyncLog) -> None:
        times = [event.pts_ms for event in log.events] + [ready.t_ms for ready in log.ready]
        if log.painted and (last := log.base.at(log.painted[-1].t_ms)):
            times.append(last.ms)
        self.last_ms = max(1.0, *times) if times else 1.0
        self.first_ms = min(0.0, *times) if times else 0.0
        seconds = (self.last_ms - self.first_ms) / 1000
        gaps = [(before, after.pts_ms - before.pts_ms) for before, after in pairwise(log.texts)]
        needed = sorted(_width(before.text) / gap * 1000 for before, gap in gaps if gap > 0)
        wanted = needed[math.ceil(FITTING * len(needed)) - 1] if needed else 0.0
        widest = min(PX_PER_SECOND[1], WIDTH_LIMIT_PX / seconds)
        self.px_per_ms = min(max(wanted, PX_PER_SECOND[0]), widest) / 1000
        self.width = MARGIN_PX * 2 + 140 + (self.last_ms - self.first_ms) * self.px_per_ms

    def x(self, ms: float) -> float:
        return MARGIN_PX + (ms - self.first_ms) * self.px_per_ms


class _Row(msgspec.Struct):
    """A cue: its reveal with what belongs to it, or why it was missed."""

    key: str
    at: float
    remark: str
    pair: Pair | None = None
    missed: CueMissed | None = None


def _rows(log: SyncLog) -> list[_Row]:
    rows = []
    for pair in pairs(log):
        remark = f"cue {pair.reveal.cue}, token {pair.reveal.anchor}, mark {pair.reveal.mark}"
        rows.append(_Row(pair.reveal.key, pair.reveal.pts_ms, remark, pair))
    for missed in log.of(CueMissed):
        remark = f"cue {missed.cue}, token {missed.anchor}: missed, {missed.reason}"
        rows.append(_Row(missed.key, missed.pts_ms, remark, missed=missed))
    return sorted(rows, key=lambda row: row.at)


def _axis(scale: _Scale, height: float) -> Iterable[str]:
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60) if s * 1000 * scale.px_per_ms >= 56 or s == 60)
    for number in range(math.ceil(scale.first_ms / 1000 / step), int(scale.last_ms / 1000 / step) + 1):
        second = number * step
        x = scale.x(second * 1000)
        yield f'<path class="grid" d="M{x:.1f} {AXIS_PX - 12:g}V{height:.0f}"/>'
        yield f'<text class="time" x="{x:.1f}" y="{AXIS_PX - 18:g}">{second:g} s</text>'


def _turns(log: SyncLog, scale: _Scale, height: float) -> Iterable[str]:
    for cut in log.of(Interrupted):
        x = scale.x(cut.pts_ms)
        title = f"<title>interrupted at {cut.pts_ms / 1000:.3f} s, epoch {cut.epoch} begins</title>"
        yield f'<path class="turn" d="M{x:.1f} {AXIS_PX - 8:g}V{height:.0f}">{title}</path>'
        yield f'<text class="time" x="{x:.1f}" y="{height - 2:g}">interrupted</text>'


def _words(log: SyncLog, scale: _Scale) -> tuple[list[str], int]:
    ends = [0.0]
    drawn = []
    for text in log.texts:
        shown = " ".join(text.text.split())
        x = scale.x(text.pts_ms)
        lane = next((lane for lane, end in enumerate(ends) if end <= x), None)
        if lane is None:
            lane = len(ends) if len(ends) < WORD_LANES else ends.index(min(ends))
            ends += [0.0] * (lane == len(ends))
        ends[lane] = x + _width(shown)
        told = f"token {text.token_index}, emitted at {text.pts_ms / 1000:.3f} s"
        y = WORD_PX * (lane + 0.7)
        drawn.append(f'<text x="{x:.1f}" y="{y:g}">{escape(shown) or "·"}<title>{told}</title></text>')
    return drawn, len(ends)


def _painted_words(log: SyncLog, scale: _Scale, y: float) -> list[str]:
    frames = {frame.frame: frame for text in log.texts if (frame := log.frame_of(text.seq)) is not None}
    drawn = []
    for frame in frames.values():
        if (at := log.base.at(frame.t_ms)) is not None:
            told = f"frame {frame.frame} painted at {at.ms / 1000:.3f} s" + ("" if frame.visible else ", page hidden")
            kind = "tick" if frame.visible else "tick unseen"
            drawn.append(
                f'<path class="{kind}" d="M{scale.x(at.ms):.1f} {y + 4:g}v{ROW_PX - 10:g}"><title>{told}</title></path>'
            )
    return drawn


def _marks(log: SyncLog, scale: _Scale, y: float) -> Iterable[str]:
    for mark in log.of(SyncMark):
        x = scale.x(mark.pts_ms)
        told = f"sync mark {mark.mark} at {mark.pts_ms / 1000:.3f} s, {mark.pending} cues due"
        yield f'<path class="mark" d="M{x:.1f} {y + 3:g}v9"><title>{told}</title></path>'
        yield f'<text class="small" x="{x + 3:.1f}" y="{y + 13:g}">{mark.mark}</text>'


def _lane(log: SyncLog, row: _Row, scale: _Scale, y: float) -> Iterable[str]:
    told = escape(row.key)
    assets = log.assets.get(row.key, ())
    begun = assets[0].pts_ms if assets else row.at
    if row.missed is not None:
        x = scale.x(row.missed.pts_ms)
        yield f'<path class="wait" d="M{scale.x(begun):.1f} {y:g}H{x:.1f}"/>'
        title = f"<title>{told} missed at {row.missed.pts_ms / 1000:.3f} s: {escape(row.missed.reason)}</title>"
        cross = f"M{x - 5:.1f} {y - 5:g}l10 10m0 -10l-10 10"
        yield f'<path id="cue-{row.missed.cue}" class="missed" d="{cross}">{title}</path>'
        yield f'<text class="bad" x="{x + 10:.1f}" y="{y + 4:g}">missed: {escape(row.missed.reason)}</text>'
        return
    assert row.pair is not None  # a row is one or the other
    reveal = row.pair.reveal
    shown, painted = scale.x(reveal.pts_ms), moment(log, reveal, "painted")
    yield f'<path class="wait" d="M{scale.x(begun):.1f} {y:g}H{shown:.1f}"/>'
    if row.pair.held_ms:
        left = scale.x(reveal.pts_ms - row.pair.held_ms)
        title = f"<title>its mark waited {row.pair.held_ms:.0f} ms for {told}</title>"
        yield f'<rect class="hold" x="{left:.1f}" y="{y - 9:g}" width="{shown - left:.1f}" height="18">{title}</rect>'
    if assets:
        title = f"<title>{told} requested at {begun / 1000:.3f} s</title>"
        yield f'<circle class="request" cx="{scale.x(begun):.1f}" cy="{y:g}" r="4">{title}</circle>'
    if (whole := next((asset for asset in assets if asset.variants), None)) is not None:
        title = f"<title>bytes of {told} there at {whole.pts_ms / 1000:.3f} s</title>"
        x = scale.x(whole.pts_ms) - 4
        yield f'<rect class="bytes" x="{x:.1f}" y="{y - 4:g}" width="8" height="8">{title}</rect>'
    for ready in log.ready:
        if ready.key == row.key:
            kind = "ready" if ready.ok else "ready bad"
            word = "decoded by the viewer" if ready.ok else f"not shown by the viewer ({escape(ready.reason)})"
            title = f"<title>{told} {word}, heard at {ready.t_ms / 1000:.3f} s</title>"
            yield f'<circle class="{kind}" cx="{scale.x(ready.t_ms):.1f}" cy="{y:g}" r="5">{title}</circle>'
    kind = "reveal preview" if reveal.preview else "reveal"
    what = "its preview" if reveal.preview else "revealed"
    title = f"<title>{told}: {what} at {reveal.pts_ms / 1000:.3f} s on mark {reveal.mark}</title>"
    yield f'<path class="to" d="M{shown:.1f} {AXIS_PX:g}V{y - 7:g}"/>'
    yield f'<path id="cue-{reveal.cue}" class="{kind}" d="M{shown:.1f} {y - 7:g}l7 7l-7 7l-7 -7z">{title}</path>'
    right = shown + 12
    if painted is not None:
        x = scale.x(painted.ms)
        title = f"<title>{told} painted at {painted.ms / 1000:.3f} s</title>"
        yield f'<rect class="painted" x="{x - 1.5:.1f}" y="{y - 11:g}" width="3" height="22">{title}</rect>'
        right = max(right, x + 8)
    swap = row.pair.swap
    if swap is not None:
        x = scale.x(swap.pts_ms)
        yield _swap(swap, told, x, y)
        right = max(right, x + 12)
    yield f'<text class="small" x="{right:.1f}" y="{y + 4:g}">{_verdict(row.pair)}</text>'


def _swap(swap: Swap, told: str, x: float, y: float) -> str:
    how = "picture of" if swap.ok else f"no picture ({escape(swap.reason)}) for"
    title = f"<title>{how} {told} at {swap.pts_ms / 1000:.3f} s</title>"
    return f'<path class="{"swap" if swap.ok else "swap bad"}" d="M{x - 6:.1f} {y + 6:g}l6 -12l6 12z">{title}</path>'


def _verdict(pair: Pair) -> str:
    if not pair.skew_ms:
        return "no words before it"
    vantage, skew = list(pair.skew_ms.items())[-1]
    frame = ", same frame" if pair.same_frame else ""
    held = f", held {pair.held_ms:.0f} ms" if pair.held_ms else ""
    return f"{skew:+.1f} ms as {vantage}{frame}{held}"


def _flag(log: SyncLog, fault: Fault, number: int, scale: _Scale, height: float) -> str:
    mark, words = log.marks.get(fault.boundary), log.words_before(fault.boundary)
    at = mark.pts_ms if mark else words.pts_ms if words else 0.0
    # Faults of one place stand side by side, not on top of each other.
    x = scale.x(at) + (number - 1) % 4 * 3
    title = f"<title>fault {number}: {escape(fault.verdict)}</title>"
    return (
        f'<a id="flag-{number}" href="#fault-{number}"><path class="fault" d="M{x:.1f} 2V{height:.0f}"/>'
        f'<path class="flag" d="M{x:.1f} 2h20v14h-20z"/><text class="flagged" x="{x + 10:.1f}" y="13">{number}</text>'
        f"{title}</a>"
    )


def _width(text: str) -> float:
    return sum(WIDE_PX if char >= "⺀" else CHAR_PX for char in text.strip()) + GAP_PX
