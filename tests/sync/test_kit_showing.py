"""Mentions shown, nothing before its words, no growth, the order of pictures, the text as in one piece."""

from __future__ import annotations

import random
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.errors import DriftError, UsageError
from multimodal.events import CueMissed, Reveal, Text
from multimodal.sync import growth
from multimodal.sync.aligner import Aligner
from multimodal.sync.kit import (
    assert_all_mentions_shown,
    assert_every_cue_settled,
    assert_in_sync,
    assert_no_growth,
    assert_no_spoiler,
    assert_order,
    assert_same_text_as_batch,
)
from multimodal.sync.log import SyncLog
from multimodal.values import Cue
from tests.sync import driving
from tests.sync.planted import FAULTS
from tests.sync.tours import STEP, TOKENS, changed, cues, index, moved, renumbered, tour, watched

NEVER = 99.0


def four_lines(message: str) -> list[str]:
    verdict, words, token, cause, *_ = message.splitlines()
    assert words.startswith("  words     "), message
    assert re.match(r"  token     \d+", token), message
    assert cause.startswith("  cause     "), message
    return [verdict, words, token, cause]


# ---- mentions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["placeholder", "hold", "skip"])
def test_a_good_tour_shows_all_it_names(late: str) -> None:
    assert_all_mentions_shown(tour(late=late))  # type: ignore[arg-type]
    assert_all_mentions_shown(tour(ready={"mug-1": 1.1}))


@pytest.mark.parametrize(
    ("log", "cause", "why"),
    [
        (tour(late="skip", ready={"mug-1": NEVER}), "fetch", "its cue was missed: late"),
        (tour(ready={"mug-1": NEVER}), "fetch", "only its preview was shown: swap_wait"),
        (tour(declared=[cue for cue in cues() if cue.product != "mug"]), "anchor", "no cue was declared for it"),
        (FAULTS["missing outcome"].damage(), "queue", "cue 1 was planned for it and has no outcome"),
    ],
)
def test_a_product_that_was_named_and_not_shown_is_reported_at_its_words(log: SyncLog, cause: str, why: str) -> None:
    with pytest.raises(DriftError) as caught:
        assert_all_mentions_shown(log)
    verdict, words, token, because = four_lines(str(caught.value))
    assert re.match(r"'Moss Mug' was named and never shown, 12 tokens and \d+ ms before the end", verdict)
    assert "the Moss Mug,|" in words
    assert token.startswith("  token     17")
    assert because == f"  cause     {cause}: {why}"


def test_names_may_be_given_and_then_only_they_count() -> None:
    log = tour(declared=[cue for cue in cues() if cue.product != "mug"])
    assert_all_mentions_shown(log, {"kettle": ["Halo Kettle", "Halo"], "lamp-1": "Ember Lamp"})
    assert_all_mentions_shown(log, {"mug": "a name that nobody says"})
    assert_all_mentions_shown(log, {"mug": []})
    with pytest.raises(DriftError, match="'Moss Mug' was named"):
        assert_all_mentions_shown(log, {"mug": "MOSS mug"})


def test_the_longer_name_is_the_one_that_was_said() -> None:
    """ "Halo Kettle Mini" is not a mention of the Halo Kettle, which nobody shows."""
    tokens = ["This ", "is ", "the ", "Halo ", "Kettle ", "Mini."]
    assert_all_mentions_shown(tour(tokens=tokens, declared=[Cue(6, "mini-1", product="mini")]))


# ---- spoilers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["placeholder", "hold", "skip"])
@pytest.mark.parametrize("interval", [1, 3, 8])
def test_a_good_tour_spoils_nothing(late: str, interval: int) -> None:
    for ready in ({}, {"mug-1": 0.9}, {"kettle-1": 0.3}):
        assert_no_spoiler(tour(interval, late, ready=ready))  # type: ignore[arg-type]


def words_of_the_mug_late() -> SyncLog:
    return watched(tour(), lambda event: 700.0 if isinstance(event, Text) and event.token_index == 16 else 20.0)


def planned_later() -> SyncLog:
    plan = dict(enumerate(cues()))
    return msgspec.structs.replace(tour(), plan=plan | {0: Cue(17, "kettle-1")})


@pytest.mark.parametrize(
    ("log", "cause", "verdict"),
    [
        (FAULTS["early by place"].damage(), "queue", r"'mug-1' .* as emitted: 2 tokens and \d+ ms ahead"),
        (FAULTS["early by mark"].damage(), "queue", r"'mug-1' .* as emitted: 2 tokens and \d+ ms ahead"),
        (words_of_the_mug_late(), "network", r"'mug-1' .* as arrived: 1 token and 630 ms ahead"),
        (planned_later(), "queue", r"'kettle-1' .* as emitted: 11 tokens and 550 ms ahead"),
    ],
)
def test_a_picture_before_its_words_is_a_spoiler(log: SyncLog, cause: str, verdict: str) -> None:
    with pytest.raises(DriftError) as caught:
        assert_no_spoiler(log)
    lines = four_lines(str(caught.value))
    assert re.search(verdict, lines[0]), lines
    assert f"  cause     {cause}: " in lines[3]


def test_a_picture_that_arrives_without_its_words_is_a_spoiler() -> None:
    log = tour(1)
    words = log.words_before(17)
    assert words is not None
    with pytest.raises(DriftError, match="'mug-1' arrived without its words: 1 token missing"):
        assert_no_spoiler(msgspec.structs.replace(log, arrived=tuple(i for i in log.arrived if i.seq != words.seq)))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2), st.integers(1, 8), st.data())
def test_any_reveal_moved_before_its_words_is_a_spoiler(number: int, interval: int, data: st.DataObject) -> None:
    log = tour(interval)
    place = index(log, Reveal, number)
    to = data.draw(st.integers(1, place))
    anchor = log.of(Reveal)[number].anchor
    early = moved(log, place, to)
    at = next(event.tok for event in early.events if isinstance(event, Reveal) and event.cue == number)
    if at < anchor:
        with pytest.raises(DriftError, match="spoils its words"):
            assert_no_spoiler(early)
    else:
        assert_no_spoiler(early)


# ---- growth ----------------------------------------------------------------------------------------------------------

MANY = [Cue(anchor, f"p{anchor}") for anchor in range(1, 27)]


def late_by(ms_per_s: float, noise_ms: float, seed: int = 0) -> SyncLog:
    """A tour whose reveals arrive ever later behind their words."""
    rolls = random.Random(seed)

    def delay(event: object) -> float:
        if not isinstance(event, Reveal):
            return 20.0
        return 200.0 + ms_per_s * event.pts_ms / 1000 + rolls.uniform(-noise_ms, noise_ms)

    log = watched(tour(1, declared=MANY), delay)
    return msgspec.structs.replace(log, painted=())


def test_skew_that_grows_beyond_its_noise_is_found() -> None:
    with pytest.raises(DriftError) as caught:
        assert_no_growth(late_by(30.0, 5.0))
    verdict, *_, cause = four_lines(str(caught.value))
    assert re.match(
        r"skew grows, as arrived: \+3\d ms over 26 tokens and 1250 ms, \+1\d\d\d\.\d ms per minute", verdict
    )
    assert cause.startswith("  cause     network: a line through 26 reveals")


@pytest.mark.parametrize("seed", range(40))
def test_noise_alone_is_no_growth(seed: int) -> None:
    assert_no_growth(late_by(0.0, 30.0, seed))


def test_a_good_tour_does_not_grow_and_painting_in_frames_is_noise() -> None:
    assert_no_growth(tour(1, declared=MANY))
    assert_no_growth(tour(1, declared=MANY, viewer=False))


def test_growth_without_any_noise_is_found_however_small() -> None:
    line = growth.growth_of([float(at) for at in range(0, 1000, 50)], [at / 1000 for at in range(0, 1000, 50)])
    assert line.grows
    assert line.slope == pytest.approx(0.001)
    assert not growth.growth_of([float(at) for at in range(9)], [3.0] * 9).grows


def test_the_error_of_a_slope_by_hand() -> None:
    """x = 0..9, y = x plus 1, -1 in turn: the textbook sums by hand."""
    x = [float(at) for at in range(10)]
    y = [at + (1.0 if at % 2 == 0 else -1.0) for at in x]
    mean_x, mean_y = sum(x) / 10, sum(y) / 10
    sxx = sum((a - mean_x) ** 2 for a in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sxx
    rest = sum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
    line = growth.growth_of(x, y, 0.95)
    assert line.slope == pytest.approx(slope)
    assert line.error == pytest.approx((rest / 8 / sxx) ** 0.5)
    assert line.bound / line.error == pytest.approx(2.306, abs=0.001)  # t, 97.5 %, 8 degrees of freedom


@pytest.mark.parametrize(
    ("confidence", "freedom", "table"), [(0.95, 8, 2.306), (0.99, 10, 3.169), (0.999, 30, 3.646), (0.999, 6, 5.959)]
)
def test_quantiles_as_in_the_tables(confidence: float, freedom: int, table: float) -> None:
    assert growth._student(0.5 + confidence / 2, freedom) == pytest.approx(table, rel=0.01)


def test_a_short_tour_and_a_wrong_confidence_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot be judged by 3 reveals at 3 times; play a longer tour"):
        assert_no_growth(tour())
    with pytest.raises(UsageError, match=r"confidence=1\.5 must lie between"):
        assert_no_growth(tour(1, declared=MANY), confidence=1.5)


# ---- order and text --------------------------------------------------------------------------------------------------


def test_the_order_of_pictures() -> None:
    assert_order(tour(), ["kettle-1", "mug-1", "lamp-1"])
    assert_order(tour(declared=[]), [])
    for keys, verdict in {
        ("mug-1", "kettle-1", "lamp-1"): r"picture 1 is 'kettle-1' in place of 'mug-1', after 6 tokens and 250 ms",
        ("kettle-1", "mug-1"): r"picture 3 is 'lamp-1' in place of nothing, after 24 tokens and \d+ ms",
        ("kettle-1", "mug-1", "lamp-1", "x"): r"picture 4 is nothing in place of 'x', after 29 tokens and \d+ ms",
    }.items():
        with pytest.raises(DriftError) as caught:
            assert_order(tour(), keys)
        lines = four_lines(str(caught.value))
        assert re.match(verdict, lines[0]), lines
        assert "shown were: kettle-1, mug-1, lamp-1" in lines[3]


def test_text_as_in_one_piece() -> None:
    assert_same_text_as_batch(tour(), "".join(TOKENS))
    with pytest.raises(
        DriftError, match=r"not the expected one from character 82 on: 'Moss .*' in place of 'moss"
    ) as it:
        assert_same_text_as_batch(tour(), "".join(TOKENS).replace("Moss", "moss"))
    assert "  cause     generator: " in four_lines(str(it.value))[3]


# ---- limits that the clocks cannot tell ------------------------------------------------------------------------------


def test_a_limit_below_the_uncertainty_of_the_clocks_is_refused() -> None:
    log = tour()
    with pytest.raises(UsageError, match=r"late_ms=0 is smaller than the uncertainty of this log's clocks, .* painted"):
        assert_in_sync(log, late_ms=0)
    told = tuple(msgspec.structs.replace(item, clock="server") for item in log.arrived)
    acked = msgspec.structs.replace(log, arrived=told, painted=())
    assert_in_sync(acked, early_ms=60, late_ms=60)
    with pytest.raises(UsageError, match=r"early_ms=40 is .*, 50\.0 ms as arrived: .* give at least early_ms=50"):
        assert_in_sync(acked, early_ms=40)
    assert_in_sync(tour(viewer=False), late_ms=0, early_ms=0)  # one clock, which is exact


# ---- R9 and R10, read off a log --------------------------------------------------------------------------------------


def dwelling() -> SyncLog:
    """Three pictures within two seconds of each other, each of which stays for one."""
    plan = [Cue(3, "kettle-1"), Cue(6, "mug-1"), Cue(27, "lamp-1")]
    aligner = Aligner(3, min_dwell=1.0, sid="tour")
    schedule: list[tuple[float, int, driving.Feed]] = []
    for cue in plan:
        schedule.append((0.0, driving.FIRST, driving.cue(cue.anchor, cue.key)))
        schedule.append((0.0, driving.FIRST, driving.picture(cue.key)))
    schedule += [(number * STEP, driving.TOKENS, driving.token(text)) for number, text in enumerate(TOKENS)]
    schedule.append(((len(TOKENS) - 1) * STEP, driving.TOKENS, driving.eof))
    return SyncLog(tuple(driving.drive(aligner, schedule)), plan=aligner.plan)


def test_a_picture_that_is_kept_back_is_no_fault_and_one_that_cuts_another_short_is() -> None:
    log = dwelling()
    assert [reveal.deferred for reveal in log.of(Reveal)] == [False, True, True]
    assert_every_cue_settled(log)
    assert_in_sync(log, "strict")
    hasty = changed(log, log.events.index(log.start), min_dwell=1.2)
    with pytest.raises(DriftError, match=r"'mug-1' cuts the picture before it short: 0 tokens and \d+ ms too soon"):
        assert_in_sync(hasty)


def interrupted() -> SyncLog:
    """Stopped after four tokens, with a preview open and a cue to come; then another turn."""
    aligner = Aligner(3, sid="tour")
    schedule: list[tuple[float, int, driving.Feed]] = [
        (0.0, driving.FIRST, driving.cue(1, "kettle-1")),
        (0.0, driving.FIRST, driving.cue(9, "mug-1")),
        (0.18, driving.FIRST, lambda aligner, now: aligner.interrupt(now)),
        (0.2, driving.FIRST, driving.cue(5, "lamp-1")),
        (0.2, driving.FIRST, driving.picture("lamp-1")),
        (0.6, driving.TOKENS, driving.eof),
    ]
    schedule += [(number * STEP, driving.TOKENS, driving.token(TOKENS[number])) for number in range(12)]
    return SyncLog(tuple(driving.drive(aligner, schedule)), plan=aligner.plan)


def test_an_interruption_is_no_fault_and_what_comes_out_of_an_older_epoch_is() -> None:
    log = interrupted()
    assert {missed.reason for missed in log.of(CueMissed)} == {"interrupted"}
    assert_every_cue_settled(log, text="".join(TOKENS[:12]))
    assert_in_sync(log, "strict")
    assert_no_spoiler(log)
    stale = changed(log, index(log, Text, 6), epoch=0)
    with pytest.raises(DriftError, match=r"text 'a ' is of epoch 0, behind one of epoch 1 \(R9\)"):
        assert_every_cue_settled(stale)
    twice = [*log.events, *(event for event in log.events if event.kind == "interrupt")]
    with pytest.raises(DriftError):
        assert_every_cue_settled(renumbered(log, twice))
