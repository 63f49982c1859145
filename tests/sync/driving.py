"""Drives an aligner through a schedule, keeping the order that one instant prescribes, and draws schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from multimodal.events import AnyEvent
from multimodal.sync.aligner import Aligner
from multimodal.values import Cue, EncodedImage, LatePolicy, Token
from multimodal.wire import Hello, Ready

FIRST, TOKENS, PICTURES = 0, 1, 2
"""At one `now`: what was declared, then tokens, then pictures and acks; timers come last (R2)."""

Feed = Callable[[Aligner, float], object]


def image(key: str, product: str = "") -> EncodedImage:
    return EncodedImage(key, b"x", "image/webp", 4, 3, product=product, alt=f"picture {key}")


def drive(aligner: Aligner, schedule: Sequence[tuple[float, int, Feed]]) -> list[AnyEvent]:
    """Feed every (time, rank, feed) in order; timers fire exactly when they are due, after the items of their time."""
    log: list[AnyEvent] = []
    times = sorted({at for at, _, _ in schedule})

    def timers(before: float, *, inclusive: bool) -> None:
        while (due := aligner.next_timer()) is not None and (due < before or (inclusive and due == before)):
            aligner.handle_timer(due)
            log.extend(aligner.events())

    for at in times:
        timers(at, inclusive=False)
        for _, _, feed in sorted((item for item in schedule if item[0] == at), key=lambda item: item[1]):
            feed(aligner, at)
        log.extend(aligner.events())
        timers(at, inclusive=True)
    timers(float("inf"), inclusive=False)
    return log


def token(text: str) -> Feed:
    return lambda aligner, now: aligner.feed_token(Token(text), now)


def eof(aligner: Aligner, now: float) -> None:
    aligner.feed_eof(now)


def cue(anchor: int, key: str, late: LatePolicy | None = None, max_hold: float | None = None) -> Feed:
    return lambda aligner, now: aligner.feed_cue(Cue(anchor, key, late, max_hold), now)


def picture(key: str) -> Feed:
    return lambda aligner, now: aligner.feed_image(image(key), now)


def failed(key: str, reason: str = "truncated") -> Feed:
    return lambda aligner, now: aligner.feed_image_failed(key, reason, now)


def ready(key: str) -> Feed:
    return lambda aligner, now: aligner.feed_ack(Ready(key), now)


def hello(aligner: Aligner, now: float) -> None:
    aligner.feed_ack(Hello(), now)


@dataclass
class Scenario:
    """One run as data; times are whole milliseconds, tokens on even ones and pictures on odd ones (no ties)."""

    interval: int
    late: LatePolicy
    max_hold_ms: int
    swap_wait_ms: int
    token_ms: list[int]
    eof_ms: int
    cues: list[tuple[int, str, LatePolicy | None, int | None]]
    ready_ms: dict[str, int]
    failed_ms: dict[str, int]
    viewer: bool
    late_cues: list[tuple[int, int, str]] = field(default_factory=list)
    min_dwell_ms: int = 0

    def aligner(self, kind: type[Aligner] = Aligner) -> Aligner:
        return kind(
            self.interval,
            late=self.late,
            max_hold=self.max_hold_ms / 1000,
            swap_wait=self.swap_wait_ms / 1000,
            min_dwell=self.min_dwell_ms / 1000,
            sid="s",
        )

    def schedule(self) -> list[tuple[float, int, Feed]]:
        items: list[tuple[float, int, Feed]] = [(0.0, FIRST, hello)] if self.viewer else []
        for anchor, key, late, hold_ms in self.cues:
            items.append((0.0, FIRST, cue(anchor, key, late, None if hold_ms is None else hold_ms / 1000)))
        items += [(at / 1000, TOKENS, token(f"t{i} ")) for i, at in enumerate(self.token_ms)]
        items.append((self.eof_ms / 1000, TOKENS, eof))
        for key, at in self.ready_ms.items():
            # With a viewer the bytes come earlier and do not count; its word does (R4).
            items.append((max(at - 40, 0) / 1000 if self.viewer else at / 1000, PICTURES, picture(key)))
            if self.viewer:
                items.append((at / 1000, PICTURES, ready(key)))
        items += [(at / 1000, PICTURES, failed(key)) for key, at in self.failed_ms.items()]
        items += [(at / 1000, FIRST, cue(anchor, key)) for at, anchor, key in self.late_cues]
        return items


KEYS = "ABCDEF"


@st.composite
def scenarios(draw: st.DrawFn, *, late_cues: bool = False) -> Scenario:
    """Runs with fast and slow tokens, pictures early, late, failed or never, and every policy mixed."""
    policies: st.SearchStrategy[LatePolicy] = st.sampled_from(("placeholder", "hold", "skip"))
    gaps = draw(st.lists(st.sampled_from([0, 2, 20, 50, 400]), min_size=0, max_size=24))
    token_ms, at = [], draw(st.sampled_from([0, 10]))
    for gap in gaps:
        at += gap
        token_ms.append(at)
    eof_ms = at + draw(st.sampled_from([0, 0, 30]))
    hold_ms = st.sampled_from([0, 10, 100, 250, 900])
    anchors = st.integers(0, len(gaps) + 3)
    cues = draw(
        st.lists(st.tuples(anchors, st.sampled_from(KEYS), st.none() | policies, st.none() | hold_ms), max_size=10)
    )
    # One odd millisecond each: two pictures never come at one instant, nor with a token.
    slots = draw(st.lists(st.integers(len(KEYS), 1500), min_size=len(KEYS), max_size=len(KEYS), unique=True))
    ready_ms, failed_ms = {}, {}
    for key, slot in zip(KEYS, slots, strict=True):
        fate = draw(st.sampled_from(["early", "ready", "ready", "failed", "never"]))
        if fate == "failed":
            failed_ms[key] = 2 * slot + 1
        elif fate != "never":
            ready_ms[key] = 2 * slot + 1 if fate == "ready" else 2 * KEYS.index(key) + 1
    late = []
    if late_cues:
        moments = st.integers(0, eof_ms // 2 + 1).map(lambda tick: 2 * tick)
        late = draw(st.lists(st.tuples(moments, anchors, st.sampled_from(KEYS)), max_size=5))
    return Scenario(
        draw(st.integers(1, 8)),
        draw(policies),
        draw(hold_ms),
        draw(st.sampled_from([0, 100, 1000])),
        token_ms,
        eof_ms,
        cues,
        ready_ms,
        failed_ms,
        draw(st.booleans()),
        late,
        draw(st.sampled_from([0, 0, 60, 500, 4000])),
    )
