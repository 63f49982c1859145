"""Chunks end on meaning, within their caps; nothing is lost, cut, or late (C1-C9)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.pipes import chunker as module
from multimodal.pipes.boundaries import CLAUSE, INSIDE, NEVER, PARAGRAPH, SENTENCE, UNIT, WORD, Boundaries
from multimodal.pipes.chunker import Chunker
from multimodal.pipes.script import split_tokens
from multimodal.values import Token
from tests.pipes.chunking import Narration, Run, check, narrations, play, split

ENGLISH, CHINESE = narrations("narrations_en.txt"), narrations("narrations_zh.txt")
FAST = 0.001
"""Seconds between tokens at which only the cap in tokens is ever reached."""


def words(text: str) -> list[str]:
    return text.replace(" ", "\0 ").split("\0")


def chars(narration: Narration) -> list[str]:
    return list(narration.text)


# ---- borders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "ranks"),
    [
        (["The", " kettle", ",", " black", ".", " It"], [WORD, WORD, INSIDE, CLAUSE, INSIDE, SENTENCE]),
        (["3", ".", "5", " litres", " more"], [WORD, UNIT, UNIT, UNIT, WORD]),
        (["costs", " $", "1", ",", "299", ".", "00", " now"], [WORD, WORD, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT]),
        (["a ", "1", ",", "299", ".", "00", " ", "€", " is"], [WORD, WORD, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT, WORD]),
        (["20", " ", "°", "C", " to"], [WORD, UNIT, UNIT, UNIT, WORD]),
        (["3", " ×", " 4", " cm", " ×", " 5", " is"], [WORD, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT]),
        (["in", " the", " U", ".", "S", ".", " The"], [WORD, WORD, WORD, INSIDE, UNIT, INSIDE, WORD]),
        (["see", " https", "://", "a", ".b", "/c", ".", " No"], [WORD, WORD, UNIT, UNIT, UNIT, UNIT, UNIT, SENTENCE]),
        (["价", "格", "¥", "1", ",", "299", "元", "，"], [WORD, WORD, WORD, UNIT, UNIT, UNIT, UNIT, INSIDE]),
        (["2", "0", "毫", "升", "水"], [WORD, UNIT, UNIT, UNIT, WORD]),
        (["“好", "。", "”", "他"], [WORD, INSIDE, INSIDE, SENTENCE]),
        (["a", "\n", "\n", "b"], [WORD, WORD, WORD, PARAGRAPH]),
        (["x\n", "1", ".", " one", "\n", "-", " two"], [WORD, PARAGRAPH, UNIT, UNIT, WORD, PARAGRAPH, UNIT]),
        (["so ", "[", "[sh", "ow:a", "]]", " b"], [WORD, WORD, NEVER, NEVER, NEVER, CLAUSE]),
        (["so ", "[", "see", "]"], [WORD, WORD, INSIDE, INSIDE]),
        (["👩", "\u200d", "👧", " ok"], [WORD, NEVER, NEVER, WORD]),
        (["🇩", "🇪", "🇫", "🇷"], [WORD, NEVER, WORD, NEVER]),
        (["e", "\u0301", "t"], [WORD, NEVER, INSIDE]),
        (["a\r", "\nb"], [WORD, NEVER]),
        (["OK", "!", "好"], [WORD, INSIDE, SENTENCE]),
        (["5", "–", "7", " days", " on"], [WORD, UNIT, UNIT, UNIT, WORD]),
        (["e", ".", "g", ".", " this"], [WORD, INSIDE, UNIT, INSIDE, WORD]),
        (["at", " 9", ":", "30", "."], [WORD, WORD, UNIT, UNIT, UNIT]),
        (["yes", "—", "no"], [WORD, INSIDE, CLAUSE]),
        (["详", "见", "ht", "tps", "://", "a.b", "，", "好"], [WORD, WORD, WORD, UNIT, UNIT, UNIT, UNIT, CLAUSE]),
        (["20", "摄", "氏", "度", "的"], [WORD, UNIT, UNIT, UNIT, WORD]),
        (["1", " 299", " now", " 3.5", " 20"], [WORD, UNIT, UNIT, WORD, WORD]),
    ],
    ids=lambda value: "".join(value) if isinstance(value[0], str) else "",
)
def test_a_border_has_its_rank(pieces: list[str], ranks: list[int]) -> None:
    boundaries = Boundaries()
    assert [boundaries.feed(piece) for piece in pieces] == ranks


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("It costs $1", UNIT),
        ("It costs $", UNIT),
        ("It is 3.", UNIT),
        ("It is 20 ", UNIT),
        ("in the U.", UNIT),
        ("see https://a", UNIT),
        ("1.", UNIT),
        ("the kettle", INSIDE),
        ("the kettle ", WORD),
        ("the kettle.", SENTENCE),
        ("kettle, ", CLAUSE),
        ("水壶。", SENTENCE),
        ("水壶", WORD),
        ("5毫", UNIT),
        ("20摄氏", UNIT),
        ("20摄氏度", WORD),
        ("详见https", UNIT),
        ("见https://a.b，好的", WORD),
        ("so [[show:a", NEVER),
        ("so [[show:a]]", CLAUSE),
        ("👩\u200d", NEVER),
        ("to 🇩", NEVER),
        ("over.\n", PARAGRAPH),
    ],
)
def test_the_last_border_is_ranked_by_what_is_known(text: str, rank: int) -> None:
    boundaries = Boundaries()
    boundaries.feed(text)
    assert boundaries.tail() == rank


def test_an_opening_without_an_end_is_no_marker_for_ever() -> None:
    boundaries = Boundaries()
    boundaries.feed("[[show:")
    ranks = [boundaries.feed("word ") for _ in range(60)]
    assert ranks[0] == NEVER
    assert ranks[-1] == WORD


# ---- the rules, one by one -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 8, 32, 64])
def test_c1_the_first_token_leaves_at_once_whatever_the_size(size: int) -> None:
    run = play(words("The kettle boils quickly, and quietly. It does."), size=size)
    assert run.groups[0][0] == run.arrived[0]
    assert run.texts[0] == "The"


def test_c1_white_space_and_markers_are_no_content() -> None:
    run = play(["", "\n", "[[", "show:a", "]]", " ", "", "The", " kettle"], size=8)
    assert run.texts == ["\n[[show:a]] The", " kettle"]
    assert run.groups[0][0] == run.arrived[7]


def test_c1_a_hesitation_waits_for_content_but_not_for_ever() -> None:
    pieces = ["Um", ",", " well", ",", " yes"]
    assert play(pieces, 0.1, size=8).shown[0] == "<Um><,> well"
    slow = play(pieces, [0.0, 0.1, 5.0, 0.1, 0.1], size=8)
    assert slow.shown[:2] == ["<Um><,>", " well"]
    assert slow.left[0] == pytest.approx(0.8)
    assert slow.groups[1][0] == slow.arrived[2]


def test_c1_a_word_that_only_begins_like_a_hesitation() -> None:
    run = play(["Um", "brella", "s", " are"], 0.1, size=8)
    assert run.shown[0] == "Umbrella"
    assert run.groups[0][0] == run.arrived[1]


def test_c2_empty_tokens_count_and_stay_in_their_place() -> None:
    run = play(["", "嗯", "", "", "，", "", "好", "的", "", "。"], size=4)
    assert [token.text for token in run.out] == [token.text for token in run.tokens]
    assert run.shown == ["<><嗯><><><，><>好", "的。"] or len(run.out) == 10


def test_c3_chunks_end_with_sentences_and_clauses() -> None:
    text = "Now the kettle boils in no time, and it switches itself off. It is quiet, too, and safe. All is well."
    assert play(words(text), FAST, size=8).texts == [
        "Now",
        " the kettle boils in no time,",
        " and it switches itself off.",
        " It is quiet, too, and safe.",
        " All is well.",
    ]
    assert play(words(text), FAST, size=16).texts == [
        "Now",
        " the kettle boils in no time, and it switches itself off.",
        " It is quiet, too, and safe. All is well.",
    ]


def test_c3_without_a_mark_a_chunk_ends_between_two_words() -> None:
    run = play(list("one two three four five six seven"), FAST, size=8)
    assert run.texts[1:] == ["ne two ", "three ", "four ", "five ", "six ", "seven"]


def test_c4_time_lets_go_at_the_best_place_there_is() -> None:
    run = play(["The", " lamp", ",", " a", " warm", " light"], 0.15, size=32, stall=9.0)
    assert run.texts == ["The", " lamp,", " a warm", " light"]
    assert run.left[1] == pytest.approx(run.arrived[1] + 0.4)
    one = play(["The", " kett", "le"], [0.0, 0.1, 3.0], size=32)
    assert one.texts == ["The", " kett", "le"], "a word alone does not wait for its end"


def test_c5_a_price_outlasts_the_wait_for_words_but_not_for_ever() -> None:
    slow = play(["It", " is", " $", "1", ",", "299", ".", "00", " now", "."], 0.2, size=32)
    assert " $1,299.00 now." in slow.texts
    stuck = play(["It", " is", " $", "1", ","], 0.0, size=32, stall=9.0)
    assert stuck.texts == ["It", " is", " $1,"]
    assert [at for at, _ in stuck.groups] == pytest.approx([0.0, 0.4, 1.6])


def test_c5_a_number_longer_than_the_cap_is_cut_there() -> None:
    run = play(["It", " is", " 1", *"23456789"], FAST, size=4)
    assert run.texts == ["It", " is", " 1234", "5678", "9"]


def test_c5_a_marker_passes_both_caps() -> None:
    pieces = ["Look", ": ", *"[[show:kettle]]", " here"]
    assert play(pieces, 1.0, size=4).texts == ["Look", ": ", "[[show:kettle]]", " here"]


@pytest.mark.parametrize("threshold", [0.3, 1.0])
def test_c6_the_low_lane_rides_with_what_follows(threshold: float) -> None:
    run = play(["It", " is", ",", " um", ",", " blue", "."], 0.1, size=1, priority_threshold=threshold)
    assert run.shown == ["It", " is", ",", "< um><,> blue", "."]
    assert run.left[4] == run.arrived[5]


def test_c6_a_filler_waits_no_longer_than_its_cap() -> None:
    run = play(["It", " is", " um", ",", " blue"], [0.0, 0.1, 0.1, 0.1, 5.0], size=1, filler_wait=0.3)
    held = next(at for (at, group) in run.groups if any(token.lane == "low" for token in group))
    assert held == pytest.approx(run.arrived[2] + 0.3)


def test_c6_a_model_that_only_hesitates_is_not_held_for_ever() -> None:
    run = play([" um"] * 60, FAST, size=1)
    assert max(len(group) for _, group in run.groups) <= module.FILLERS_AHEAD + 2
    assert len(run.groups) >= 3


def test_c7_a_word_split_over_tokens_is_judged_whole() -> None:
    run = play(["Yes", ", u", "m", "m", ", it", " is", " um", "ber", "."], FAST, size=32)
    low = [token.text for token in run.out if token.lane == "low"]
    assert low == ["m", "m"] or not low, "', u' begins with a comma of the sentence before"
    split_word = play(["Yes", ",", " u", "m", "m", ",", " it"], FAST, size=32)
    assert split_word.shown[1] == ",< u><m><m><,> it"


def test_c8_a_mark_lets_the_low_lane_go() -> None:
    pieces = ["It", " is", " um", ",", " blue", "."]
    held = play(pieces, 0.1, size=1)
    assert "< um><,> blue" in held.shown
    marked = play(pieces, 0.1, size=1, sync_interval=4)
    assert "< um><,>" in marked.shown
    assert marked.groups[marked.shown.index("< um><,>")][0] == marked.arrived[3]
    check(marked)


def test_c8_marks_do_not_cut_chunks_of_content() -> None:
    pieces = words("The kettle boils quickly and switches itself off.")
    assert play(pieces, FAST, size=32, sync_interval=2).texts == play(pieces, FAST, size=32).texts


def test_c9_new_settings_hold_from_the_next_border() -> None:
    pieces = words(
        "Now the kettle boils in no time, and it switches off. It is quiet, it is safe, it is small, it is new."
    )
    run = play(pieces, FAST, size=16, changes={4: {"size": 4}})
    assert run.texts[1].endswith("switches off."), "the chunk that was begun is not cut by the change"
    assert all(len(group) <= 4 for _, group in run.groups[2:])
    assert len(run.groups) > 4


def test_c9_off_and_on_again() -> None:
    pieces = ["So", " um", ",", " um", ",", " blue", ".", " Um", ",", " red", "."]
    run = play(pieces, FAST, size=1, priority_threshold=0.0, changes={6: {"priority_threshold": 0.3}})
    assert [token.text for token in run.out if token.lane == "low"] == [" Um", ","]
    run = play(pieces, FAST, size=1, changes={3: {"priority_threshold": 0.0}})
    assert run.shown == ["So", "< um><,>< um><,> blue", ".", " Um", ",", " red", "."]


def test_the_last_token_takes_everything_with_it() -> None:
    run = play(["It", " is", " um"], FAST, size=32, last=True)
    assert run.groups[-1][0] == run.arrived[-1]
    assert run.out[-1] == Token(" um", True, "low")


def test_a_cap_in_characters() -> None:
    run = play(words("a little kettle for a little kitchen with a little light"), FAST, size=64, max_chars=16)
    assert all(len(text) <= 16 for text in run.texts)
    assert len(run.texts) >= 4


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"size": 0}, "size=0 is out of range; give a whole number, at least 1"),
        ({"size": True}, "size=True"),
        ({"size": 2.5}, "size=2.5"),
        ({"priority_threshold": 1.1}, "priority_threshold=1.1 is out of range; give 0"),
        ({"priority_threshold": float("nan")}, "priority_threshold=nan"),
        ({"max_wait": -1}, "max_wait=-1 is out of range; give 0 or more seconds"),
        ({"filler_wait": float("inf")}, "filler_wait=inf"),
        ({"sync_interval": 0}, "sync_interval=0"),
        ({"max_chars": 0}, "max_chars=0"),
    ],
)
def test_a_wrong_setting_is_refused_and_changes_nothing(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told.replace("(", r"\(")):
        Chunker(**wrong)
    chunker = Chunker(8)
    with pytest.raises(UsageError, match=told.replace("(", r"\(")):
        chunker.configure(**wrong)
    with pytest.raises(UsageError, match=r"configure\(length=...\) is unknown; there are size,"):
        chunker.configure(length=3)
    assert chunker.settings.size == 8
    assert chunker._pending is None


# ---- labelled narrations ---------------------------------------------------------------------------------------------


def _ends_well(narration: Narration, pieces: list[str], size: int, gap: float) -> tuple[int, int]:
    """(chunks that end where the label allows it, all) without the first, which is one token, and the last."""
    run = play(pieces, gap, size=size)
    ends, place = [], 0
    for text in run.texts:
        place += len(text)
        ends.append(place)
    for begin, end in narration.whole:
        assert not any(begin < cut < end for cut in ends[1:]), f"cut inside {narration.text[begin:end]!r}"
    good = narration.good | {end + 1 for end in narration.good if narration.text[end : end + 1].isspace()}
    return sum(end in good for end in ends[1:-1]), len(ends[1:-1])


@pytest.mark.parametrize(("size", "least"), [(16, 0.8), (32, 0.97), (64, 0.99)])
@pytest.mark.parametrize("corpus", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_chunks_end_where_the_label_says(corpus: list[Narration], size: int, least: float) -> None:
    pairs = [
        _ends_well(each, words(each.text) if corpus is ENGLISH else split_tokens(each.text), size, FAST)
        for each in corpus
    ]
    good, count = (sum(column) for column in zip(*pairs, strict=True))
    assert count == 0 or good / count >= least, f"{good} of {count}"


@pytest.mark.parametrize("narration", [*ENGLISH, *CHINESE], ids=str)
def test_no_unit_is_cut_however_the_text_is_split(narration: Narration) -> None:
    chance = random.Random(narration.text)
    for most in (2, 3, 5):
        pieces = split(narration.text, chance, most, empty=0.1)
        _ends_well(narration, pieces, 64, FAST)


@pytest.mark.parametrize("corpus", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_larger_chunks_are_fewer_and_the_first_comes_as_early(corpus: list[Narration]) -> None:
    counts = []
    for size in (1, 8, 16, 32, 64):
        runs = [play(split_tokens(each.text), FAST, size=size) for each in corpus]
        counts.append(sum(len(run.groups) for run in runs))
        assert all(run.groups[0][0] == run.arrived[0] or run.texts[0].startswith("[[") for run in runs)
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == len(counts)


# ---- any stream, any settings, any instants --------------------------------------------------------------------------

PARTS = [
    ("the kettle ", 0), ("boils, ", 0), ("quickly. ", 0), ("Um, ", 0), ("you know, ", 0), ("umbrella ", 0), ("嗯，", 0),
    ("水壶很好。", 0), ("那个，", 0), ("\n", 0), ("- item\n", 0), ("well ", 0), ("[x] ", 0),
    ("$1,299.00", 1), ("3.5 kg", 1), ("20 °C", 1), ("¥45", 1), ("https://a.example/b?c=1", 1),
    ("[[show:mug]]", 2), ("[[SHOW: red mug | hold]]", 2), ("👩‍👩‍👧", 2), ("🇩🇪", 2), ("e\u0301", 2),
]  # fmt: skip


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, int]], list[tuple[int, int]]]:
    text, whole, never = "", list[tuple[int, int]](), list[tuple[int, int]]()
    for part, kind in draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=14)):
        if kind:
            # Two numbers side by side may be one, as in "1 299".
            text += "and " if text[-1:].isspace() else "" if not text else " and "
            (whole if kind == 1 else never).append((len(text), len(text) + len(part)))
            text += part + (" is fine " if kind == 1 else " ")
        else:
            text += part
    chance = random.Random(draw(st.integers(0, 2**32)))
    most = draw(st.integers(1, 6))
    pieces, place = [], 0
    clusters = [span for span in never if text[span[0]] != "["]
    while place < len(text):
        end = place + chance.randint(1, most)
        # As from a detokenizer that keeps clusters whole: no token ends inside one.
        end = max([end, *(last for first, last in clusters if first < end < last)])
        pieces += [""] * (chance.random() < 0.1) + [text[place:end]]
        place = end
    return pieces, whole, never


@settings(max_examples=250, deadline=None)
@given(
    stream=streams(),
    size=st.sampled_from([1, 2, 4, 8, 32]),
    threshold=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    max_wait=st.sampled_from([0.05, 0.4, 2.0]),
    filler_wait=st.sampled_from([None, 0.1, 1.0]),
    sync_interval=st.sampled_from([None, 1, 2, 3, 7]),
    gaps=st.lists(st.sampled_from([0.0, 0.001, 0.02, 0.05, 0.3, 0.4, 1.7]), min_size=1, max_size=12),
    spurious=st.lists(st.floats(0, 10), max_size=6),
)
def test_any_stream_with_any_settings_keeps_the_rules(
    stream: tuple[list[str], list[tuple[int, int]], list[tuple[int, int]]],
    size: int,
    threshold: float,
    max_wait: float,
    filler_wait: float | None,
    sync_interval: int | None,
    gaps: list[float],
    spurious: list[float],
) -> None:
    pieces, whole, never = stream
    run = play(
        pieces,
        gaps,
        spurious=spurious,
        size=size,
        priority_threshold=threshold,
        max_wait=max_wait,
        filler_wait=filler_wait,
        sync_interval=sync_interval,
        stall=1000.0,
    )
    check(run, whole, never)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), chance=st.randoms(use_true_random=False))
def test_settings_that_change_on_the_way_lose_nothing(
    stream: tuple[list[str], list[tuple[int, int]], list[tuple[int, int]]], chance: random.Random
) -> None:
    pieces, _, _ = stream
    changes = {
        place: {
            "size": chance.choice([1, 4, 32]),
            "priority_threshold": chance.choice([0.0, 0.3, 1.0]),
            "max_wait": chance.choice([0.05, 0.4]),
            "sync_interval": chance.choice([None, 2]),
        }
        for place in range(len(pieces))
        if chance.random() < 0.2
    }
    run = play(pieces, 0.03, changes=changes)
    assert [token.text for token in run.out] == pieces


# ---- faults that the checks above have to see ------------------------------------------------------------------------


class ForgetsItsDeadline(Chunker):
    def next_timer(self) -> float | None:
        return None


class WaitsTwiceAsLong(Chunker):
    def _set_due(self) -> None:
        super()._set_due()
        self._due += self._wait

    def _overdue(self) -> int:
        now, self._now = self._now, self._now - self._wait
        try:
            return super()._overdue()
        finally:
            self._now = now


class CutsPrices(Chunker):
    def _rank(self, cut: int) -> int:
        rank = super()._rank(cut)
        return WORD if rank == UNIT else rank


class CutsMarkers(Chunker):
    def _rank(self, cut: int) -> int:
        return max(super()._rank(cut), WORD)


class DropsFillers(Chunker):
    def _release(self, cut: int) -> list[Token]:
        return [token for token in super()._release(cut) if token.lane == "main"]


class FillersGoLast(Chunker):
    def _release(self, cut: int) -> list[Token]:
        return sorted(super()._release(cut), key=lambda token: token.lane == "low")


class JoinsAChunk(Chunker):
    def _release(self, cut: int) -> list[Token]:
        return [Token("".join(token.text for token in super()._release(cut)))]


class HoldsTheFirst(Chunker):
    def _first_content(self) -> int:
        return 0


class ForgetsTheMarks(Chunker):
    def _at_mark(self) -> int:
        return 0


def _suspect(make: type[Chunker]) -> Run:
    chance = random.Random(4)
    text = "Um, the kettle boils. It is, um, $1,299.00 today. [[show:mug]] So, um, 20 °C is fine, uh, you know, quite. "
    whole = [(text.index(unit), text.index(unit) + len(unit)) for unit in ("$1,299.00", "20 °C")]
    marker = text.index("[[")
    for size, gap, every in ((8, 0.02, None), (32, 0.1, None), (1, 0.1, 2), (3, 0.3, 3), (32, 0.3, None)):
        run = play(split(text, chance, 3), gap, make=make, size=size, sync_interval=every, stall=9.0)
        check(run, whole, [(marker, marker + 12)])
    return run


def test_the_suspects_narration_passes_with_the_real_chunker() -> None:
    _suspect(Chunker)


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        (ForgetsItsDeadline, "C4"),
        (WaitsTwiceAsLong, "C4"),
        (CutsPrices, "C5"),
        (CutsMarkers, "C5"),
        (DropsFillers, "C2"),
        (FillersGoLast, "C2"),
        (JoinsAChunk, "C2"),
        (HoldsTheFirst, "C1"),
        (ForgetsTheMarks, "C8"),
    ],
)
def test_a_planted_fault_is_caught_by_its_rule(fault: type[Chunker], rule: str) -> None:
    with pytest.raises(AssertionError, match=f"^{rule}: "):
        _suspect(fault)
