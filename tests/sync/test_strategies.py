"""A thousand random tours through the real stream on virtual time: every rule holds, and each repeats to the byte.

`MULTIMODAL_TOURS=20000 pytest tests/sync/test_strategies.py` plays more of them, from a new seed each time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from multimodal.events import CueMissed, Interrupted, ProductBrief, Reveal, Swap
from multimodal.sync import strategies
from multimodal.sync.golden import normalized
from multimodal.sync.kit import (
    assert_every_cue_settled,
    assert_holds_kept,
    assert_in_sync,
    assert_no_spoiler,
    assert_right_product,
    assert_same_text_as_batch,
)
from multimodal.sync.log import SyncLog
from multimodal.sync.strategies import Fate, Tour, cues, named_tours, paces, pictures, token_streams, tours
from multimodal.sync.virtual import VirtualClock
from multimodal.sync.words import Names

MORE = int(os.environ.get("MULTIMODAL_TOURS", "0"))
HOW_MANY = settings(
    max_examples=MORE or 1000,
    derandomize=not MORE,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
LOOSE_MS = 0.01
"""Virtual timers are never late."""


def play(tour: Tour) -> SyncLog:
    with VirtualClock() as clock:
        return clock.run(tour.play())


REACHED: dict[str, Callable[[SyncLog], bool]] = {
    "a preview that is swapped": lambda log: any(swap.ok for swap in log.of(Swap)),
    "a preview that is given up": lambda log: any(not swap.ok for swap in log.of(Swap)),
    "a hold": lambda log: any(e.pts_ms > log.marks[e.mark].pts_ms for e in log.of(Reveal)),
    "a cue missed as late": lambda log: any(missed.reason == "late" for missed in log.of(CueMissed)),
    "a cue beyond the end": lambda log: any(missed.reason == "beyond_end" for missed in log.of(CueMissed)),
    "a cue declared late": lambda log: any(reveal.declared_late for reveal in log.of(Reveal)),
    "a failed picture": lambda log: any(missed.reason == "truncated" for missed in log.of(CueMissed)),
    "a reveal kept back for a dwell": lambda log: any(reveal.deferred for reveal in log.of(Reveal)),
    "two interruptions": lambda log: len(log.of(Interrupted)) > 1,
    "a cue cut by an interruption": lambda log: any(missed.reason == "interrupted" for missed in log.of(CueMissed)),
    "a preview cut by an interruption": lambda log: any(swap.reason == "interrupted" for swap in log.of(Swap)),
    "several reveals on a mark": lambda log: len({e.mark for e in log.of(Reveal)}) < len(log.of(Reveal)),
}
"""What the rules speak of: a tour without it proves nothing of them."""


def assert_told(log: SyncLog, tour: Tour) -> None:
    """R1, R9: what is not interrupted is told to the letter, what is ends somewhere in the middle."""
    if not log.of(Interrupted):
        return assert_same_text_as_batch(log, "".join(tour.tokens))
    told = ["" for _ in range(log.events[-1].epoch + 1)]
    for text in log.texts:
        told[text.epoch] += text.text
    given = ["".join(tour.tokens), *("".join(turn.tokens) for turn in tour.turns)]
    assert given[len(told) - 1] == told[-1]
    assert all(whole.startswith(part) for whole, part in zip(given, told, strict=False))


def test_every_rule_holds_on_any_tour_and_it_repeats_to_the_byte() -> None:
    reached: Counter[str] = Counter()

    @HOW_MANY
    @given(tours())
    def each(tour: Tour) -> None:
        log = play(tour)
        hold: dict[str, float] = {"max_hold": tour.settings["max_hold"], "hold_tolerance_ms": LOOSE_MS}
        assert_every_cue_settled(log)
        assert_told(log, tour)
        assert_right_product(log)
        assert_no_spoiler(log)
        assert_holds_kept(log, **hold)
        if log.of(Reveal):
            assert_in_sync(log, "strict", max_hold=hold["max_hold"], hold_tolerance_ms=LOOSE_MS)
        again = play(tour)
        assert b"".join(normalized(again, times=True).lines()) == b"".join(normalized(log, times=True).lines())
        reached.update(what for what, holds in REACHED.items() if holds(log))

    each()
    assert set(reached) == set(REACHED), "the strategies no longer reach all that the rules speak of"


@settings(HOW_MANY, max_examples=MORE or 300)
@given(named_tours())
def test_every_rule_holds_where_the_narration_says_what_to_show(tour: Tour) -> None:
    log = play(tour)
    assert_every_cue_settled(log, text=tour.seen_text)
    assert_right_product(log, words=False)
    assert_no_spoiler(log)
    assert_holds_kept(log, max_hold=tour.settings["max_hold"], hold_tolerance_ms=LOOSE_MS)
    if log.of(Reveal):
        assert_in_sync(log, "strict", max_hold=tour.settings["max_hold"], hold_tolerance_ms=LOOSE_MS)
    shown = {event.key for events in log.outcomes.values() for event in events}
    briefs = [ProductBrief(product.id, product.title, product.aliases) for product in tour.products]
    named = {product for mention in Names(briefs).find(log.text).items for product in mention.ids}
    asked = set(re.findall(r"\[\[show:([A-D])", tour.text))
    assert shown == named | asked, "every product that is named or marked has an outcome, and no other"
    again = play(tour)
    assert b"".join(normalized(again, times=True).lines()) == b"".join(normalized(log, times=True).lines())


def test_every_rule_holds_where_meaning_says_it_too() -> None:
    by_meaning = 0

    @settings(HOW_MANY, max_examples=MORE or 200)
    @given(named_tours(meaning=True))
    def each(tour: Tour) -> None:
        nonlocal by_meaning
        log = play(tour)
        assert_every_cue_settled(log, text=tour.seen_text)
        assert_right_product(log, words=False)
        assert_no_spoiler(log)
        assert_holds_kept(log, max_hold=tour.settings["max_hold"], hold_tolerance_ms=LOOSE_MS)
        if log.of(Reveal):
            assert_in_sync(log, "strict", max_hold=tour.settings["max_hold"], hold_tolerance_ms=LOOSE_MS)
        shown = {event.key for events in log.outcomes.values() for event in events}
        briefs = [ProductBrief(product.id, product.title, product.aliases) for product in tour.products]
        named = {product for mention in Names(briefs).find(log.text).items for product in mention.ids}
        asked = set(re.findall(r"\[\[show:([A-D])", tour.text))
        assert shown >= named | asked, "meaning takes nothing from names and markers"
        by_meaning += bool(shown - named - asked)
        again = play(tour)
        assert b"".join(normalized(again, times=True).lines()) == b"".join(normalized(log, times=True).lines())

    each()
    assert by_meaning > 10, "words about a product brought its picture in too few tours to prove anything"


# ---- what the strategies draw ----------------------------------------------------------------------------------------

ONCE = settings(max_examples=3000, deadline=None, database=None, derandomize=True, phases=[Phase.generate])


@pytest.mark.parametrize(
    ("what", "holds"),
    [
        ("an empty token", lambda tokens: "" in tokens),
        ("Chinese", lambda tokens: "水" in tokens),
        ("a joined emoji", lambda tokens: any("\u200d" in token and len(token) > 3 for token in tokens)),
        ("right to left", lambda tokens: any("\u0590" <= char <= "\u06ff" for token in tokens for char in token)),
        ("nothing at all", lambda tokens: tokens == []),
    ],
)
def test_token_streams_hold_what_hurts(what: str, holds: object) -> None:
    assert callable(holds), what
    find(token_streams(), holds, settings=ONCE)


@given(token_streams(min_size=2, max_size=3), st.data())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_sizes_are_kept(tokens: list[str], data: st.DataObject) -> None:
    assert 2 <= len(tokens) <= 3
    assert len(data.draw(paces(len(tokens)))) == len(tokens)
    "".join(tokens).encode()
    assert set(data.draw(pictures("xy"))) == {"x", "y"}
    assert all(cue.key in "xy" for cue in data.draw(cues(3, "xy")))


@pytest.mark.parametrize(
    ("what", "holds"),
    [
        ("a burst", lambda tour: any(gap == 0 == after for gap, after in pairwise(tour.gaps_ms))),
        ("a picture twice", lambda tour: any(fate.again_ms is not None for fate in tour.fates.values())),
        ("a picture that never comes", lambda tour: any(fate.kind == "never" for fate in tour.fates.values())),
        ("a cue beyond the end", lambda tour: any(cue.anchor > len(tour.tokens) for cue in tour.cues or ())),
        ("cues on one boundary", lambda tour: len({cue.anchor for cue in tour.cues or ()}) < len(tour.cues or ())),
        ("a cue declared on the way", lambda tour: bool(tour.live)),
        ("every interval", lambda tour: tour.cues is None),
    ],
)
def test_tours_hold_what_goes_wrong(what: str, holds: object) -> None:
    assert callable(holds), what
    find(tours(), holds, settings=ONCE)


def test_a_tour_is_data_to_paste() -> None:
    tour = Tour(("a ", "b "), (0, 50), True, 0, {"A": Fate(at_ms=20, described=True)}, None, (), {"sync_interval": 2})
    assert eval(repr(tour)) == tour
    assert play(tour).text == tour.text == "a b "


def test_without_hypothesis_it_names_what_to_install() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from multimodal.errors import UsageError\n"
        "from multimodal.sync import strategies\n"
        "try: strategies.tours()\n"
        "except UsageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'multimodal-stream[test]'" in done.stdout
    assert "hypothesis" not in vars(strategies)
