"""The outbox against a model of its rules with every kind of handler, planted faults, and what foolish ways lose."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from multimodal.errors import UsageError
from multimodal.pipes.overflow import Outbox, OverflowView, default_policy
from multimodal.pipes.overflow_items import ITEM_BYTES, JOINED_BYTES, Fixed, Gap, Item, Sheddable, TextItem
from multimodal.pipes.overflow_sweep import STRATEGIES, clear_all, drop_oldest, simulate


def does_nothing(view: OverflowView) -> None:
    """Leaves it as it is."""


def raises(view: OverflowView) -> None:
    view.shed(1.0)
    raise RuntimeError("no")


def goes_on_for_ever(view: OverflowView) -> None:
    while view.bytes > view.high_bytes:
        view.shed()


def goes_on_whatever_comes(view: OverflowView) -> None:
    while True:
        try:
            view.shed()
        except Exception:
            continue


def looks_for_ever(view: OverflowView) -> None:
    while view.bytes > view.high_bytes:
        pass


def sheds_all(view: OverflowView) -> None:
    view.shed(1.0)


def only_waits(view: OverflowView) -> None:
    view.backpressure()


HANDLERS: list[Callable[[OverflowView], object] | None] = [None, does_nothing, raises, sheds_all, only_waits]
STUBBORN = [goes_on_for_ever, goes_on_whatever_comes, looks_for_ever]


class Box(RuleBasedStateMachine):
    """Text, cues and previews of any size, a consumer that takes when it likes, handlers that do what they like."""

    make: ClassVar[type[Outbox]] = Outbox

    def __init__(self) -> None:
        super().__init__()
        self.box = self.make(2048)
        self.now = 0.0
        self.tokens = 0
        self.put_in: list[object] = []  # text by token, fixed by number: what must arrive, in order
        self.came: list[object] = []
        self.previews: dict[int, float] = {}
        self.serial = 0
        self.gaps: list[Gap] = []

    def put(self, item: TextItem | Fixed | Sheddable) -> None:
        self.now += 0.01
        was_full = self.box.full
        self.box.put(item, self.now)
        assert self.box.full or self.box.bytes <= self.box.high_bytes, "O2: above the mark, and nobody is held back"
        assert self.box.full or not was_full or self.box.bytes <= self.box.high_bytes, "O2"

    @rule(size=st.integers(0, 300), lane=st.sampled_from(["main", "main", "low"]))
    def text(self, size: int, lane: str) -> None:
        self.put_in.append((self.tokens, lane, "é" * size))
        self.put(TextItem("é" * size, self.tokens, 1, lane))
        self.tokens += 1

    @rule(size=st.integers(0, 300))
    def fixed(self, size: int) -> None:
        self.serial += 1
        self.put_in.append(self.serial)
        self.put(Fixed(self.serial, size))

    @rule(size=st.integers(0, 1500))
    def preview(self, size: int) -> None:
        self.serial += 1
        self.put(Sheddable(self.serial, size))
        self.previews[self.serial] = self.now

    @rule(handler=st.sampled_from(HANDLERS))
    def set_handler(self, handler: Callable[[OverflowView], object] | None) -> None:
        self.box.set_overflow_handler(handler)

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        for _ in range(count):
            item = self.box.take()
            if isinstance(item, TextItem):
                assert item.size_bytes == ITEM_BYTES + len(item.text.encode()) <= max(JOINED_BYTES, 700)
                self.came.append(item)
            elif isinstance(item, Fixed):
                self.came.append(item.payload)
            elif isinstance(item, Sheddable):
                del self.previews[item.payload]
            elif isinstance(item, Gap):
                self.gaps.append(item)
        if self.box.bytes <= self.box.low_bytes:
            assert not self.box.full, "O2: the producer is held back for ever"

    @invariant()
    def nothing_is_lost_but_what_may_be(self) -> None:
        waiting = list(self.box._items)
        assert self.box.bytes == sum(item.size_bytes for item in waiting), "the count of bytes is wrong"
        kept = [item for item in waiting if isinstance(item, (TextItem, Fixed))]
        there = self.came + [item if isinstance(item, TextItem) else item.payload for item in kept]
        assert flat(there) == flat(self.put_in), "O1: text or a cue was lost, changed or moved"
        left = [item.payload for item in waiting if isinstance(item, Sheddable)]
        assert left == sorted(left), "O3: previews changed places"
        shed = [number for number in self.previews if number not in left]
        assert all(number < left[0] for number in shed if left), "O3: not the oldest were shed"
        gaps = [item for item in waiting if isinstance(item, Gap)]
        assert len(gaps) <= 1, "O4: one gap is enough"
        assert sum(gap.count for gap in self.gaps + gaps) == len(shed) == self.box.shed, "O4: shed without a mark"
        for gap in gaps:
            times = [self.previews[number] for number in shed][-gap.count :]
            assert (gap.oldest, gap.newest) == (times[0], times[-1]), "O4"

    def teardown(self) -> None:
        while self.box.take() is not None:
            pass
        assert (self.box.bytes, self.box.full) == (0, False)


def flat(items: list[object]) -> list[object]:
    """Fixed things and, between them, runs of text of one lane: how it was cut into messages does not count."""
    found: list[object] = []
    for item in items:
        if isinstance(item, TextItem):
            first, last, lane, text = item.token_index, item.token_index + item.token_count, item.lane, item.text
        elif isinstance(item, tuple):
            first, last, lane, text = item[0], item[0] + 1, item[1], item[2]
        else:
            found.append(item)
            continue
        before = found[-1] if found else None
        if isinstance(before, tuple) and (before[1], before[2]) == (first, lane):
            found[-1] = (before[0], last, lane, before[3] + text)
        else:
            found.append((first, last, lane, text))
    return found


BOX = settings(max_examples=80, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))
PLANTED = settings(BOX, max_examples=400, database=None, phases=[Phase.generate], derandomize=True)


def test_the_rules_hold_under_any_interleaving() -> None:
    run_state_machine_as_test(Box, settings=BOX)


class ShedsText(Outbox):
    def _shed(self, count: int) -> int:
        if self._items and isinstance(self._items[0], TextItem):
            self.bytes -= self._items.popleft().size_bytes
        return super()._shed(count)


class JoinsAcrossLanes(Outbox):
    def _join(self, last: TextItem, item: TextItem, *, held: bool = False) -> bool:
        item.lane = last.lane
        return super()._join(last, item, held=held)


class TellsNobody(Outbox):
    def _shed(self, count: int) -> int:
        gone = super()._shed(count)
        if self._gap is not None:
            self._gap.count -= bool(gone)
        return gone


class NeverLetsGo(Outbox):
    def take(self) -> Item | None:
        was = self.full
        item = super().take()
        self.full = was
        return item


class NeverHoldsBack(Outbox):
    def _hold_back(self) -> None:
        self.held_back += 1


class ShedsTheNewest(Outbox):
    def _shed(self, count: int) -> int:
        self._items.reverse()
        gone = super()._shed(count)
        self._items.reverse()
        return gone


@pytest.mark.parametrize(
    "fault", [ShedsText, JoinsAcrossLanes, TellsNobody, NeverLetsGo, NeverHoldsBack, ShedsTheNewest]
)
def test_planted_faults_are_found(fault: type[Outbox]) -> None:
    machine = type("Planted", (Box,), {"make": fault})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=PLANTED)


# ---- the default


def filled(previews: int, *, content: int = 100, handler: Callable[[OverflowView], object] | None = None) -> Outbox:
    """Previews with a token before each."""
    box = Outbox((previews + 1) * (content + 2 * ITEM_BYTES + 5) * 4 // 3, handler)
    for index in range(previews):
        box.put(TextItem("word ", index), index)
        box.put(Sheddable(f"preview {index}", content), index + 0.5)
    assert box.overflows == 0
    return box


def drained(box: Outbox) -> list[Item]:
    items = []
    while (item := box.take()) is not None:
        items.append(item)
    return items


def test_it_coalesces_before_it_sheds() -> None:
    box = Outbox(16 * ITEM_BYTES)
    for index in range(40):
        box.put(TextItem("word ", index), index)
        if index == 20:
            box.put(Fixed("cue"), index)
    assert (box.shed, box.held_back) == (0, 0)
    items = drained(box)
    assert [type(item) for item in items].count(Fixed) == 1
    assert len(items) < 15
    assert "".join(item.text for item in items if isinstance(item, TextItem)) == "word " * 40


def test_it_sheds_a_tenth_and_at_least_one_of_the_oldest_and_says_so() -> None:
    for previews, expected in ((4, 1), (35, 4)):
        box = filled(previews)
        box.put(Fixed("cue", 180), 99.0)
        assert box.shed == expected
        items = drained(box)
        (gap,) = [item for item in items if isinstance(item, Gap)]
        assert gap == Gap(expected, 100 * expected, 0.5, expected - 0.5)
        assert items.index(gap) == 1  # where the first of them stood
        assert sum(isinstance(item, Sheddable) for item in items) == previews - expected
        assert not box.full


def test_with_nothing_to_shed_it_holds_the_producer_back_until_the_low_mark() -> None:
    box = Outbox(2048)
    index = 0
    while not box.full:
        box.put(Fixed(index, 36), index)
        index += 1
    assert box.bytes == box.high_bytes + 100 - box.high_bytes % 100
    for _ in range(20):
        box.put(TextItem("late ", index), index)  # made before it could stop
        index += 1
    assert box.overflows == 1
    assert box.bytes <= box.high_bytes + 100 + ITEM_BYTES + 20 * 5
    while box.full:
        assert box.bytes > box.low_bytes
        box.take()
    assert box.bytes <= box.low_bytes


def test_a_gap_that_was_taken_is_followed_by_another() -> None:
    box = Outbox(2048)
    for index in range(20):
        box.put(Sheddable(index, 200), index)
    first = box.take()
    for index in range(20, 40):
        box.put(Sheddable(index, 200), index)
    gaps = [first, *(item for item in drained(box) if isinstance(item, Gap))]
    assert len(gaps) == 2
    assert sum(gap.count for gap in gaps if isinstance(gap, Gap)) == box.shed


def test_joined_text_has_a_bound() -> None:
    box = Outbox(64 * 1024)
    for index in range(300):
        box.put(TextItem("x" * 200, index), index)
    assert box.overflows >= 1
    sizes = [item.size_bytes for item in drained(box)]
    assert max(sizes) <= JOINED_BYTES
    assert len(sizes) < 100


# ---- handlers


def test_a_handler_sees_sizes_and_counts_and_does_what_it_says() -> None:
    seen: list[tuple[int, ...]] = []

    def handler(view: OverflowView) -> None:
        seen.append((view.items, view.sheddable, view.text_bytes, view.bytes - view.high_bytes, view.limit_bytes))
        assert view.shed(0.5, 2) == 5
        assert view.coalesce() == 4  # the gap stands between the first and the second
        view.backpressure()

    box = filled(10, handler=handler)
    box.put(Fixed("cue", 400), 99.0)
    assert seen == [
        (21, 10, 10 * (ITEM_BYTES + 5), box.bytes + 5 * 164 + 4 * 64 - 64 - box.high_bytes, box.limit_bytes)
    ]
    assert (box.full, box.shed, box.coalesced) == (True, 5, 4)


def test_a_view_is_good_for_one_call() -> None:
    kept: list[OverflowView] = []
    box = filled(4, handler=kept.append)
    box.put(Fixed("cue", 300), 99.0)
    for use in (kept[0].shed, kept[0].coalesce, kept[0].backpressure, lambda: kept[0].bytes):
        with pytest.raises(UsageError, match="view of an outbox is over"):
            use()


def test_one_that_raises_is_counted_and_the_default_takes_over(caplog: pytest.LogCaptureFixture) -> None:
    def fails(view: OverflowView) -> None:
        raise ValueError("no")

    box = filled(10, handler=fails)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            box.put(Fixed("cue", 300), 99.0 + number)
    assert box.failures == box.overflows == 3
    assert box.shed >= 3
    assert len(caplog.records) == 1


@pytest.mark.parametrize("handler", STUBBORN)
def test_one_that_goes_on_without_effect_is_stopped(handler: Callable[[OverflowView], object]) -> None:
    box = Outbox(2048, handler)
    for index in range(40):
        box.put(Fixed(index), index)
    assert box.failures == 1
    assert box.full
    assert [item.payload for item in drained(box) if isinstance(item, Fixed)] == list(range(40))


def test_one_that_does_nothing_still_holds_the_producer_back() -> None:
    box = filled(10, handler=does_nothing)
    box.put(Fixed("cue", 300), 99.0)
    assert (box.full, box.shed, box.failures) == (True, 0, 0)
    box.set_overflow_handler(None)
    box.put(Sheddable("late", 100), 100.0)
    assert box.shed > 0


def test_wrong_settings_are_refused() -> None:
    async def on_loop(view: OverflowView) -> None: ...

    for handler in (on_loop, 5):
        with pytest.raises(UsageError, match="plain function of one argument"):
            Outbox().set_overflow_handler(handler)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limit_bytes=100"):
        Outbox(100)
    refused: list[str] = []

    def asks_too_much(view: OverflowView) -> None:
        for share, least in ((1.5, 1), (math.nan, 1), (0.1, -1)):
            try:
                view.shed(share, least)
            except UsageError as error:
                refused.append(str(error))
        default_policy(view)

    box = filled(4, handler=asks_too_much)
    box.put(Fixed("cue", 300), 99.0)
    assert len(refused) == 3
    assert box.failures == 0


# ---- beside foolish ways


def test_a_tenth_of_few_is_nothing() -> None:
    few: list[Item] = [TextItem("word ", index) for index in range(9)]
    assert drop_oldest(few) == []
    assert [type(item) for item in clear_all(few)] == [TextItem] * 9
    assert few == []


def test_ours_loses_no_text_where_the_others_do() -> None:
    runs = {name: [simulate(name, seed=seed) for seed in range(20)] for name in STRATEGIES}
    for run in runs["outbox"]:
        assert run.text_equal
        assert (run.aborted, run.tokens_lost, run.fixed_lost) == (False, 0, 0)
        assert run.shed > 0
        assert run.peak_bytes <= 16 * 1024
        assert run.seconds < 1.25 * 400 * 0.02
    for name in ("clear all", "drop oldest"):
        assert not any(run.text_equal for run in runs[name])
        assert min(run.tokens_lost for run in runs[name]) > 100
        assert min(run.fixed_lost for run in runs[name]) > 5
    assert all(simulate("drop oldest", limit_bytes=4096, seed=seed).aborted for seed in range(20))
    assert not any(simulate("outbox", limit_bytes=4096, seed=seed).aborted for seed in range(20))


def test_text_alone_above_the_rate_is_held_back_and_nothing_is_lost() -> None:
    box = Outbox(4096)
    now, index, text = 0.0, 0, ""
    while index < 2000:
        now += 0.01
        if not box.full:
            box.put(TextItem("word ", index), now)
            box.put(Fixed(index, 10), now)
            index += 1
        elif (item := box.take()) is not None and isinstance(item, TextItem):
            text += item.text
        assert box.bytes <= box.limit_bytes
    text += "".join(item.text for item in drained(box) if isinstance(item, TextItem))
    assert text == "word " * 2000
    assert box.held_back > 10
