"""Filler words are found word by word, however the text is split, and never inside another word (F1-F3, C6)."""

from __future__ import annotations

import random

import pytest

from multimodal.pipes.fillers import Filler, FillerScorer
from tests.pipes.chunking import labelled_fillers, play, split

ENGLISH, CHINESE = labelled_fillers("fillers_en.txt"), labelled_fillers("fillers_zh.txt")


def scores(text: str, pieces: list[str] | None = None) -> dict[str, float]:
    scorer = FillerScorer()
    found = [filler for piece in pieces or [text] for filler in scorer.feed(piece)] + scorer.flush()
    return {text[filler.start : filler.end]: filler.score for filler in found}


def spans(text: str, threshold: float) -> set[tuple[int, int]]:
    scorer = FillerScorer()
    found: list[Filler] = [*scorer.feed(text), *scorer.flush()]
    return {(filler.start, filler.end) for filler in found if filler.score > 1 - threshold}


def measured(corpus: list[tuple[str, list[tuple[int, int]]]], threshold: float) -> tuple[float, float]:
    """(precision, recall) over words."""
    right = found = there = 0
    for text, labelled in corpus:
        given = spans(text, threshold)
        right += len(given & set(labelled))
        found += len(given)
        there += len(labelled)
    return right / max(found, 1), right / there


@pytest.mark.parametrize(
    ("text", "word", "least", "most"),
    [
        ("Um, yes", "Um", 0.9, 1),
        ("it is, uhm, blue", "uhm", 0.9, 1),
        ("Well, it is", "Well", 0.8, 0.9),
        ("it works well, and fast", "well", 0.2, 0.4),
        ("it works well", "well", 0, 0.2),
        ("well made", "well", 0, 0.3),
        ("You know, it is", "You know", 0.8, 0.9),
        ("you know why", "you know", 0, 0.3),
        ("it is, like, great", "like", 0.8, 0.9),
        ("I like it", "like", 0, 0.2),
        ("so, what", "so", 0.5, 0.7),
        ("嗯，好", "嗯", 0.9, 1),
        ("嗯我看看", "嗯", 0.8, 0.95),
        ("那个，价格", "那个", 0.8, 0.9),
        ("那个杯子", "那个", 0, 0.2),
        ("好啊，走吧", "啊", 0, 0.3),
    ],
)
def test_a_score_depends_on_the_place(text: str, word: str, least: float, most: float) -> None:
    assert least <= scores(text)[word] <= most


@pytest.mark.parametrize(
    "text",
    ["umbrella", "The drum hummed", "啊哈！", "额外的", "金额一共", "museum, summer, henna", "uh-huh", "don't hum-"],
)
def test_parts_of_other_words_are_not_even_reported(text: str) -> None:
    assert scores(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "Um, well, you know, it is, like, so... hmm",
        "嗯嗯，那个那个，就是说，呃……啊哈，啊，好",
        "I mean, 额，ER um.. you know what",
    ],
)
def test_f1_the_split_makes_no_difference(text: str) -> None:
    whole = scores(text)
    assert whole
    chance = random.Random(text)
    for most in (1, 2, 3, 7):
        for _ in range(20):
            assert scores(text, split(text, chance, most, empty=0.1)) == whole


def test_what_is_open_is_never_reported_later_than_decided() -> None:
    scorer = FillerScorer()
    assert scorer.feed("It is, you") == []
    assert scorer.open == 7
    assert not scorer.certain
    assert scorer.feed(" know,") == [Filler(7, 15, 0.85)]
    assert scorer.feed(" um") == []
    assert scorer.certain
    assert scorer.feed("brella ") == []
    assert not scorer.certain


def test_a_scorer_that_begins_in_the_middle_knows_what_stood_before() -> None:
    opening, inside = FillerScorer("It is blue. "), FillerScorer("It works ")
    assert opening.feed("Well, ")[0].score > 0.8
    assert inside.feed("well, ")[0].score < 0.4


@pytest.mark.parametrize(
    ("corpus", "precision", "recall"), [(ENGLISH, 1.0, 1.0), (CHINESE, 1.0, 1.0)], ids=["english", "chinese"]
)
def test_precision_and_recall_at_the_default(
    corpus: list[tuple[str, list[tuple[int, int]]]], precision: float, recall: float
) -> None:
    """The lists were made with these lines at hand; what the figures guard is that no word changes sides."""
    assert measured(corpus, 0.3) == (precision, recall)


@pytest.mark.parametrize("corpus", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_a_higher_threshold_finds_more(corpus: list[tuple[str, list[tuple[int, int]]]]) -> None:
    steps = [n / 10 for n in range(11)]
    low = [sum(len(spans(text, step)) for text, _ in corpus) for step in steps]
    recall = [measured(corpus, step)[1] for step in steps]
    assert low[0] == 0
    assert low == sorted(low)
    assert recall == sorted(recall)
    assert low[1] < low[3] < low[10]
    assert measured(corpus, 1.0)[0] < 0.7, "at 1 content that only looks like a filler is on the low lane, too"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("corpus", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_the_first_content_word_never_comes_later_than_without_a_lane(
    corpus: list[tuple[str, list[tuple[int, int]]]], seed: int
) -> None:
    chance = random.Random(seed)
    for text, labelled in corpus:
        pieces = split(text, chance, 1 + seed, empty=0.1)
        gap, size = chance.choice([0.01, 0.1, 0.5]), chance.choice([1, 8, 32])
        place = 0
        for start, end in labelled:
            if not any(character.isalnum() for character in text[place:start]):
                place = end
        while not text[place].isalnum():
            place += 1
        ends = [len("".join(pieces[: n + 1])) for n in range(len(pieces))]
        word = next(index for index, end in enumerate(ends) if end > place)
        times = {
            threshold: play(pieces, gap, size=size, priority_threshold=threshold, stall=9.0).left[word]
            for threshold in (0.0, 0.3, 0.7)
        }
        assert times[0.3] <= times[0.0] + 1e-9, (text, pieces)
        assert times[0.7] <= times[0.0] + 1e-9, (text, pieces)


@pytest.mark.parametrize("corpus", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_the_lane_saves_messages_and_loses_nothing(corpus: list[tuple[str, list[tuple[int, int]]]]) -> None:
    counts = []
    for threshold in (0.0, 0.3, 1.0):
        runs = [play(list(text), 0.02, size=1, priority_threshold=threshold) for text, _ in corpus]
        counts.append(sum(len(run.groups) for run in runs))
        assert ["".join(run.texts) for run in runs] == [text for text, _ in corpus]
    assert counts[0] > max(counts[1:])
