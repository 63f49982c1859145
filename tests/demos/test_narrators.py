"""A tour told by a model behind a URL: guided product by product, in sync, whatever the model does."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

from multimodal.demos.product_tour.narrators import Narrator, language_of
from multimodal.demos.product_tour.tour import Settings, demo_tour
from multimodal.errors import PipeError, UsageError
from multimodal.events import CueMissed, Reveal, StreamStart
from multimodal.pipes.script import ScriptTextPipe
from multimodal.sync.kit import assert_every_cue_settled, assert_right_product, record
from multimodal.values import Product
from tests.support import run

Asked = list[dict[str, Any]]


@asynccontextmanager
async def model(asked: Asked, *, fails_at: int = 99) -> AsyncIterator[str]:
    """A server of the OpenAI API that says of each product its title, and is gone from one request on."""

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
            for piece in ("This", " is the", f" {title[1]}", "."):
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
            log = await record(tour.stream(Settings(sync_interval=1)))
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
                await record(tour.stream(Settings()))

    run(scenario())


def test_a_narrator_is_checked() -> None:
    for arguments, says in (
        (("parrot",), "unknown"),
        (("https://h/v1",), "--model NAME"),
        (("local", "m"), "takes none"),
        (("https://h/v1", "m", "loud"), "plain, warm, brisk"),
        (("https://h/v1", "m", "warm", 3), "5 or more"),
    ):
        with pytest.raises(UsageError, match=says):
            Narrator(*arguments)
    assert Narrator("https://h/v1", "m").remote
    assert Narrator().planned


def test_the_language_is_that_of_most_titles() -> None:
    titles = {"en": ["Mug", "水壶 Kettle", "Lamp"], "zh": ["水壶", "Halo 灯", "Mug"]}
    for language, names in titles.items():
        assert language_of([Product(name, name) for name in names]) == language
    assert language_of([Product("k", "やかん"), Product("l", "電気ケトル")]) == "en"
    assert language_of([], "zh") == "zh"
    with pytest.raises(UsageError, match="there are: en, zh"):
        language_of([], "fr")


def test_a_model_of_this_machine_is_taken_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str, str]] = []

    def narrator_pipe(products: list[Product], *, shop: str, language: str) -> ScriptTextPipe:
        asked.append((len(products), shop, language))
        return ScriptTextPipe([f" The {products[0].title}", " and", " so", " on", "."], gap=0.0)

    module = ModuleType("multimodal.pipes.local_narrator")
    module.narrator_pipe = narrator_pipe  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)

    async def scenario() -> None:
        tour = demo_tour(Narrator("local"))
        log = await record(tour.stream(Settings(sync_interval=1)))
        assert isinstance(log.events[0], StreamStart)
        assert log.events[0].narrator == tour.narrator == "local"
        assert [reveal.product for reveal in log.of(Reveal)] == ["halo-kettle"]

    run(scenario())
    assert asked == [(8, "Larkmoor", "en")]
