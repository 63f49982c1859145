"""Stages are found in what is said, and their settings hold from then on (G1-G4)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.script import split_tokens
from multimodal.pipes.stages import ANSWER, CLOSING, GREETING, STAGES, Stage, StageDetector
from tests.pipes.chunking import CORPORA

DIALOGUE = [
    line.split("\t")
    for line in (CORPORA / "dialogue.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("# ")
]


def test_the_table_has_the_documented_settings() -> None:
    assert {name: (stage.chunk_size, stage.buffer_factor) for name, stage in STAGES.items()} == {
        GREETING: (8, 1.2),
        ANSWER: (64, 2.0),
        CLOSING: (16, 1.0),
    }


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("hi", GREETING),
        ("Hello there!", GREETING),
        ("Good evening, Anna", GREETING),
        ("你好", GREETING),
        ("在吗？", GREETING),
        ("Hello, what is the capacity of the kettle?", ANSWER),
        ("您好，请问这个杯子能装多少水？", ANSWER),
        ("high quality?", ANSWER),
        ("compare the two kettles", ANSWER),
        ("介绍一下这款台灯", ANSWER),
        ("", ANSWER),
        ("how much water does it hold?", ANSWER),
        ("How much does it weigh?", ANSWER),
        ("Thanks, but how do I clean it?", ANSWER),
        ("谢谢，那它能洗碗机洗吗？", ANSWER),
        ("How much is the lamp?", CLOSING),
        ("what's the price of the mug?", CLOSING),
        ("I'll take it", CLOSING),
        ("can i pay by card", CLOSING),
        ("这个多少钱？", CLOSING),
        ("我要下单", CLOSING),
        ("Thanks a lot!", CLOSING),
        ("That's all, thank you very much for your help", CLOSING),
        ("no, nothing else", CLOSING),
        ("谢谢，再见", CLOSING),
    ],
)
@pytest.mark.parametrize("turn", [0, 3])
def test_what_a_viewer_says_decides_and_not_the_number_of_the_turn(text: str, stage: str, turn: int) -> None:
    detector = StageDetector()
    for _ in range(turn):
        detector.asked("Which one is better?")
    assert detector.asked(text).name == stage
    assert detector.turn == turn + 1


def test_a_whole_dialogue() -> None:
    detector = StageDetector()
    for who, begins, ends, text in DIALOGUE:
        if who == "viewer":
            stage = detector.asked(text)
            assert stage.name == begins == ends, text
            continue
        heard = [detector.hear(token).name for token in split_tokens(text)]
        assert heard[0] == begins, text
        assert heard[-1] == ends, text


def test_the_settings_in_force_at_each_token() -> None:
    detector = StageDetector()
    detector.asked("")
    tokens = ["Hello", " and", " welcome", "!", " The", " kettle", " holds", " 1", ".", "5", " litres", "."]
    tokens += [" Have", " a", " nice", " day", "!"]
    sizes = [detector.hear(token).chunk_size for token in tokens]
    assert sizes == [8, 8, 8, 8, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 16, 16]


def test_thanks_in_the_middle_of_an_answer_close_nothing() -> None:
    detector = StageDetector()
    detector.asked("how do I clean it?")
    for piece in ["Thanks for asking. ", "Thanks to the steel, ", "a rinse is enough. ", "Hello Kitty is on the lid."]:
        assert detector.hear(piece).name == ANSWER


def test_a_greeting_goes_over_into_the_answer() -> None:
    detector = StageDetector()
    detector.asked("你好")
    names = [detector.hear(character).name for character in "您好！有什么可以帮您？我们有十二款产品。"]
    assert names == [GREETING] * 11 + [ANSWER] * 9


def test_agreement_closes_only_behind_a_closing() -> None:
    detector = StageDetector()
    assert detector.asked("ok").name == ANSWER
    detector.asked("I'll take it")
    assert detector.asked("ok, great!").name == CLOSING
    assert detector.asked("ok, and which mug goes with it?").name == ANSWER


def test_the_application_overrules() -> None:
    detector = StageDetector()
    detector.asked("hi")
    assert detector.set(CLOSING).name == CLOSING
    assert detector.asked("hi").name == CLOSING
    assert detector.hear("Hello! ").name == CLOSING
    assert detector.set(None).name == GREETING
    with pytest.raises(UsageError, match="stage 'browse' is unknown; there are greeting, answer, closing"):
        detector.set("browse")


def test_a_table_of_ones_own() -> None:
    detector = StageDetector({**STAGES, ANSWER: Stage(ANSWER, 48, 3.0), "compare": Stage("compare", 96, 2.5)})
    assert detector.asked("Which is better?").chunk_size == 48
    assert detector.set("compare").buffer_factor == 2.5


def test_an_answer_without_an_end_costs_nothing_more() -> None:
    detector = StageDetector()
    detector.asked("go on")
    for _ in range(2_000):
        detector.hear("and on ")
    assert len(detector._sentence) < 1_000
    assert detector.stage.name == ANSWER


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Stage("", 8, 1.0), "a stage's name is ''; give it a word"),
        (lambda: Stage("x", 0, 1.0), "stage 'x': chunk_size=0 is out of range"),
        (lambda: Stage("x", 8, 0.5), "stage 'x': buffer_factor=0.5 is out of range"),
        (lambda: StageDetector({GREETING: STAGES[GREETING]}), "the stage table has no 'answer'; begin with"),
        (lambda: StageDetector(cast("Any", {**STAGES, "x": 8})), "the stage table's 'x' is int; give a Stage"),
    ],
)
def test_a_wrong_stage_is_refused(make: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert told in str(caught.value)
