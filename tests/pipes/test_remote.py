"""`RemoteTextPipe` against a real server on loopback: what it says, what fails, and what is told of it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes import remote, text_client
from multimodal.pipes.maybe_empty import MaybeEmpty
from multimodal.pipes.openai_stream import EmptyAnswerError
from multimodal.pipes.remote import ALIVE_TIMES, RemoteTextPipe
from multimodal.pipes.upstreams import EJECT_AFTER, Upstreams
from multimodal.sync.conformance import check_text_pipe
from tests.pipes.model_server import EVENTS, ModelServer, Play, resetting, served, sse
from tests.pipes.remote_answers import GOOD, TEXT, WORDS, closed_port, good, said, until
from tests.pipes.test_openai_stream import MUTATIONS, NAMES, read, recorded, text
from tests.support import run


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with served() as model:
        yield model


# ---- what it says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_recorded_streams_come_as_they_were_recorded(server: ModelServer, name: str) -> None:
    data = recorded(name)
    url = server.url(name, Play([data]))
    assert run(said(url, chat="chat" in name)) == text(read([data])[0])


@pytest.mark.parametrize("change", MUTATIONS)
@pytest.mark.parametrize("name", ["serve-chat", "vllm-ids"])
def test_what_other_servers_do_changes_nothing(server: ModelServer, name: str, change: str) -> None:
    data = recorded(name)
    url = server.url("mutated", Play([MUTATIONS[change](data)]))
    assert run(said(url)) == text(read([data])[0])


def test_cut_at_every_byte_it_is_whole_or_an_error(server: ModelServer) -> None:
    data = sse("One ", "二", done=False)
    end = data.rindex(b"}") + 1  # a last event counts without the empty line behind it, where it is whole

    async def scenario() -> None:
        async def cut(at: int, how: str) -> str:
            url = server.url(f"cut-{how}-{at}", Play([data[:at]], end=how))
            try:
                return await said(url)
            except PipeError as error:
                return "" if " was lost " in str(error) else str(error)

        for how in ("close", "break"):
            for first in range(0, len(data), 16):
                cuts = range(first, min(first + 16, len(data) + 1))
                found = await asyncio.gather(*(cut(at, how) for at in cuts))
                for at, got in zip(cuts, found, strict=True):
                    assert got == ("One 二" if at >= end else ""), (how, at)

    run(scenario())


def test_split_at_every_byte_it_is_the_same(server: ModelServer) -> None:
    data = MUTATIONS["crlf"](sse("一", "👩‍👩‍👧", done=False))
    url = server.url("bytes", Play([data[at : at + 1] for at in range(len(data))]))
    assert run(said(url)) == "一👩‍👩‍👧"


def test_gzip_though_nobody_asked_for_it(server: ModelServer) -> None:
    packed = gzip.compress(GOOD)
    headers = {"content-type": EVENTS, "content-encoding": "gzip"}
    url = server.url("gzip", Play([packed], headers=headers))
    assert run(said(url)) == TEXT
    assert server.plays["gzip"].sent_to[0]["accept-encoding"] == "identity"
    for spoilt in (packed[: len(packed) // 2], packed[:20] + b"\0" * 30):
        with pytest.raises(PipeError, match=r"was lost (in the middle|before its first)"):
            run(said(server.url("gzip", Play([spoilt], headers=headers))))


def test_tokens_are_tokens_where_ids_were_asked_for(server: ModelServer) -> None:
    async def scenario() -> None:
        pipe = RemoteTextPipe(
            server.url("ids", Play([recorded("vllm-ids")])), "m", "Hello", chat=False, token_ids=True, max_tokens=24
        )
        assert pipe.token_unit == "token"
        assert len([token async for token in pipe]) == 24
        assert pipe.finish_reason == "length"
        asked = server.plays["ids"].asked[0]
        assert (asked["return_token_ids"], asked["path"], asked["prompt"]) == (True, "completions", "Hello")

    run(scenario())


def test_usage_server_and_reason_are_told(server: ModelServer) -> None:
    async def scenario() -> None:
        url = server.url("usage", Play([recorded("vllm-chat-usage")]))
        pipe = RemoteTextPipe(url, "m", [{"role": "user", "content": "Hello"}], system="Be kind", api_key="secret")
        assert (pipe.server, pipe.finish_reason) == ("", "")
        assert [token async for token in pipe]
        assert (pipe.usage.prompt_tokens, pipe.usage.completion_tokens) == (40, 24)
        assert (pipe.server, pipe.finish_reason) == (url, "length")
        play = server.plays["usage"]
        assert play.sent_to[0]["authorization"] == "Bearer secret"
        assert [each["role"] for each in play.asked[0]["messages"]] == ["system", "user"]

    run(scenario())


def test_it_keeps_the_contract_of_a_text_pipe(server: ModelServer) -> None:
    pieces = [piece + b"\n\n" for piece in GOOD.split(b"\n\n") if piece]
    url = server.url("contract", Play(pieces, gap=0.01))
    bad = server.url("contract-bad", Play(pieces[:3], end="break"))
    check_text_pipe(
        lambda: RemoteTextPipe(url, "m", "Hello"), text=TEXT, failing=lambda: RemoteTextPipe(bad, "m", "Hello")
    )
    assert server.plays["contract"].active == 0


# ---- what fails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [b'data: {"error":{"message":"boom"}}\n\n', b'data: "boom"\n\n', b"data: boom\n\n"])
@pytest.mark.parametrize("together", [True, False])
def test_an_error_in_the_middle_comes_behind_the_tokens_before_it(
    server: ModelServer, piece: bytes, together: bool
) -> None:
    begun = sse(*WORDS[:3], finish=None, done=False)
    pieces = [begun + piece] if together else [begun, piece]
    urls = [server.url("fails", Play(pieces, gap=0.02)), good(server)]

    async def scenario() -> None:
        pipe = RemoteTextPipe(urls, "m", "Hello")
        assert "".join([(await anext(pipe)).text for _ in range(3)]) == "".join(WORDS[:3])
        with pytest.raises(PipeError, match="boom"):
            await anext(pipe)
        assert await anext(pipe, None) is None
        assert not server.plays["good"].asked

    run(scenario())


def test_a_reset_in_the_middle_is_an_error() -> None:
    async def scenario() -> None:
        async with resetting(sse("One ", finish=None, done=False)) as url:
            with pytest.raises(PipeError, match="was lost in the middle of its answer, after 1 tokens"):
                await said(url)
        async with resetting(sse("One ")) as url:
            assert await said(url) == "One "

    run(scenario())


@pytest.mark.parametrize(
    ("play", "message"),
    [
        (Play([GOOD[:40]], end="hang"), r"sent no token for [\d.]+ s, after 0 tokens \(the limit is 1 s"),
        (Play([sse("One ", finish=None, done=False)], end="hang"), "after 1 tokens"),
        (Play([], before=5.0), "gave no answer within 1 s"),
        (
            Play([sse("One ", finish=None, done=False), *[b": ping\n\n"] * 100], gap=0.1),
            r"sent no token for [1-9][\d.]* s",
        ),
    ],
)
def test_silence_is_an_error_and_so_is_being_alive_for_ever(server: ModelServer, play: Play, message: str) -> None:
    with pytest.raises(PipeError, match=message):
        run(said(server.url("silent", play), first_limit=1, idle_limit=0.3))


def choices(*several: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode({"choices": several}) + b"\n\n"


USAGE = b'data: {"choices":[],"usage":{"completion_tokens":6}}\n\n'
NOTHING = {
    "empty": choices({"index": 0, "delta": {"content": ""}}),
    "another choice": choices({"index": 1, "delta": {"content": "no"}}),
    "usage": USAGE,
}


@pytest.mark.parametrize("what", NOTHING)
@pytest.mark.parametrize("begun", [b"", sse("One ", finish=None, done=False)])
def test_what_brings_no_token_is_waited_for_as_a_ping_is(server: ModelServer, what: str, begun: bytes) -> None:
    url = server.url("chatters", Play([begun] * bool(begun) + [NOTHING[what]] * 600, gap=0.02))
    with pytest.raises(PipeError, match=r"sent no token for [\d.]+ s, after [01] tokens \(the limit is 0.2 s, 5 times"):
        run(said(url, first_limit=0.2, idle_limit=0.2))
    assert server.plays["chatters"].left.wait(5)


@pytest.mark.parametrize("how", ["a field", "the content"])
def test_a_model_may_think_longer_than_the_other_limits_but_not_for_ever(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    field = choices({"index": 0, "delta": {"reasoning_content": "hm"}})
    begun, thought, ended = {
        "a field": (field, field, b""),
        "the content": tuple(sse(each, finish=None, done=False) for each in ("<think>", "hm", "</think>")),
    }[how]
    url = server.url("thinks", Play([begun, *[thought] * 40, ended + GOOD], gap=0.05))
    assert run(said(url, first_limit=0.3, idle_limit=0.3)) == TEXT
    monkeypatch.setattr(remote, "THINK_LIMIT", 0.5)
    endless = server.url("forever", Play([begun, *[thought] * 600], gap=0.02))
    with pytest.raises(PipeError, match=r"after 0 tokens .* 0\.5 s where its model thinks"):
        run(said(endless, first_limit=0.1, idle_limit=0.1))


def test_behind_its_finish_reason_an_answer_ends_whatever_comes(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LAST_LIMIT", 0.3)

    async def scenario() -> None:
        for name, more, gap in (("usages", USAGE, 0.02), ("pings", b": ping\n\n", 0.02), ("floods", USAGE * 1000, 0.0)):
            pipe = RemoteTextPipe(
                server.url(name, Play([sse(*WORDS, done=False), *[more] * 3000], gap=gap)), "m", "Hello"
            )
            assert text([token async for token in pipe]) == TEXT
            assert name == "pings" or pipe.usage.completion_tokens == 6
            play = server.plays[name]
            await until(partial(_idle, play), "the server goes on")

    run(scenario(), limit=60)


def test_a_reader_that_takes_its_time_is_no_silence_of_the_server(server: ModelServer) -> None:
    async def scenario() -> None:
        pieces = [sse("One ", finish=None, done=False), sse("two.", done=False), USAGE]
        pipe = RemoteTextPipe(server.url("read", Play(pieces, gap=0.02)), "m", "Hello", idle_limit=0.05)
        assert (await anext(pipe)).text == "One "
        await asyncio.sleep(ALIVE_TIMES * 0.05 + 0.3)
        assert (await anext(pipe)).text == "two."
        assert await anext(pipe, None) is None
        assert pipe.usage.completion_tokens == 6

    run(scenario())


def test_an_answer_without_text_is_an_error_and_another_server_is_asked_first(server: ModelServer) -> None:
    tools = choices({"index": 0, "delta": {"tool_calls": [{"id": "1"}]}, "finish_reason": "tool_calls"})
    for name, data in (("tools", tools), ("thinks", sse("<think>", "hm")), ("done", b"data: [DONE]\n\n")):
        url = server.url(name, Play([data]))
        upstreams = Upstreams([url, good(server)])
        assert run(said(upstreams)) == TEXT
        assert [(each.active, each.failures) for each in upstreams.servers] == [(0, 1), (0, 0)]
        alone = Upstreams(url)
        with pytest.raises(EmptyAnswerError, match=rf"{name}/v1 ended its answer without any text"):
            run(said(alone))
        assert [(each.active, each.failures) for each in alone.servers] == [(0, 0)]
        with pytest.raises(EmptyAnswerError, match=r"without any text .*; .* cannot be reached"):
            run(said([url, closed_port()]))


def test_who_has_something_to_say_in_its_place_may_take_an_empty_answer_for_an_end(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(data: bytes) -> str:
        pipe = MaybeEmpty(RemoteTextPipe(server.url("maybe", Play([data])), "m", "Hello"))
        heard = text([token async for token in pipe])
        assert await anext(pipe, None) is None
        await pipe.aclose()
        return heard

    assert run(scenario(GOOD)) == TEXT
    assert run(scenario(sse())) == ""
    assert "without any text" in caplog.text
    with pytest.raises(PipeError, match="boom"):
        run(scenario(b"data: boom\n\n"))


@pytest.mark.parametrize("error", [b"data: boom\n\n", b'{"error": "boom"}\n', b'{"error": "boom"}', b"data: boom", b""])
def test_what_a_stop_sequence_held_comes_before_an_error(server: ModelServer, error: bytes) -> None:
    async def scenario() -> None:
        for begun in (["One <EN"], ["One ", "<", "EN"], ["One <EN", "D"]):
            pieces = [sse(*begun, finish=None, done=False), *[error] * bool(error)]
            pipe = RemoteTextPipe(server.url("held", Play(pieces, gap=0.02)), "m", "Hello", stop=["<END>"])
            heard: list[str] = []
            with pytest.raises(PipeError, match="boom" if error else "was lost"):
                await hear(pipe, heard)
            assert "".join(heard) == "".join(begun)

    run(scenario())


def test_one_that_hangs_or_breaks_gives_what_was_held_too(server: ModelServer) -> None:
    async def scenario() -> None:
        for end in ("hang", "break"):
            play = Play([sse("One <EN", finish=None, done=False)], end=end)
            pipe = RemoteTextPipe(server.url("held", play), "m", "Hello", stop=["<END>"], idle_limit=0.2)
            heard: list[str] = []
            with pytest.raises(PipeError, match="after 1 tokens"):
                await hear(pipe, heard)
            assert "".join(heard) == "One <EN"

    run(scenario())


@pytest.mark.parametrize("kind", ["Text/Event-Stream; charset=utf-8", "text/event-stream ;x=1", "TEXT/EVENT-STREAM"])
def test_media_types_have_no_case(server: ModelServer, kind: str) -> None:
    assert run(said(server.url("cased", Play([GOOD], headers={"content-type": kind})))) == TEXT


def test_a_redirection_says_where_to(server: ModelServer) -> None:
    url = server.url("moved", Play([], status=301, headers={"location": "https://x.example/v1/chat/completions"}))
    with pytest.raises(UsageError, match=r"\(301\): it sends to https://x.example/v1/chat/completions; give the URL"):
        run(said(url))


def test_a_server_that_says_when_to_come_back_is_left_alone(server: ModelServer) -> None:
    rests = Play([b"busy"], status=429, headers={"retry-after": "30"})
    upstreams = Upstreams([server.url("rests", rests), good(server)])
    for _ in range(4):
        assert run(said(upstreams)) == TEXT
    assert len(rests.asked) == 1


@pytest.mark.parametrize("how", ["body", "stream", "type", "finish"])
def test_what_a_terminal_obeys_stands_in_no_error(
    server: ModelServer, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07"
    play = {
        "body": Play([evil.encode()], status=500, headers={}),
        "stream": Play([b"data: " + msgspec.json.encode({"error": evil}) + b"\n\n"]),
        "type": Play([evil.encode()], headers={"content-type": "text/html"}),
        "finish": Play([sse(finish=f"{evil}failed")]),
    }[how]
    with pytest.raises(PipeError, match=r"\\x1b") as caught:
        run(said(server.url("evil", play)))
    assert str(caught.value).isprintable()
    assert "\x1b" not in caplog.text


def test_keep_alives_keep_a_slow_server(server: ModelServer) -> None:
    url = server.url("slow", Play([b": ping\n\n"] * 10 + [GOOD], gap=0.1))
    assert run(said(url, first_limit=0.5, idle_limit=0.5)) == TEXT


def test_what_is_finished_is_not_waited_for(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LAST_LIMIT", 0.2)
    url = server.url("lingers", Play([sse(*WORDS, done=False)], end="hang"))
    assert run(said(url)) == TEXT
    url = server.url("breaks", Play([sse(*WORDS, done=False)], end="break"))
    assert run(said(url)) == TEXT


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_or_broken_server_is_a_failure_that_may_pass(server: ModelServer, status: int) -> None:
    url = server.url("busy", Play([b'{"error":{"message":"come back later"}}'], status=status, headers={}))
    with pytest.raises(PipeError, match=rf"refused the request \({status}\): come back later") as caught:
        run(said(url))
    assert caught.value.retryable
    assert run(said([url, good(server)])) == TEXT


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (413, "too large", "too large"),
        (415, "", "it said nothing"),
        *(
            (int(head.split()[0]), body.decode(), words)
            for name, words in [
                ("serve-no-such-model", "Server is pinned to"),
                ("serve-ids", "Unexpected fields in the request"),
                ("vllm-no-messages", "Field required"),
                ("vllm-too-long", "maximum context length is 2048"),
            ]
            for head, _, body in [recorded(name).partition(b"\n")]
        ),
    ],
)
def test_a_wrong_request_is_refused_in_the_servers_words_and_not_sent_elsewhere(
    server: ModelServer, status: int, body: str, words: str
) -> None:
    url = server.url("refuses", Play([body.encode()], status=status, headers={}))
    other = good(server, "other")
    upstreams = Upstreams([url, other])
    with pytest.raises(UsageError, match=rf"refused the request \({status}\): .*{words}"):
        run(said(upstreams))
    assert not server.plays["other"].asked
    assert [each.failures for each in upstreams.servers] == [0, 0]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (302, "", "it said nothing"),
        (401, "no key", "no key"),
        (403, "", "it said nothing"),
        (404, recorded("vllm-no-such-model").partition(b"\n")[2].decode(), "does not exist"),
    ],
)
def test_a_refusal_of_one_server_alone_is_that_servers_failure(
    server: ModelServer, status: int, body: str, words: str
) -> None:
    refuses = Play([body.encode()], status=status, headers={})
    url = server.url("refuses", refuses)
    upstreams = Upstreams([url, good(server, "other")])
    for _ in range(6):
        assert run(said(upstreams)) == TEXT
    assert len(refuses.asked) == EJECT_AFTER
    assert [(each.active, each.failures) for each in upstreams.servers] == [(0, EJECT_AFTER), (0, 0)]
    # Where all refuse, no server is to blame; each is heard.
    too = server.url("too", Play([b"not here"], status=404, headers={}))
    told = rf"refuses/v1 refused the request \({status}\): .*{words}.*; .*too/v1 refused .*: not here"
    everyone = Upstreams([url, too])
    with pytest.raises(UsageError, match=told):
        run(said(everyone))
    assert [(each.active, each.failures) for each in everyone.servers] == [(0, 0), (0, 0)]
    with pytest.raises(UsageError, match=words):
        run(said(url))
    # One that is gone may come back, and may then take it.
    with pytest.raises(PipeError, match=r"refused the request .*; .* cannot be reached") as caught:
        run(said([url, closed_port()]))
    assert caught.value.retryable


@pytest.mark.parametrize("error", [OSError("no store"), ExceptionGroup("several", [OverflowError("port")])])
@pytest.mark.parametrize("at", ["connecting", "reading"])
def test_what_any_library_raises_is_that_servers_failure(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, error: Exception, at: str
) -> None:
    async def fails() -> None:
        raise error

    async def scenario() -> None:
        if at == "connecting":
            monkeypatch.setattr(text_client, "_certificates", fails)
            first = "https://127.0.0.1:1/v1"
        else:
            first = server.url("odd", Play([sse("One ", finish=None, done=False)], end="hang"))
        upstreams = Upstreams([first, good(server)])
        pipe = RemoteTextPipe(upstreams, "m", "Hello")
        if at == "connecting":
            assert text([token async for token in pipe]) == TEXT
        else:
            await anext(pipe)

            async def spoilt() -> AsyncIterator[bytes]:
                raise error
                yield b""

            assert pipe._connection is not None
            pipe._connection._bytes = spoilt()
            with pytest.raises(PipeError, match=r"lost in the middle of its answer, after 1 tokens: (no store|port)$"):
                await anext(pipe)
        assert pipe._connection is not None
        assert not pipe._connection.open
        assert [(each.active, each.failures) for each in upstreams.servers] == [(0, 1), (0, 0)]

    run(scenario())


@pytest.mark.parametrize("finish", ["abort", "error", "ABORT"])
def test_an_answer_that_was_given_up_is_an_error_behind_its_tokens(server: ModelServer, finish: str) -> None:
    async def scenario() -> None:
        gives_up = server.url("gives-up", Play([sse(finish=finish)]))
        assert await said([gives_up, good(server)]) == TEXT
        pipe = RemoteTextPipe(server.url("aborts", Play([sse("One ", "two", finish=finish)])), "m", "Hello")
        assert [(await anext(pipe)).text for _ in range(2)] == ["One ", "two"]
        with pytest.raises(PipeError, match=f"aborts/v1 gave its answer up after 2 tokens: .*{finish}") as caught:
            await anext(pipe)
        assert caught.value.retryable
        assert pipe.finish_reason == finish

    run(scenario())


@pytest.mark.parametrize(("finish", "cut"), [("length", True), ("content_filter", True), ("stop", False)])
def test_a_limit_or_a_filter_is_an_end_that_is_told(server: ModelServer, finish: str, cut: bool) -> None:
    async def scenario() -> None:
        pipe = RemoteTextPipe(server.url("limited", Play([sse("One ", "tw", finish=finish)])), "m", "Hello")
        assert not pipe.cut
        assert text([token async for token in pipe]) == "One tw"
        assert (pipe.cut, pipe.finish_reason) == (cut, finish)

    run(scenario())


def test_what_is_no_event_stream_is_an_error(server: ModelServer) -> None:
    page = Play([b"<html>"], headers={"content-type": "text/html"})
    with pytest.raises(PipeError, match="answered with text/html and not with an event stream"):
        run(said(server.url("page", page)))


def test_an_endless_line_does_not_fill_the_memory(server: ModelServer) -> None:
    play = Play([sse("One ", finish=None, done=False), *([b"x" * 65_536] * 40)])
    with pytest.raises(PipeError, match="a line of more than"):
        run(said(server.url("endless", play)))


def test_nobody_there_is_told_with_its_reason() -> None:
    url = closed_port()
    with pytest.raises(PipeError, match=rf"{url} cannot be reached: ") as caught:
        run(said(url))
    assert caught.value.retryable


def test_a_server_without_the_certificate_it_should_have_is_not_asked(server: ModelServer) -> None:
    url = good(server, "plain").replace("http:", "https:")
    upstreams = Upstreams([url, good(server)])
    assert run(said(upstreams)) == TEXT
    assert [(each.active, each.failures) for each in upstreams.servers] == [(0, 1), (0, 0)]


def test_cancelled_while_certificates_are_read_nothing_is_counted_as_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never() -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(text_client, "_certificates", never)

    async def scenario() -> None:
        pipe = RemoteTextPipe("https://127.0.0.1:1/v1", "m", "Hello")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(aiter(pipe))
        assert pipe.upstreams.servers[0].active == 0

    run(scenario())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"base_url": "ftp://x/v1"}, "no http"),
        ({"base_url": []}, "give one URL"),
        ({"base_url": "http://a:b@x/v1"}, "give api_key"),
        ({"base_url": "http://127.0.0.1:99999/v1"}, "no http"),
        ({"base_url": "http://127.0.0.1:1/v1\n"}, "no http"),
        ({"base_url": "http://[::1/v1"}, "no http"),
        ({"base_url": "http://x/v1?key=1"}, "a query"),
        ({"base_url": "http://\u2488com/v1"}, "is no URL"),
        ({"api_key": "schl\u00fcssel"}, "^api_key holds something that an HTTP header cannot carry"),
        ({"api_key": "secret\n"}, "^api_key holds [^s]*s"),
        ({"api_key": b"secret"}, "api_key holds"),
        ({"stop": [""]}, "empty"),
        ({"extra": ["top_k"]}, "must be a mapping"),
        ({"first_limit": 0}, "first_limit=0 must be above 0 seconds"),
        ({"idle_limit": float("nan")}, "idle_limit=nan"),
        ({"connect_limit": None}, "connect_limit=None"),
        ({"prompt": ["Hello"]}, "the messages of a chat"),
        ({"prompt": 7}, "the messages of a chat"),
        ({"model": ""}, "give the name by which the server knows it"),
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": [{"role": "user", "content": "a"}], "chat": False}, "give prompt as a string"),
    ],
)
def test_wrong_arguments_are_told(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RemoteTextPipe(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", "prompt": "Hello", **wrong})


async def hear(pipe: RemoteTextPipe, heard: list[str]) -> None:
    while True:
        heard.append((await anext(pipe)).text)


def _idle(play: Play) -> bool:
    return play.active == 0
