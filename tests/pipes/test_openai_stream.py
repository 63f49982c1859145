"""What servers stream, recorded and spoilt: the same text, or an error that says what happened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.openai_stream import FAILED, WHOLE, AnswerStream, bearer, error_words, payload
from multimodal.sse_reader import SSEDecoder
from multimodal.values import Token
from tests.pipes.model_server import sse

STREAMS = Path(__file__).parent / "streams"
NAMES = sorted(path.stem for path in STREAMS.glob("*.sse") if path.read_bytes().startswith(b"data:"))


def recorded(name: str) -> bytes:
    return (STREAMS / f"{name}.sse").read_bytes()


def read(pieces: Iterable[bytes], stop: tuple[str, ...] = ()) -> tuple[list[Token], AnswerStream]:
    """Everything of a response that ends behind these pieces."""
    decoder, answer, tokens = SSEDecoder(), AnswerStream("a server", stop), list[Token]()
    for piece in pieces:
        for event in decoder.feed(piece):
            tokens += answer.feed(event)
    return tokens + answer.close(), answer


def text(tokens: Iterable[Token]) -> str:
    return "".join(token.text for token in tokens)


def test_what_was_recorded_is_there() -> None:
    servers = {name.partition("-")[0] for name in NAMES}
    assert servers == {"serve", "vllm"}
    assert {f"{server}-{what}" for server in servers for what in ("chat", "completion", "stop")} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_stream_ends_with_all_its_tokens(name: str) -> None:
    tokens, answer = read([recorded(name)])
    assert answer.finish_reason in {"length", "stop"}
    assert text(tokens)
    if answer.usage.completion_tokens and answer.by_ids:
        assert answer.tokens == answer.usage.completion_tokens


def test_token_ids_make_a_token_of_each() -> None:
    tokens, answer = read([recorded("vllm-ids")])
    assert answer.by_ids
    assert answer.tokens == len(tokens) == 24
    assert text(tokens) == text(read([recorded("vllm-completion")])[0])


@pytest.mark.parametrize("name", NAMES)
def test_cut_at_every_byte_it_is_whole_or_an_error(name: str) -> None:
    data = recorded(name)
    whole = text(read([data])[0])
    finished = lost = 0
    decoder, answer, tokens = SSEDecoder(), AnswerStream("a server"), list[Token]()
    # One reader goes through the stream; at each byte a stream that ends there is closed as the reader stands then.
    for byte in range(len(data)):
        try:
            state = (answer.ended, answer.finish_reason)
            if state[0] or state[1]:
                finished += 1
                assert text(tokens) == whole
            else:
                lost += 1
                with pytest.raises(PipeError, match=rf"lost in the middle of its answer, after {answer.tokens} tokens"):
                    answer.close()
                assert whole.startswith(text(tokens))
        finally:
            for event in decoder.feed(data[byte : byte + 1]):
                tokens += answer.feed(event)
    assert lost > finished > 0 or name.startswith("serve")
    assert text(tokens + answer.close()) == whole


@pytest.mark.parametrize("name", NAMES)
def test_split_at_every_byte_it_is_the_same(name: str) -> None:
    data = recorded(name)[-1500:]
    data = data[data.index(b"data: ") :]
    whole = read([data])[0]
    for at in range(1, len(data)):
        assert read([data[:at], data[at:]])[0] == whole
    assert read([data[at : at + 1] for at in range(len(data))])[0] == whole


def each_event(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    return b"".join(change(event) for event in re.findall(rb".*?\n\n", data, re.DOTALL))


def with_fields(event: bytes) -> bytes:
    if b"{" not in event:
        return event
    found = msgspec.json.decode(event.removeprefix(b"data: "))
    found |= {"p": "aaaa", "obfuscation": "x", "nvext": {"a": [1, None]}, "service_tier": None, "usage": None}
    for choice in found.get("choices", ()):
        choice |= {"logprobs": None, "content_filter_results": {}, "stop_reason": None}
        if "delta" in choice:
            choice["delta"] |= {"refusal": None, "tool_calls": None, "reasoning_content": None}
    return b"data: " + msgspec.json.encode(found) + b"\n\n"


EMPTY = b'data: {"id":"1","choices":[],"prompt_filter_results":[]}\n\n'
MUTATIONS: dict[str, Callable[[bytes], bytes]] = {
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "cr": lambda data: data.replace(b"\n", b"\r"),
    "bom": lambda data: b"\xef\xbb\xbf" + data,
    "keep-alives": lambda data: each_event(data, lambda event: b": ping\n\n: ping\n" + event),
    "extra fields": lambda data: each_event(data, with_fields),
    "empty choices": lambda data: each_event(data, lambda event: EMPTY + event) + EMPTY,
    "empty data": lambda data: each_event(data, lambda event: b"data:\n\n" + event + b"data: \n\n"),
    "messages": lambda data: each_event(
        data, lambda event: b'data: {"message":"queued"}\n\nevent: ping\ndata: {"type":"ping"}\n\n' + event
    ),
    "content in parts": lambda data: re.sub(
        rb'"content":("(?:[^"\\]|\\.)*")',
        rb'"content":[{"type":"thinking","thinking":"no"},{"type":"text","text":\1}]',
        data,
    ),
    "an empty delta beside a text": lambda data: data.replace(b'"text":"', b'"delta":{},"text":"'),
    "other choices": lambda data: each_event(
        data, lambda event: b'data: {"choices":[{"index":1,"text":"no","delta":{"content":"no"}}]}\n\n' + event
    ),
    "event names": lambda data: each_event(data, lambda event: b"event: message\nid: 7\nretry: 10\n" + event),
    "no space": lambda data: data.replace(b"data: ", b"data:"),
    "no [DONE]": lambda data: data.replace(b"data: [DONE]\n\n", b""),
    "only [DONE]": lambda data: re.sub(rb'"finish_reason":"\w+"', b'"finish_reason":null', data) + b"data: [DONE]\n\n",
    "more behind [DONE]": lambda data: data.replace(b"data: [DONE]\n\n", b"") + b"data: [DONE]\n\n" + sse("no"),
    "strange usage": lambda data: (
        data.replace(b"data: [DONE]\n\n", b"") + b'data: {"choices":[],"usage":{"a":"b"}}\n\n'
    ),
}


@pytest.mark.parametrize("change", MUTATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_what_other_servers_do_changes_nothing(name: str, change: str) -> None:
    data = recorded(name)
    changed = MUTATIONS[change](data)
    forms = ("content in parts", "an empty delta beside a text")  # of a chat, and of a completion
    assert changed != data or change in ("no [DONE]", *forms)
    assert text(read([changed])[0]) == text(read([data])[0])


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (b'data: {"error":{"message":"out of memory","type":"server_error","code":500}}', "out of memory"),
        (b'data: {"error":"out of memory"}', "out of memory"),
        (b'data: {"object":"error","message":"out of memory"}', "out of memory"),
        (b'event: error\ndata: {"message":"out of memory"}', "out of memory"),
        (b'event: error\ndata: {"choices":[],"x":"out of memory"}', "out of memory"),
        (b'data: {"detail":"out of memory"}', "out of memory"),
        (b'data: {"message":"out of memory","type":"BadRequestError"}', "out of memory"),
        (b'data: {"error_code":500,"object":"error","choices":null,"x":"out of memory"}', "out of memory"),
        (b"event: error\ndata:", "it said nothing"),
        (b'data: {"choices":[{"delta":{"content":7}}],"x":"out of memory"}', "out of memory"),
        (b'data: {"a":' + b"[" * 100_000, "a"),
        (b'data: "out of memory"', "out of memory"),
        (b"data: out of memory", "out of memory"),
        (b"data: <html>out of memory</html>", "out of memory"),
        (b'data: {"choices":[{"delta":{"content":"out of mem', "out of mem"),
        (b'data: {"choices":"out of memory"}', "out of memory"),
        (b"data: null", "None"),
        (b"data: []", "sent"),
        (b"data: 500", "500"),
    ],
)
@pytest.mark.parametrize("name", ["serve-chat", "vllm-chat"])
def test_an_error_in_the_middle_is_an_error_in_the_servers_words(name: str, event: bytes, words: str) -> None:
    events = re.findall(rb".*?\n\n", recorded(name), re.DOTALL)
    with pytest.raises(PipeError, match=rf"a server failed in the middle of its answer.*{words}") as caught:
        read([*events[:5], event + b"\n\n", *events[5:]])
    assert caught.value.retryable


def test_token_ids_that_are_none_are_no_ids() -> None:
    tokens, answer = read([b'data: {"choices":[{"token_ids":[null],"text":"a","finish_reason":"stop"}]}\n\n'])
    assert (text(tokens), answer.tokens, answer.by_ids) == ("a", 1, False)


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        *((word, "whole") for word in sorted(WHOLE)),
        *((word, "failed") for word in sorted(FAILED)),
        *((word, "cut") for word in ("length", "content_filter", "max_tokens", "a word of its own")),
        ("STOP", "whole"),
        ("ABORT", "failed"),
    ],
)
def test_o7_why_it_ended_says_whether_it_is_whole(reason: str, end: str) -> None:
    pieces = [sse("A ", "b", finish=reason)]
    if end == "failed":
        with pytest.raises(PipeError, match=f"gave its answer up after 2 tokens: .*{reason}") as caught:
            read(pieces)
        assert caught.value.retryable
        return
    tokens, answer = read(pieces)
    assert (text(tokens), answer.finish_reason, answer.cut) == ("A b", reason, end == "cut")


def test_neither_finish_reason_nor_done_is_a_lost_connection() -> None:
    with pytest.raises(PipeError, match="after 2 tokens: it sent neither a finish_reason nor"):
        read([sse("A ", "b", finish=None, done=False)])
    assert text(read([sse("A ", "b", finish=None)])[0]) == "A b"
    assert text(read([sse("A ", "b", done=False)])[0]) == "A b"
    with pytest.raises(PipeError, match="after 0 tokens"):
        read([])


@pytest.mark.parametrize("at", range(1, 12))
def test_stop_sequences_end_it_wherever_they_are_split(at: int) -> None:
    said = "one END two"
    tokens, answer = read([sse(said[:at], said[at:])], stop=("END",))
    assert text(tokens) == "one "
    assert answer.finish_reason == "stop"
    assert answer.ended


def test_text_with_the_finish_reason_counts() -> None:
    last = b'data: {"choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"stop"}]}\n\n'
    assert text(read([sse("Hi", finish=None, done=False), last])[0]) == "Hi!"


def test_the_usage_is_what_the_server_said() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n'
    _, answer = read([sse("a", "b", done=False), usage])
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, 2)


def test_a_request_has_what_was_given_and_nothing_else() -> None:
    body = msgspec.json.decode(payload("m", "Hello", system="Be kind", settings={"seed": 0, "top_p": None}))
    assert body == {
        "model": "m",
        "stream": True,
        "messages": [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Hello"}],
        "seed": 0,
    }
    assert msgspec.json.decode(payload("m", "Once", chat=False, settings={}))["prompt"] == "Once"
    with pytest.raises(UsageError, match="a request to a server cannot hold this"):
        payload("m", "Hello", settings={"extra": object()})


def test_error_words_are_short_whatever_the_server_sent() -> None:
    assert error_words("") == "it said nothing"
    assert error_words({"error": {"message": " much\n space "}}) == "much space"
    assert len(error_words("x" * 10_000)) == 300


def test_a_key_is_a_header_or_an_error_that_does_not_repeat_it() -> None:
    assert (bearer("sk-1"), bearer("")) == ("Bearer sk-1", "")
    for key in ("sk-1\n", "sk 1", "schl\u00fcssel", "sk\x7f", b"sk-1", None):
        with pytest.raises(UsageError, match=r"^the key holds something that an HTTP header cannot carry") as caught:
            bearer(key, "the key")  # type: ignore[arg-type]
        assert "sk" not in str(caught.value)
