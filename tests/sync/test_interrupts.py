"""R9: after an interruption nothing of the older epoch comes out again, and every cue has had its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.events import AnyEvent, CueMissed, Interrupted, Reveal, StreamEnd, Swap, SyncMark, Text
from multimodal.sync.aligner import Aligner
from multimodal.values import Cue, LatePolicy, Token
from tests.sync.driving import KEYS, image

Step = tuple[str, int]


@st.composite
def conversations(draw: st.DrawFn) -> tuple[int, LatePolicy, float, list[Step]]:
    """Tokens, cues (relative to the epoch's beginning), pictures, failures, pauses and interruptions, in any order."""
    step = st.one_of(
        st.tuples(st.just("token"), st.just(0)),
        st.tuples(st.just("token"), st.just(0)),
        st.tuples(st.just("cue"), st.integers(-2, 8)),
        st.tuples(st.sampled_from(["picture", "failed"]), st.integers(0, len(KEYS) - 1)),
        st.tuples(st.just("wait"), st.sampled_from([1, 40, 300, 1200])),
        st.tuples(st.just("interrupt"), st.just(0)),
    )
    policies: st.SearchStrategy[LatePolicy] = st.sampled_from(("placeholder", "hold", "skip"))
    dwell = draw(st.sampled_from([0.0, 0.0, 0.5]))
    return draw(st.integers(1, 5)), draw(policies), dwell, draw(st.lists(step, max_size=60))


def talk(aligner: Aligner, steps: Sequence[Step]) -> tuple[list[AnyEvent], list[tuple[int, str]], list[str]]:
    """The log, the declared cues as (epoch, key), and what each epoch was given to say."""
    now, base, cues, said = 0.0, 0, [], [""]
    log: list[AnyEvent] = []

    def timers(until: float) -> None:
        while (due := aligner.next_timer()) is not None and due <= until:
            aligner.handle_timer(due)
            log.extend(aligner.events())

    for number, (kind, value) in enumerate(steps):
        if kind == "token":
            said[-1] += f"<{number}>"
            aligner.feed_token(Token(f"<{number}>"), now)
        elif kind == "cue":
            key = KEYS[number % len(KEYS)]
            cues.append((len(said) - 1, key))
            aligner.feed_cue(Cue(max(0, base + value), key), now)
        elif kind == "picture":
            aligner.feed_image(image(KEYS[value]), now)
        elif kind == "failed":
            aligner.feed_image_failed(KEYS[value], "truncated", now)
        elif kind == "wait":
            timers(now + value / 1000)
            now += value / 1000
        else:
            aligner.interrupt(now)
            said.append("")
            base = aligner.snapshot().tokens_out
        log.extend(aligner.events())
    aligner.feed_eof(now)
    log.extend(aligner.events())
    timers(float("inf"))
    return log, cues, said


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversations())
def test_nothing_of_an_older_epoch_comes_out_again(run: tuple[int, LatePolicy, float, list[Step]]) -> None:
    interval, late, dwell, steps = run
    log, cues, said = talk(Aligner(interval, late=late, min_dwell=dwell, sid="s"), steps)
    assert [e.seq for e in log] == list(range(len(log)))
    assert all(a.pts_ms <= b.pts_ms and a.epoch <= b.epoch for a, b in pairwise(log))
    assert isinstance(log[-1], StreamEnd)
    assert sum(isinstance(e, StreamEnd) for e in log) == 1
    assert log[-1].epoch == len(said) - 1 == sum(isinstance(e, Interrupted) for e in log)
    outcomes: dict[int, AnyEvent] = {}
    open_previews: set[int] = set()
    base = epoch = 0
    marks: list[int] = []
    for event in log:
        if isinstance(event, Interrupted):
            assert event.epoch == epoch + 1
            assert not open_previews, "a preview of the old epoch is left open"
            epoch, base, marks = event.epoch, event.tok, []
        assert event.epoch == epoch
        if isinstance(event, Reveal | CueMissed):
            assert event.cue not in outcomes, "two outcomes"
            outcomes[event.cue] = event
            assert cues[event.cue][0] == event.epoch, "a cue of another epoch came out"
        if isinstance(event, Reveal):
            assert event.mark >= base
            if event.preview:
                open_previews.add(event.cue)
            if not (event.declared_late or event.deferred):
                assert 0 <= event.mark - event.anchor < interval
        elif isinstance(event, Swap):
            open_previews.remove(event.cue)
        elif isinstance(event, SyncMark):
            marks.append(event.mark)
            assert marks == [base + i * interval for i in range(len(marks) - 1)] + [event.mark]
    assert set(outcomes) == set(range(len(cues))), "a cue without its outcome"
    for number, given_text in enumerate(said):
        shown = "".join(e.text for e in log if isinstance(e, Text) and e.epoch == number)
        assert given_text.startswith(shown)
        if number == len(said) - 1:
            assert shown == given_text, "the last turn is told whole"


def test_an_interruption_during_a_hold() -> None:
    aligner = Aligner(2)
    aligner.feed_cue(Cue(0, "A", "hold", 9.0), 0.0)
    aligner.feed_cue(Cue(3, "B"), 0.0)
    for text in "abc":
        aligner.feed_token(Token(text), 0.0)
    assert aligner.interrupt(0.5) == 1
    aligner.feed_cue(Cue(1, "C"), 0.5)
    aligner.feed_image(image("A"), 0.6)
    aligner.feed_image(image("C"), 0.6)
    for text in "xy":
        aligner.feed_token(Token(text), 0.7)
    aligner.feed_eof(0.7)
    told = [(e.kind, e.epoch, getattr(e, "key", getattr(e, "text", ""))) for e in aligner.events() if e.kind != "asset"]
    assert told == [
        ("start", 0, ""),
        ("sync", 0, ""),
        ("missed", 0, "A"),
        ("missed", 0, "B"),
        ("interrupt", 1, ""),
        ("sync", 1, ""),
        ("text", 1, "x"),
        ("text", 1, "y"),
        ("sync", 1, ""),
        ("reveal", 1, "C"),
        ("end", 1, ""),
    ]


def test_an_ended_stream_cannot_be_interrupted() -> None:
    aligner = Aligner()
    aligner.feed_eof(0.0)
    with pytest.raises(UsageError, match="ended"):
        aligner.interrupt(1.0)
