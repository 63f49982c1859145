"""The scripted pipes: what they split, when they give it, how they fail (T1-T7, I1-I9)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.base import Describes, HasKeys, HasProducts, Wants
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptImagePipe, ScriptTextPipe, split_tokens
from multimodal.stream import MultiModalStream
from multimodal.values import EncodedImage, ImageFailure, Product, Token
from tests.support import virtual

FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("   ", ["   "]),
        ("  Hello, world!  This is", ["  Hello, ", "world!  ", "This ", "is"]),
        ("a\r\nb\n\nc\t", ["a\r\n", "b\n\n", "c\t"]),
        ("你好，世界 iPhone 15。", ["你", "好", "，", "世", "界 ", "iPhone ", "15", "。"]),
        ("日本語テキストー", ["日", "本", "語", "テ", "キ", "ス", "ト", "ー"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("안녕 하세요", ["안녕 ", "하세요"]),
        ("ＡＢＣ１２ ok", ["ＡＢＣ１２ ", "ok"]),
        (f"{FAMILY} hi 🇩🇪🇫🇷 e\u0301a", [f"{FAMILY} ", "hi ", "🇩🇪🇫🇷 ", "e\u0301a"]),
    ],
)
def test_splits_into_words_and_graphemes(text: str, tokens: list[str]) -> None:
    assert split_tokens(text) == tokens


PIECES = st.sampled_from(["word", " ", "\n", "你", "，", "กำ", "한글", FAMILY, "e\u0301", "\u0301", "🇩🇪", "\u200d"])


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_the_tokens_concatenate_to_the_text_and_cut_no_grapheme(text: str) -> None:
    tokens = split_tokens(text)
    assert "".join(tokens) == text
    assert all(tokens)
    clusters = iter(regex.findall(r"\X", text))
    for token in tokens:
        rest = token
        while rest:
            cluster = next(clusters)
            assert rest.startswith(cluster)
            rest = rest.removeprefix(cluster)


def test_takes_text_lists_and_files(tmp_path: Path) -> None:
    path = tmp_path / "narration.txt"
    path.write_bytes("\ufeffTwo words\r\n".encode())
    assert ScriptTextPipe(path).tokens == ["Two ", "words\r\n"]
    assert ScriptTextPipe(path).token_unit == "word"
    listed = ScriptTextPipe(["Two words", "", "more"])
    assert (listed.tokens, listed.token_unit) == (["Two words", "", "more"], "token")


async def timed(pipe: ScriptTextPipe) -> list[tuple[float, str, bool]]:
    loop = asyncio.get_running_loop()
    start = loop.time()
    return [(round(loop.time() - start, 6), token.text, token.last) async for token in pipe]


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({}, [0.0, 0.05, 0.1, 0.15]),
        ({"ttft": 1.0, "gap": 0.5}, [1.0, 1.5, 2.0, 2.5]),
        ({"ttft": 1.0, "gap": 0.5, "speed": 2.0}, [0.5, 0.75, 1.0, 1.25]),
        ({"gap": [0.1, 0.3]}, [0.0, 0.1, 0.4, 0.5]),
        ({"gap": 0.1, "stalls": {0: 1.0, 2: 3.0}}, [1.0, 1.1, 4.2, 4.3]),
        ({"gap": 0.1, "stalls": {2: 3.0}, "speed": 10}, [0.0, 0.01, 0.32, 0.33]),
        ({"gap": 0}, [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_latency_is_data(options: dict[str, Any], times: list[float]) -> None:
    given_tokens = virtual(timed(ScriptTextPipe("one two three four", **options)))
    assert [at for at, _, _ in given_tokens] == times
    assert [last for _, _, last in given_tokens] == [False, False, False, True]


def test_an_hour_of_narration_does_not_drift() -> None:
    times = [at for at, _, _ in virtual(timed(ScriptTextPipe(["x"] * 72_001, gap=0.05)))]
    assert times[-1] == pytest.approx(3600.0, abs=1e-6)


def test_a_late_pull_is_served_at_once_and_the_schedule_goes_on_from_there() -> None:
    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        pipe = ScriptTextPipe("one two three four", gap=1.0)
        times = []
        for pause in (0.0, 0.4, 10.0, 0.0):
            await asyncio.sleep(pause)
            await anext(pipe)
            times.append(round(loop.time(), 6))
        return times

    # The second pull is early and waits for 1.0; the third comes at 11.0, late by 9; the fourth follows it by 1.
    assert virtual(scenario()) == [0.0, 1.0, 11.0, 12.0]


def test_cancelling_a_pull_loses_no_token() -> None:
    async def scenario() -> list[str]:
        pipe = ScriptTextPipe("one two", ttft=1.0, gap=1.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await anext(pipe)
        return [token.text async for token in pipe]

    assert virtual(scenario()) == ["one ", "two"]


def test_the_pipe_gives_way_even_when_it_never_waits() -> None:
    async def scenario() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            for _ in range(10):
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(other())
            async for _ in ScriptTextPipe("one two three four five", gap=0):
                pass
            return turns

    assert virtual(scenario()) >= 4


@pytest.mark.parametrize(("index", "before"), [(0, 0), (2, 2), (4, 4)])
def test_fails_where_the_script_says(index: int, before: int) -> None:
    async def scenario() -> None:
        pipe = ScriptTextPipe("one two three four", fail_at=(index, "the model fell over"))
        tokens = [await anext(pipe) for _ in range(before)]
        assert not any(token.last for token in tokens)
        with pytest.raises(PipeError, match=f"the model fell over .*token {index} of 4"):
            await anext(pipe)
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)

    virtual(scenario())


def test_raises_a_given_exception_as_it_is() -> None:
    async def scenario() -> None:
        error = PipeError("busy", retryable=True)
        with pytest.raises(PipeError) as caught:
            await anext(ScriptTextPipe("one", fail_at=(0, error)))
        assert caught.value is error
        with pytest.raises(ConnectionError):
            await anext(ScriptTextPipe("one", fail_at=(0, ConnectionError("gone"))))

    virtual(scenario())


def test_the_end_is_an_end_and_closing_twice_is_once() -> None:
    async def scenario() -> None:
        pipe = ScriptTextPipe("one")
        assert await anext(pipe) == Token("one", last=True)
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(pipe)
        closed = ScriptTextPipe("one two", ttft=1.0)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(collect(closed))
            await asyncio.sleep(0.5)
            with pytest.raises(UsageError, match="one reader"):
                await anext(closed)
            await closed.aclose()
            await closed.aclose()
        assert waiting.result() == []

    virtual(scenario())


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScriptTextPipe("one two three"),
        lambda: ScriptTextPipe("one two three", fail_at=(3, "gone")),
        lambda: ScriptImagePipe([picture("a"), picture("b")]),
        lambda: PlannedScriptImagePipe([picture("a"), picture("b")]),
    ],
)
@pytest.mark.parametrize("end", ["played", "closed", "cancelled", "begun and closed"])
def test_t7_a_second_use_is_refused_and_not_silent(make: Callable[[], Any], end: str) -> None:
    async def scenario() -> None:
        pipe = make()
        if end == "played":
            with suppress(PipeError):
                assert [item async for item in pipe]
        elif end == "cancelled":
            with suppress(PipeError):
                async with MultiModalStream(
                    pipe if isinstance(pipe, ScriptTextPipe) else ScriptTextPipe("one"),
                    ScriptImagePipe([]) if isinstance(pipe, ScriptTextPipe) else pipe,
                ):
                    await asyncio.sleep(0)
        else:
            if end == "begun and closed":
                await anext(pipe)
            await pipe.aclose()
        with pytest.raises(UsageError, match="was played already; make a new one for each stream"):
            aiter(pipe)
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)

    virtual(scenario())


def test_t7_a_stream_on_a_used_pipe_says_so() -> None:
    async def scenario() -> None:
        text, images = ScriptTextPipe("one two three"), ScriptImagePipe([picture("a")])
        for _ in range(2):
            async with MultiModalStream(text, images) as stream:
                assert [event async for event in stream]

    with pytest.raises(PipeError, match="was played already; make a new one for each stream"):
        virtual(scenario())


def test_t7_whoever_stopped_reading_may_go_on() -> None:
    async def scenario() -> None:
        pipe = ScriptTextPipe("one two three")
        async for token in pipe:
            assert token.text == "one "
            break
        assert [token.text for token in await collect(pipe)] == ["two ", "three"]

    virtual(scenario())


async def collect(pipe: ScriptTextPipe) -> list[Token]:
    return [token async for token in pipe]


@pytest.mark.parametrize(
    ("source", "options", "complaint"),
    [
        (b"bytes", {}, "source is a bytes"),
        (["a", 1], {}, r"source\[1\] is a int"),
        (None, {}, "source is a NoneType"),
        ("a \ud800", {}, "token 1 holds a lone surrogate"),
        ("a", {"ttft": -1}, "ttft=-1"),
        ("a", {"ttft": math.inf}, "ttft=inf"),
        ("a", {"gap": math.nan}, "gap=nan"),
        ("a", {"gap": []}, "empty sequence"),
        ("a", {"gap": [0.1, -1]}, "gap=-1"),
        ("a", {"gap": True}, "gap=True"),
        ("a", {"speed": 0}, "speed=0"),
        ("a", {"stalls": {5: 1.0}}, "stalls names index 5"),
        ("a", {"stalls": {0: -1.0}}, r"stalls\[0\]"),
        ("a", {"fail_at": (2, "x")}, "fail_at names index 2; there are 1"),
        (Path("/nowhere/at/all.txt"), {}, "cannot read the narration /nowhere/at/all.txt: No such file"),
    ],
)
def test_refuses_wrong_arguments(source: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        ScriptTextPipe(source, **options)


@pytest.mark.parametrize(
    ("content", "complaint"), [(b"", "is empty"), (b" \n", "is empty"), (b"caf\xe9 noir", "not UTF-8.*byte 3")]
)
def test_refuses_files_without_words(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "narration.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=complaint):
        ScriptTextPipe(path)


def picture(key: str) -> EncodedImage:
    return EncodedImage(key, b"bytes of " + key.encode(), "image/webp", 4, 3, alt=f"a {key}")


async def arrivals(pipe: ScriptImagePipe) -> list[tuple[float, str]]:
    loop = asyncio.get_running_loop()
    return [(round(loop.time(), 6), item.key) async for item in pipe]


def test_pictures_come_after_their_delays_all_at_the_same_time() -> None:
    items: list[Any] = [(picture("slow"), 2.0), picture("now"), (ImageFailure("bad", "truncated"), 1.0)]
    assert virtual(arrivals(ScriptImagePipe(items))) == [(0.0, "now"), (1.0, "bad"), (2.0, "slow")]
    assert virtual(arrivals(ScriptImagePipe(items, speed=2.0)))[-1] == (1.0, "slow")


def test_a_picture_that_never_comes_hangs_the_pipe_until_it_is_closed() -> None:
    async def scenario() -> None:
        pipe = ScriptImagePipe([picture("a"), (picture("never"), math.inf)])
        assert (await anext(pipe)).key == "a"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000):
                await anext(pipe)
        async with asyncio.TaskGroup() as group:
            rest = group.create_task(arrivals(pipe))
            await asyncio.sleep(1)
            await pipe.aclose()
            await pipe.aclose()
        assert rest.result() == []

    virtual(scenario())


def test_an_image_pipe_can_raise_in_the_middle() -> None:
    async def scenario() -> None:
        pipe = ScriptImagePipe([picture("a"), picture("b")], fail_after=(1, "disk gone"))
        assert (await anext(pipe)).key == "a"
        with pytest.raises(PipeError, match="disk gone"):
            await anext(pipe)
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)

    virtual(scenario())


def test_the_plain_pipe_is_plain_and_the_planned_one_keeps_i4_to_i7() -> None:
    plain: object = ScriptImagePipe([picture("a")])
    assert not isinstance(plain, (HasKeys, Wants, Describes, HasProducts))
    planned: object = PlannedScriptImagePipe([picture("a")], products=[Product("p", "P")])
    for protocol in (HasKeys, Wants, Describes, HasProducts):
        assert isinstance(planned, protocol)


def test_the_plan_drives_the_planned_pipe() -> None:
    async def scenario() -> None:
        pipe = PlannedScriptImagePipe([(picture("a"), 1.0), (picture("b"), 1.0), picture("c")])
        assert pipe.keys() == ["a", "b", "c"]
        pipe.want(["b"])
        async with asyncio.TaskGroup() as group:
            given_items = group.create_task(arrivals(pipe))
            await asyncio.sleep(5)
            assert not given_items.done()
            pipe.want(["b", "a", "zebra"], final=True)
        assert given_items.result() == [(1.0, "b"), (5.0, "zebra"), (6.0, "a")]
        assert pipe.wanted == ["b", "a", "zebra"]
        described = await pipe.describe(["a", "zebra"])
        assert [(asset.key, asset.width_px, asset.alt, asset.variants) for asset in described] == [("a", 4, "a a", ())]

    virtual(scenario())


def test_the_planned_pipe_under_a_plain_for_gives_all() -> None:
    pipe = PlannedScriptImagePipe([(picture("a"), 1.0), picture("b")])
    assert virtual(arrivals(pipe)) == [(0.0, "b"), (1.0, "a")]


@pytest.mark.parametrize(
    ("items", "options", "complaint"),
    [
        ([picture("a"), picture("a")], {}, "'a' twice"),
        ([(picture("a"), -1)], {}, "delay=-1"),
        ([picture("a")], {"speed": math.inf}, "speed=inf"),
        ([picture("a")], {"fail_after": (3, "x")}, "fail_after names index 3"),
    ],
)
def test_refuses_wrong_picture_scripts(items: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        ScriptImagePipe(items, **options)
