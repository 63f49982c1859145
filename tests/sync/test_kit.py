"""The kit passes tours without fault; each planted fault is caught by the right assertion with a telling message."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from multimodal.errors import DriftError, PipeError, SyncError, UsageError
from multimodal.events import AnyEvent, CueMissed, Reveal, StreamEnd, Swap, SyncMark, Text
from multimodal.stream import MultiModalStream
from multimodal.sync.aligner import Aligner
from multimodal.sync.kit import (
    assert_every_cue_settled,
    assert_holds_kept,
    assert_in_sync,
    assert_right_product,
    record,
)
from multimodal.sync.log import SyncLog
from multimodal.values import Cue, EncodedImage, LatePolicy
from tests.support import virtual
from tests.sync import test_aligner_machine as machine
from tests.sync.driving import Scenario, drive, scenarios
from tests.sync.planted import FAULTS, late_on_a_later_mark, swapped
from tests.sync.tours import TOKENS, changed, emitted, index, moved, renumbered, tour, watched

TEXT = "".join(TOKENS)
quick = settings(deadline=None, max_examples=60)
"""No deadline: a busy machine is no fault of the kit."""
POLICIES: tuple[LatePolicy, ...] = ("placeholder", "hold", "skip")
INTERVALS = (1, 3, 8)


def judge(log: SyncLog, preset: str = "default") -> set[str]:
    """The assertions that fail."""
    assertions: dict[str, Callable[[], None]] = {
        "in_sync": lambda: assert_in_sync(log, preset),
        "settled": lambda: assert_every_cue_settled(log, text=TEXT),
        "product": lambda: assert_right_product(log),
        "holds": lambda: assert_holds_kept(log),
    }
    failed = set()
    for name, assertion in assertions.items():
        try:
            assertion()
        except DriftError:
            failed.add(name)
    return failed


# ---- without fault ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("late", POLICIES)
@pytest.mark.parametrize("ready", [{}, {"mug-1": 0.9}, {"mug-1": 2.0}, {"kettle-1": 0.3, "lamp-1": 99.0}])
def test_a_tour_without_fault_passes_everything(interval: int, late: LatePolicy, ready: dict[str, float]) -> None:
    for viewer in (False, True):
        assert judge(tour(interval, late, ready=ready, viewer=viewer), "strict") == set()


@quick
@given(scenarios(late_cues=True))
def test_whatever_the_aligner_emits_passes(run: Scenario) -> None:
    aligner = run.aligner()
    try:
        log = SyncLog(tuple(drive(aligner, run.schedule())), plan=aligner.plan)
    except UsageError:
        return  # a cue declared after the end
    for seen in (log, watched(log)):
        assert_every_cue_settled(seen, text="".join(f"t{number} " for number in range(len(run.token_ms))))
        assert_right_product(seen)
        assert_holds_kept(seen, hold_tolerance_ms=0.01)
        if log.of(Reveal):
            for preset in ("strict", "default", "relaxed"):
                assert_in_sync(seen, preset)


# ---- planted faults --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught_by_the_right_assertion(name: str) -> None:
    fault = FAULTS[name]
    log = fault.damage()
    assertion: Callable[[], None] = {
        "in_sync": lambda: assert_in_sync(log),
        "settled": lambda: assert_every_cue_settled(log, text=TEXT),
        "product": lambda: assert_right_product(log),
        "holds": lambda: assert_holds_kept(log),
    }[fault.caught_by]
    with pytest.raises(DriftError) as caught:
        assertion()
    message = str(caught.value)
    verdict, words, token, cause, timeline, *_ = message.splitlines()
    assert re.search(fault.verdict, verdict), message
    assert words.startswith("  words     "), message
    assert fault.words in words, message
    assert re.match(r"  token     \d+", token), message
    assert cause.startswith(f"  cause     {fault.cause}: "), message
    assert timeline == "  timeline  multimodal tour --check --record FILE"
    assert isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.caught_by == "holds"])
def test_in_sync_notices_what_goes_wrong_with_holds(name: str) -> None:
    with pytest.raises(DriftError):
        assert_in_sync(FAULTS[name].damage())


@pytest.mark.parametrize("preset", ["strict", "default", "relaxed"])
@pytest.mark.parametrize("name", ["early by place", "early by mark", "for other words"])
def test_a_picture_before_its_words_fails_under_every_preset(preset: str, name: str) -> None:
    with pytest.raises(DriftError):
        assert_in_sync(FAULTS[name].damage(), preset)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.caught_by == "product"])
def test_only_the_right_product_is_at_stake_when_pictures_are_wrong(name: str) -> None:
    assert judge(FAULTS[name].damage()) == {"product"}


# ---- faults of an aligner --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "caught_by"),
    [
        (machine.DeadlineNeverSet, assert_holds_kept),
        (machine.ForgetsTheSwap, assert_every_cue_settled),
        (machine.HoldEndsAtNextToken, assert_holds_kept),
        (machine.HoldEndsLate, assert_holds_kept),
        (machine.MarksTwice, assert_every_cue_settled),
        (machine.NeverSkips, assert_every_cue_settled),
        (machine.SettlesTwice, assert_every_cue_settled),
        (machine.WrongOrderOnAMark, assert_every_cue_settled),
    ],
)
def test_a_faulty_aligner_is_found(fault: type[Aligner], caught_by: Callable[..., None]) -> None:
    def caught(run: Scenario) -> bool:
        aligner = run.aligner(fault)
        log = SyncLog(tuple(drive(aligner, run.schedule())), plan=aligner.plan)
        arguments = {"hold_tolerance_ms": 1.0} if caught_by is assert_holds_kept else {}
        try:
            caught_by(log, **arguments)
        except DriftError:
            return True
        return False

    find(
        scenarios(), caught, settings=settings(max_examples=2000, deadline=None, database=None, phases=[Phase.generate])
    )


# ---- faults at random places -----------------------------------------------------------------------------------------


@st.composite
def tours(draw: st.DrawFn) -> SyncLog:
    ready = draw(st.sampled_from([{}, {"mug-1": 0.9}, {"kettle-1": 9.0}]))
    return tour(draw(st.sampled_from(INTERVALS)), draw(st.sampled_from(POLICIES)), ready=ready)


@quick
@given(tours(), st.data())
def test_any_lost_event_is_caught(log: SyncLog, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(log.events) - 1))
    gone = [event for number, event in enumerate(log.events) if number != place]
    assert "settled" in judge(emitted(log, gone))
    if not isinstance(log.events[place], Text | SyncMark | Reveal | CueMissed | Swap | StreamEnd):
        return  # a slot that was never reserved, in a log that numbers the rest anew, leaves no trace
    assert "settled" in judge(renumbered(log, gone))


@quick
@given(tours(), st.data())
def test_any_duplicated_event_is_caught(log: SyncLog, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(log.events) - 1))
    assert "settled" in judge(emitted(log, [*log.events[: place + 1], *log.events[place:]]))
    arrival = data.draw(st.sampled_from(log.arrived))
    assert judge(msgspec.structs.replace(log, arrived=(*log.arrived, arrival))) == {"settled"}


@quick
@given(tours(), st.data())
def test_any_reveal_moved_past_text_is_caught(log: SyncLog, data: st.DataObject) -> None:
    place = log.events.index(data.draw(st.sampled_from(log.of(Reveal))))
    to = data.draw(st.integers(1, len(log.events) - 2))
    between = log.events[min(place, to) : max(place, to) + 1]
    failed = judge(moved(log, place, to), "relaxed")
    assert ("in_sync" in failed) == any(isinstance(event, Text) for event in between)


@quick
@given(tours(), st.data())
def test_any_two_texts_that_change_places_are_caught(log: SyncLog, data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.lists(st.integers(0, len(log.texts) - 1), min_size=2, max_size=2, unique=True)))
    events: list[AnyEvent] = list(log.events)
    a, b = index(log, Text, first), index(log, Text, second)
    events[a], events[b] = events[b], events[a]
    assert "settled" in judge(renumbered(log, events))


@quick
@given(tours(), st.data())
def test_any_reveal_of_another_product_is_caught(log: SyncLog, data: st.DataObject) -> None:
    place = log.events.index(data.draw(st.sampled_from(log.of(Reveal))))
    reveal = log.events[place]
    assert isinstance(reveal, Reveal)
    other = data.draw(st.sampled_from(["kettle", "mug", "lamp", "mini"]))
    if other == reveal.product:
        return
    wrong = changed(log, place, key=f"{other}-1", product=other)
    assert "product" in judge(wrong)
    assert "product" in judge(msgspec.structs.replace(wrong, plan=None))


@quick
@given(tours(), st.data())
def test_any_lateness_beyond_the_limit_is_caught_and_none_within_it(log: SyncLog, data: st.DataObject) -> None:
    reveal = data.draw(st.sampled_from(log.of(Reveal)))
    delay = data.draw(st.integers(0, 1500))
    failed = judge(watched(log, lambda event: 20.0 + delay if event.seq == reveal.seq else 20.0))
    if delay > 500 + 17:
        assert failed == {"in_sync"}
    elif delay <= 500 - 17:
        assert failed <= {"settled"}


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_presets_and_overrides() -> None:
    log = watched(tour(), lambda event: 320.0 if isinstance(event, Reveal) and event.cue == 1 else 20.0)
    assert_in_sync(log)
    assert_in_sync(log, "strict", late_ms=400)
    with pytest.raises(DriftError, match=r"limit: \+240 ms, preset strict"):
        assert_in_sync(log, "strict")
    with pytest.raises(DriftError, match=r"same-frame share 0\.667 is below 0\.99"):
        assert_in_sync(log, min_same_frame_share=0.99)
    with pytest.raises(DriftError, match=r"'kettle-1' came late: 2 tokens .*limit: 1 token"):
        assert_in_sync(tour(), max_token_drift=1)


def test_relaxed_allows_the_same_sentence() -> None:
    """`late, a mark later` stays in its sentence; strict and default do not take it."""
    late = late_on_a_later_mark()
    assert_in_sync(late, "relaxed")
    with pytest.raises(DriftError):
        assert_in_sync(late, "default")


def test_a_slow_swap_is_blamed_on_the_bytes_or_on_the_decoder() -> None:
    slow = tour(ready={"mug-1": 2.0})
    assert_in_sync(slow)
    with pytest.raises(DriftError, match=r"after \d+ tokens and \d+ ms \(limit: 500 ms\)") as caught:
        assert_in_sync(slow, max_swap_ms=500)
    assert "fetch: " in str(caught.value)
    place = index(slow, Swap)
    asset = slow.assets["mug-1"][-1]
    early = msgspec.structs.replace(asset, pts_ms=900.0)
    there = emitted(slow, [early if event is asset else event for event in slow.events])
    with pytest.raises(DriftError, match="decode: its bytes were there"):
        assert_in_sync(there, max_swap_ms=500)
    failed = changed(slow, place, ok=False, reason="truncated")
    with pytest.raises(DriftError, match=r"was given up .*: truncated"):
        assert_in_sync(failed, max_swap_ms=5000)


def test_unknown_presets_and_overrides_name_the_known_ones() -> None:
    with pytest.raises(UsageError, match="preset='fierce' is unknown; use one of strict, default, relaxed"):
        assert_in_sync(tour(), "fierce")
    with pytest.raises(UsageError, match="no limit late; it has early_ms, late_ms"):
        assert_in_sync(tour(), late=3)


def test_a_tour_without_pictures_is_not_in_sync() -> None:
    with pytest.raises(DriftError, match="no picture came, so nothing was in sync") as caught:
        assert_in_sync(tour(late="skip", ready=dict.fromkeys(("kettle-1", "mug-1", "lamp-1"), 99.0)))
    assert "3 cues were missed: late" in str(caught.value)
    with pytest.raises(DriftError, match="the log has no cue"):
        assert_in_sync(tour(declared=[]))


def test_expected_pictures_by_cue_and_by_anchor() -> None:
    log = tour(late="skip", ready={"lamp-1": 99.0})
    assert_right_product(log, {0: "kettle-1"}, anchors={17: "mug-1"})
    with pytest.raises(DriftError, match="'kettle-1' in place of 'mug-1'"):
        assert_right_product(log, {0: "mug-1"})
    with pytest.raises(DriftError, match="'mug-1' in place of 'lamp-1'"):
        assert_right_product(log, anchors={17: "lamp-1"})
    with pytest.raises(DriftError, match=r"'lamp-1' was expected at boundary 24 and never shown(.|\n)*missed: late"):
        assert_right_product(log, anchors={24: "lamp-1"})
    with pytest.raises(DriftError, match="expected at cue 9 and never shown"):
        assert_right_product(log, {9: "lamp-1"})


def test_words_may_be_left_out_of_the_comparison() -> None:
    assert_right_product(swapped(), words=False)


def test_many_faults_are_counted_and_a_cut_recording_is_mentioned() -> None:
    log = tour()
    log = msgspec.structs.replace(log, arrived=log.arrived[:2], truncated="line 9 breaks off after 3 bytes")
    with pytest.raises(DriftError) as caught:
        assert_every_cue_settled(log)
    lines = str(caught.value).splitlines()
    assert lines[-2] == f"  also      {len(log.events) - 2 - 4} more"
    assert lines[-1] == "  recording line 9 breaks off after 3 bytes"


# ---- recording in process --------------------------------------------------------------------------------------------


async def spoken(tokens: Sequence[str], gap: float = 0.05) -> AsyncIterator[str]:
    for text in tokens:
        yield text
        await asyncio.sleep(gap)


async def shown(*keys: str) -> AsyncIterator[EncodedImage]:
    for key in keys:
        yield EncodedImage(key, b"x", "image/webp", 4, 3)


def test_record_plays_a_stream_to_its_end_and_keeps_its_plan() -> None:
    stream = MultiModalStream(spoken(TOKENS), shown("a", "b"), cues=[Cue(4, "a"), Cue(7, "b", "hold", 0.1)])
    log = virtual(record(stream))
    assert log.plan == {0: Cue(4, "a", "placeholder", 0.25), 1: Cue(7, "b", "hold", 0.1)}
    assert_in_sync(log, "strict")
    assert_every_cue_settled(log, text=TEXT)


def test_record_names_what_it_waited_for() -> None:
    async def hanging() -> AsyncIterator[str]:
        yield "word "
        await asyncio.sleep(1000)

    with pytest.raises(SyncError, match=r"did not end within limit=5 s; the last event was seq \d+ at token 1"):
        virtual(record(MultiModalStream(hanging(), shown("a")), limit=5))


def test_record_lets_a_failing_pipe_through() -> None:
    async def failing() -> AsyncIterator[str]:
        yield "word "
        raise OSError("the cable is out")

    with pytest.raises(PipeError, match="the cable is out"):
        virtual(record(MultiModalStream(failing(), shown("a"))))
