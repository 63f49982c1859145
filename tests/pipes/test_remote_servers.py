"""`RemoteTextPipe` over several servers, and what closing and cancelling leave of a request: nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes import text_client
from multimodal.pipes.remote import RemoteTextPipe
from multimodal.pipes.upstreams import EJECT_AFTER, Upstreams
from multimodal.values import Token
from tests.pipes.model_server import ModelServer, Play, served, sse
from tests.pipes.remote_answers import GOOD, TEXT, WORDS, closed_port, good, said, until
from tests.pipes.test_openai_stream import EMPTY
from tests.support import run


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with served() as model:
        yield model


# ---- several servers -------------------------------------------------------------------------------------------------


def test_the_next_server_is_asked_before_the_first_token(server: ModelServer) -> None:
    empty = server.url("empty", Play([EMPTY], end="close"))
    broken = server.url("broken", Play([], end="break"))
    upstreams = Upstreams([closed_port(), empty, broken, good(server)])
    assert run(said(upstreams)) == TEXT
    assert [each.failures for each in upstreams.servers] == [1, 1, 1, 0]
    assert [each.active for each in upstreams.servers] == [0] * 4


def test_a_server_that_fails_is_left_out_and_comes_back(server: ModelServer) -> None:
    bad = server.url("bad", Play([b"busy"], status=503, headers={}))
    upstreams = Upstreams([bad, good(server)])

    async def scenario() -> None:
        for _ in range(6):
            assert await said(upstreams) == TEXT
        assert len(server.plays["bad"].asked) == EJECT_AFTER
        server.plays["bad"] = Play([GOOD])
        upstreams.servers[0].out_until = 0.0  # its time is up
        for _ in range(2):
            assert await said(upstreams) == TEXT
        assert len(server.plays["bad"].asked) == 1
        assert upstreams.servers[0].failures == 0

    run(scenario())


def test_the_least_loaded_is_asked(server: ModelServer) -> None:
    urls = [server.url(name, Play([sse("a ", finish=None, done=False)], end="hang")) for name in ("left", "right")]
    upstreams = Upstreams(urls)

    async def scenario() -> None:
        pipes = [RemoteTextPipe(upstreams, "m", "Hello") for _ in range(6)]
        await asyncio.gather(*(anext(aiter(pipe)) for pipe in pipes))
        assert [each.active for each in upstreams.servers] == [3, 3]
        for pipe in pipes:
            await pipe.aclose()
        assert [(each.active, each.failures) for each in upstreams.servers] == [(0, 0), (0, 0)]

    run(scenario())


def test_what_a_reader_left_behind_its_first_token_heals_a_server(server: ModelServer) -> None:
    async def scenario() -> None:
        for how, left in (
            ("close", 0),
            ("cancel", 0),
            ("before the first token", EJECT_AFTER),
            ("failed", EJECT_AFTER),
        ):
            pieces = [sse("a ", finish=None, done=False)] if "first" not in how else []
            pieces[:] = [pieces[0] + b"data: boom\n\n"] if how == "failed" else pieces
            upstreams = Upstreams(server.url("left", Play(pieces, end="hang")))
            upstreams.servers[0].failures = EJECT_AFTER - (how == "failed")
            pipe = RemoteTextPipe(upstreams, "m", "Hello")
            if "first" not in how:
                await anext(pipe)
            if how == "cancel" or "first" in how:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await anext(pipe)
            await pipe.aclose()
            assert [(each.active, each.failures) for each in upstreams.servers] == [(0, left)], how

    run(scenario())


# ---- closing ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def begun(server: ModelServer, name: str, **play: Any) -> AsyncIterator[RemoteTextPipe]:
    pieces = [sse(word, finish=None, done=False) for word in WORDS * 100]
    pipe = RemoteTextPipe(server.url(name, Play(pieces, gap=0.02, **play)), "m", "Hello")
    await anext(aiter(pipe))
    yield pipe


def test_closing_frees_the_server(server: ModelServer) -> None:
    async def scenario() -> None:
        async with begun(server, "closes") as pipe:
            await pipe.aclose()
            await pipe.aclose()
            play = server.plays["closes"]
            await until(play.left.is_set, "the server did not see its client leave")
            await until(lambda: play.active == 0, "the server goes on")
            assert play.sent < len(play.pieces)
            assert [token async for token in _rest(pipe)] == []
            with pytest.raises(UsageError, match="was played already"):
                aiter(pipe)

    run(scenario())


def test_cancelling_a_pull_frees_the_server(server: ModelServer) -> None:
    async def scenario() -> None:
        async with begun(server, "cancels", end="hang") as pipe:

            async def pull() -> None:
                while True:
                    await anext(pipe)

            task = asyncio.ensure_future(pull())
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(server.plays["cancels"].left.is_set, "the server did not see its client leave")
            assert [each.active for each in pipe.upstreams.servers] == [0]

    run(scenario())


@pytest.mark.parametrize("at", ["certificates", "first bytes", "next token"])
def test_closing_ends_a_pull_that_waits_wherever_it_waits(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at: str
) -> None:
    async def never() -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(text_client, "_certificates", never)

    async def scenario() -> None:
        urls = {
            "certificates": "https://127.0.0.1:1/v1",
            "first bytes": server.url("asks", Play([GOOD], before=60.0)),
            "next token": server.url("hangs", Play([sse("One ", finish=None, done=False)], end="hang")),
        }
        upstreams = Upstreams([urls[at], good(server)])
        pipe = RemoteTextPipe(upstreams, "m", "Hello")
        if at == "next token":
            await anext(pipe)
        pull = asyncio.ensure_future(anext(pipe, None))
        await asyncio.sleep(0.2)
        await pipe.aclose()
        async with asyncio.timeout(10):
            assert await pull is None
        await pipe.aclose()
        assert await anext(pipe, None) is None
        assert pipe._connection is not None
        assert not pipe._connection.open
        assert [(each.active, each.failures) for each in upstreams.servers] == [(0, 0), (0, 0)]
        assert not server.plays["good"].asked
        assert not caplog.text

    run(scenario())


def test_cancelled_while_it_asks_nothing_is_left_behind(server: ModelServer) -> None:
    async def scenario() -> None:
        pipe = RemoteTextPipe(server.url("asks", Play([GOOD], before=5.0)), "m", "Hello")
        task = asyncio.ensure_future(anext(aiter(pipe)))
        await until(lambda: bool(server.plays["asks"].asked), "nobody asked")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [(each.active, each.failures) for each in pipe.upstreams.servers] == [(0, 0)]

    run(scenario())


def test_a_stop_sequence_frees_the_server_at_once(server: ModelServer) -> None:
    pieces = [sse("a ", finish=None, done=False)] * 3 + [sse("STOP ", finish=None, done=False)] * 500
    url = server.url("stops", Play(pieces, gap=0.02))
    started = time.monotonic()
    assert run(said(url, stop=["STOP"])) == "a a a "
    assert time.monotonic() - started < 8
    assert server.plays["stops"].left.wait(5)


async def _rest(pipe: RemoteTextPipe) -> AsyncIterator[Token]:
    while (token := await anext(pipe, None)) is not None:
        yield token
