"""A tour told by a model: guided product by product, in sync, and held to the facts, whatever the model does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from multimodal.demos.product_tour.narrators import Narrator, _edge, language_of
from multimodal.demos.product_tour.tour import Settings, Tour, demo_tour
from multimodal.errors import PipeError, UsageError
from multimodal.events import CueMissed, Reveal, StreamEnd, StreamStart
from multimodal.pipes.blocklist import Blocklist
from multimodal.pipes.extractive import narrator_split
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.wordfilter import Action
from multimodal.sync.kit import assert_every_cue_settled, assert_right_product, record
from multimodal.sync.log import SyncLog
from multimodal.values import Product
from tests.support import run

Asked = list[dict[str, Any]]
FAST = Settings(sync_interval=1, speed=1000.0)


def plainly(title: str) -> list[str]:
    return ["This", " is the", f" {title}", "."]


@asynccontextmanager
async def model(asked: Asked, *, fails_at: int = 99, says: Callable[[str], list[str]] = plainly) -> AsyncIterator[str]:
    """A server of the OpenAI API that says something of each product, and is gone from one request on."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        found = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        assert found is not None
        body = json.loads(await reader.readexactly(int(found[1])))
        asked.append(body)
        if len(asked) > fails_at:
            writer.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            title = re.search(r"(?:title: |名称：)(.*)", body["messages"][-1]["content"])
            assert title is not None
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for piece in says(title[1]):
                chunk = {"choices": [{"index": 0, "delta": {"content": piece}}]}
                writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
            done = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            writer.write(f"data: {json.dumps(done)}\n\ndata: [DONE]\n\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_model_behind_a_url_tells_the_demo_tour(language: str) -> None:
    asked: Asked = []

    async def scenario() -> None:
        async with model(asked) as url:
            tour = demo_tour(Narrator(url, "m", tone="brisk", words=20, seed=7), language)
            assert [product.id for product in tour.shown][:2] == ["halo-kettle", "pebbledash-mug"]
            log = await record(tour.stream(FAST))
        start = log.events[0]
        assert isinstance(start, StreamStart)
        assert start.narrator == "remote: m"
        assert [reveal.product for reveal in log.of(Reveal)] == [product.id for product in tour.shown]
        assert not log.of(CueMissed)
        assert log.text == "\n\n".join(f"This is the {product.title}." for product in tour.shown)
        assert_every_cue_settled(log)
        assert_right_product(log)

    run(scenario())
    assert len(asked) == 8
    for body, before in zip(asked[1:], asked, strict=False):
        assert (body["model"], body["seed"], body["stream"]) == ("m", 7, True)
        assert [message["role"] for message in body["messages"]] == ["system", "user"]
        # A product is asked about by itself, so that no answer can run ahead.
        assert len(re.findall("title: |名称：", body["messages"][1]["content"])) == 1
        assert body["messages"] != before["messages"]


def test_a_server_that_fails_in_the_middle_of_a_tour_is_an_error() -> None:
    async def scenario() -> None:
        async with model([], fails_at=2) as url:
            tour = demo_tour(Narrator(url, "m"))
            with pytest.raises(PipeError, match="500"):
                await record(tour.stream(FAST))

    run(scenario())


def test_a_narrator_is_checked() -> None:
    for arguments, says in (
        (("parrot",), "unknown"),
        (("https://h/v1",), "--model NAME"),
        (("local", "m"), "takes none"),
        (("https://h/v1", "m", "loud"), "plain, warm, brisk"),
        (("https://h/v1", "m", "warm", 3), "5 or more"),
        (("local", "", "warm", 40, 0, "maybe"), "flag, hold, stop, off"),
        (("script", "", "warm", 40, 0, "hold"), "is for a model's words"),
    ):
        with pytest.raises(UsageError, match=says):
            Narrator(*arguments)
    assert Narrator("https://h/v1", "m").remote
    assert Narrator().planned
    assert [
        Narrator(name, guard=guard).guarding for name, guard in (("local", ""), ("local", "off"), ("script", ""))
    ] == [
        "hold",
        "off",
        "off",
    ]


def test_the_language_is_that_of_most_titles() -> None:
    titles = {"en": ["Mug", "水壶 Kettle", "Lamp"], "zh": ["水壶", "Halo 灯", "Mug"]}
    for language, names in titles.items():
        assert language_of([Product(name, name) for name in names]) == language
    assert language_of([Product("k", "やかん"), Product("l", "電気ケトル")]) == "en"
    assert language_of([], "zh") == "zh"
    with pytest.raises(UsageError, match="there are: en, zh"):
        language_of([], "fr")


FALSE: dict[str, Callable[[str], list[str]]] = {
    "after its name": lambda title: [*plainly(title), " It costs", " 1 euro", ".", " It is", " a good one."],
    "before its name": lambda title: ["In oak", " and gold", ": the", f" {title}", ". ", "Look", " here."],
    "its name misspelt": lambda title: ["The", f" {title}x", " comes in a box of two."],
    "not named": lambda title: ["A good", " thing", " to have."],
    "two in one delta": lambda title: [f"The {title}. It is of gold. It is of tin."],
    "nothing": lambda title: [],
}
"""What a model says wrong of the third product."""
THIRD = 2


def wrongly(false: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    titles: list[str] = []

    def says(title: str) -> list[str]:
        titles.append(title)
        return false(title) if len(titles) == THIRD + 1 else plainly(title)

    return says


async def told_by(says: Callable[[str], list[str]], guard: str, language: str = "en") -> tuple[Tour, SyncLog]:
    async with model([], says=says) as url:
        tour = demo_tour(Narrator(url, "m", guard=guard), language)
        return tour, await record(tour.stream(FAST))


@pytest.mark.parametrize("name", FALSE)
def test_what_a_model_gets_wrong_is_said_by_the_extractive_narrator(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tour, log = run(told_by(wrongly(FALSE[name]), ""))
    guard = FactGuard(FactSheet.of(product) for product in tour.shown)
    assert not guard.violations(log.text)
    assert [reveal.product for reveal in log.of(Reveal)] == [product.id for product in tour.shown]
    assert not log.of(CueMissed)
    assert_every_cue_settled(log)
    assert_right_product(log)
    passages = log.text.split("\n\n")
    product = tour.shown[THIRD]
    assert [passage.count(other.title) for passage, other in zip(passages, tour.shown, strict=True)] == [1] * 8
    assert "46 euros" in passages[THIRD], "its facts are said all the same"
    for passage, other in zip(passages, tour.shown, strict=True):
        assert other is product or passage == f"This is the {other.title}."
    assert ("the fact guard" in caplog.text) == (name != "nothing") or "never named" in caplog.text
    # Each picture stands behind the token in which its product's name ends.
    for reveal, other in zip(log.of(Reveal), tour.shown, strict=True):
        end = log.text.index(other.title) + len(other.title)
        assert log.char_at(reveal.mark - 1) < end <= log.char_at(reveal.mark)
        assert reveal.mark == reveal.anchor


def test_in_chinese_too() -> None:
    false = FALSE["after its name"]
    tour, log = run(told_by(wrongly(lambda title: [*false(title)[:4], "它", "是", "黄金做的", "。"]), "", "zh"))
    assert "黄金" not in log.text
    assert [reveal.product for reveal in log.of(Reveal)] == [product.id for product in tour.shown]


def test_flag_lets_it_be_said_and_tells_and_off_does_not_look(caplog: pytest.LogCaptureFixture) -> None:
    for guard, told in (("flag", True), ("off", False)):
        caplog.clear()
        tour, log = run(told_by(wrongly(FALSE["after its name"]), guard))
        assert log.text.count("It costs 1 euro. It is a good one.") == 1
        assert len(log.of(Reveal)) == len(tour.shown)
        assert ("'1 euro' was said of" in caplog.text) == told


def test_stop_ends_the_tour_before_it(caplog: pytest.LogCaptureFixture) -> None:
    tour, log = run(told_by(wrongly(FALSE["after its name"]), "stop"))
    assert log.text.strip() == "\n\n".join(f"This is the {product.title}." for product in tour.shown[: THIRD + 1])
    assert [reveal.product for reveal in log.of(Reveal)] == [product.id for product in tour.shown[: THIRD + 1]]
    end = log.events[-1]
    assert isinstance(end, StreamEnd)
    assert end.reason == "complete"
    assert "'1 euro' was said of" in caplog.text


def test_a_greeting_and_a_closing_are_held_to_the_facts_too() -> None:
    """They are about no product: what replaces them is the extractive narrator's, whole, or nothing more."""
    assert _edge("Welcome to Larkmoor.", "") == narrator_split("Welcome to Larkmoor.")
    assert _edge("Welcome to Larkmoor.", "Hello there.") == []


def test_a_model_is_heard_at_a_narrator_s_pace() -> None:
    async def scenario(speed: float) -> float:
        clock = asyncio.get_running_loop().time
        async with model([], says=lambda title: [f"{title}."]) as url:
            began = clock()
            tour = demo_tour(Narrator(url, "m"))
            log = await record(tour.stream(Settings(speed=speed)))
            assert len(log.of(Reveal)) == 8
            return clock() - began

    # 8 titles of some 15 letters, and 7 breaths.
    assert 0.5 < run(scenario(8.0)) < 8


def places(log: SyncLog) -> list[tuple[str, int]]:
    return [(reveal.key, reveal.anchor) for reveal in log.of(Reveal)]


@pytest.mark.parametrize(("name", "language"), [("script", None), ("extractive", None), ("extractive", "zh")])
def test_no_planned_tour_shows_a_word_of_the_blocklist_and_its_pictures_stay(name: str, language: str | None) -> None:
    tour = demo_tour(Narrator(name), language)
    before = run(record(tour.stream(FAST)))
    words = ["Halo Kettle", "copper", "brass", "光环", "黄铜"]
    masked = run(record(tour.behind(Blocklist(words)).stream(FAST)))
    assert [word for word in words if word.lower() in before.text.lower()]
    assert not [word for word in words if word.lower() in masked.text.lower()]
    assert len(masked.text) == len(before.text)
    assert places(masked) == places(before)
    assert_every_cue_settled(masked)
    assert [product.id for product in tour.behind(Blocklist(words)).nameless] == ["halo-kettle"]
    assert tour.nameless == []


@pytest.mark.parametrize("word", ["Brooklet", "黄铜"])
def test_a_planned_tour_ends_before_a_word_of_the_blocklist(word: str) -> None:
    tour = demo_tour(Narrator("extractive"), "en" if word.isascii() else "zh")
    before = run(record(tour.stream(FAST)))
    log = run(record(tour.behind(Blocklist([word], "stop")).stream(FAST)))
    at = before.text.find(word)
    assert log.text == before.text[: at if at >= 0 else None]
    end = log.events[-1]
    assert isinstance(end, StreamEnd)
    assert end.reason == "complete"
    assert {missed.reason for missed in log.of(CueMissed)} <= {"beyond_end"}
    assert bool(log.of(CueMissed)) == (at >= 0)


@pytest.mark.parametrize("guard", ["hold", "off"])
@pytest.mark.parametrize("action", ["mask", "stop"])
def test_no_model_shows_a_word_of_the_blocklist(guard: str, action: Action) -> None:
    def says(title: str) -> list[str]:
        return [*plainly(title), " A d", "am", "n", " good", " one", "."]

    async def scenario() -> tuple[Tour, SyncLog]:
        async with model([], says=says) as url:
            tour = demo_tour(Narrator(url, "m", guard=guard)).behind(Blocklist(["damn good"], action))
            return tour, await record(tour.stream(FAST))

    tour, log = run(scenario())
    shown = "damn good" if action == "stop" else "*********"
    told = [f"This is the {product.title}. A {shown} one." for product in tour.shown]
    assert log.text == ("\n\n".join(told) if action == "mask" else told[0].partition("damn")[0])
    named = tour.shown if action == "mask" else tour.shown[:1]
    assert [reveal.product for reveal in log.of(Reveal)] == [product.id for product in named]
    for reveal, product in zip(log.of(Reveal), named, strict=True):
        end = log.text.index(product.title) + len(product.title)
        assert log.char_at(reveal.mark - 1) < end <= log.char_at(reveal.mark)
