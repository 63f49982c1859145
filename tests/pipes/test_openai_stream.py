"""What servers stream, recorded and spoilt: the same text, or an error that says what happened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.openai_request import bearer, payload
from multimodal.pipes.openai_stream import FAILED, WHOLE, AnswerStream, EmptyAnswerError
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
        if decoder.stray:
            answer.overhear(decoder.stray.decode())
    for event in decoder.finish():
        tokens += answer.last(event)
    if decoder.stray:
        answer.overhear(decoder.stray.decode())
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
                with pytest.raises(PipeError, match=rf"was lost {answer.place}"):
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
    "odd fields": lambda data: data.replace(b'"index":0', b'"p":NaN,"index":"0"').replace(
        b'"finish_reason":null', b'"finish_reason":false'
    ),
    "thoughts": lambda data: each_event(
        data,
        lambda event: b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":null}}]}\n\n' + event,
    ),
    "a whole message behind": lambda data: (
        data.replace(b"data: [DONE]\n\n", b"") + b'data: {"choices":[{"message":{"content":"all again"}}]}\n\n'
    ),
    "no last empty line": lambda data: data.removesuffix(b"\n"),
    "no last line's end": lambda data: data.removesuffix(b"\n\n"),
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
        (b'{"error":{"message":"out of memory"}}', "out of memory"),
        (b'{\n  "error": {\n    "message": "out of memory"\n  }\n}', "out of memory"),
        (b'data: {"error":"\\u001b[2Jout of memory"}', r"\\x1b\[2Jout of memory"),
        (b'{"error":{"message":"\x1b[31mout of memory"}}', r"tokens: \\x1b\[31mout of memory"),
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
    with pytest.raises(PipeError, match=rf"a server failed before its first token: .*{words.removeprefix('tokens: ')}"):
        read([event + b"\n\n"])


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
    with pytest.raises(PipeError, match="was lost before its first token: it sent neither"):
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


def test_a_key_is_a_header_or_an_error_that_does_not_repeat_it() -> None:
    assert (bearer("sk-1"), bearer("")) == ("Bearer sk-1", "")
    for key in ("sk-1\n", "sk 1", "schl\u00fcssel", "sk\x7f", b"sk-1", None):
        with pytest.raises(UsageError, match=r"^the key holds something that an HTTP header cannot carry") as caught:
            bearer(key, "the key")  # type: ignore[arg-type]
        assert "sk" not in str(caught.value)


def chunk(**choice: object) -> bytes:
    return b"data: " + msgspec.json.encode({"choices": [choice]}) + b"\n\n"


def delta(raw: str) -> bytes:
    """A delta whose content is this, as JSON writes it."""
    return f'data: {{"choices":[{{"index":0,"delta":{{"content":"{raw}"}}}}]}}\n\n'.encode()


END = chunk(finish_reason="stop")
HIGH, LOW = "\\ud83e", "\\uded6"


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([f"a{HIGH}", f"{LOW}b"], "a🫖b"),
        ([HIGH, LOW], "🫖"),
        ([HIGH, "", LOW], "🫖"),
        ([f"{HIGH}{LOW}", f"{LOW}"], "🫖\ufffd"),
        ([f"a{HIGH}", "b"], "a\ufffdb"),
        ([f"a{HIGH}", f"{HIGH}{LOW}"], "a\ufffd🫖"),
        ([f"a{HIGH}"], "a\ufffd"),
        ([f"{LOW}a"], "\ufffda"),
    ],
)
def test_o10_halves_of_a_surrogate_pair_are_joined_and_one_alone_is_replaced(pieces: list[str], said: str) -> None:
    tokens, answer = read([*map(delta, pieces), END])
    assert text(tokens) == said
    assert answer.tokens == len([piece for piece in pieces if piece])


@pytest.mark.parametrize("at", range(1, 30))
def test_o8_thoughts_in_the_content_are_no_text_wherever_they_are_split(at: int) -> None:
    said = "<think>Let me END see.</think>\n\nIt is blue."
    tokens, answer = read([sse(said[:at], said[at:])], stop=("END",))
    assert text(tokens) == "It is blue."
    assert (answer.finish_reason, answer.cut, answer.thoughts > 0) == ("stop", False, True)
    assert answer.tokens == len(tokens) == 1


def test_o8_a_completion_says_what_it_says() -> None:
    answer = AnswerStream("a server", chat=False)
    tokens = [token for event in SSEDecoder().feed(sse("<think>a</think>b")) for token in answer.feed(event)]
    assert text(tokens) == "<think>a</think>b"


def test_o8_tokens_by_id_keep_their_count_where_a_tag_was_feared() -> None:
    pieces = [chunk(index=0, delta={"content": each}, token_ids=[1, 2]) for each in ("a", "<", "b", "c<th")]
    tokens, answer = read([*pieces, END])
    assert text(tokens) == "a<bc<th"
    assert answer.tokens == 8


def test_o8_a_thought_that_never_began_is_an_error() -> None:
    with pytest.raises(PipeError, match="after 1 tokens: it sent what its model thinks as its answer"):
        read([sse("I think. ", "So</think>", "Yes.")])
    assert text(read([sse("</think>", "Yes.")])[0]) == "Yes."


def test_o8_a_thought_without_an_end_cuts_the_answer() -> None:
    tokens, answer = read([sse("Yes. ", "<think>But")])
    assert (text(tokens), answer.cut) == ("Yes. ", True)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"data: [DONE]\n\n", "'stop'.*: nothing came that could be said"),
        (sse(), "nothing came"),
        (sse(" ", "\n"), "nothing came"),
        (chunk(delta={"tool_calls": [{"id": "1"}]}) + chunk(finish_reason="tool_calls"), "'tool_calls'.*called a tool"),
        (chunk(delta={"function_call": {"name": "a"}}, finish_reason="function_call"), "called a tool"),
        (chunk(delta={"refusal": "I "}) + chunk(delta={"refusal": "can't\x1b."}) + END, r"refused: I can't\\x1b\."),
        (chunk(message={"refusal": "No."}, finish_reason="stop"), "refused: No"),
        (chunk(delta={"reasoning_content": "hm"}) + chunk(finish_reason="length"), "'length'.*only thought"),
        (chunk(delta={"reasoning": "hm"}) + END, "only thought"),
        (chunk(delta={"content": [{"type": "thinking", "thinking": "hm"}]}) + END, "only thought"),
        (sse("<think>", "hm"), "only thought"),
        (sse("<think>hm</think>", "\n\n"), "only thought"),
        (sse("EN", "D", "more"), "nothing came"),
    ],
)
def test_o9_an_answer_without_text_is_an_error_that_says_what_came(data: bytes, words: str) -> None:
    with pytest.raises(EmptyAnswerError, match=rf"^a server ended its answer without any text .*{words}"):
        read([data], stop=("END",))


def test_o2_a_whole_message_is_taken_once() -> None:
    assert text(read([chunk(message={"role": "assistant", "content": "Hi"}, finish_reason="stop")])[0]) == "Hi"
    again = chunk(message={"content": "Hi"}, finish_reason="stop")
    assert text(read([sse("Hi", finish=None, done=False), again])[0]) == "Hi"


def test_o5_a_last_event_counts_where_it_is_whole() -> None:
    begun = sse("Hi", finish=None, done=False)
    last = chunk(index=0, delta={"content": "!"}, finish_reason="stop").rstrip()
    assert text(read([begun, last])[0]) == "Hi!"
    for cut in range(1, len(last)):
        with pytest.raises(PipeError, match="in the middle of its answer, after 1 tokens"):
            read([begun, last[:cut]])
    with pytest.raises(PipeError, match=r"lost .*, but this: {\"error\": {\"mes$"):
        read([begun, b'{"error": {"mes'])
    with pytest.raises(PipeError, match="after 1 tokens: out of memory"):
        read([begun, b'{"error": "out of memory"}'])


def test_text_beside_a_failure_comes_before_it() -> None:
    answer = AnswerStream("a server")
    (event,) = SSEDecoder().feed(chunk(delta={"content": "Hi"}, finish_reason="error"))
    assert text(answer.feed(event)) == "Hi"
    assert not answer.ended
    with pytest.raises(PipeError, match="gave its answer up after 1 tokens"):
        answer.close()


def test_what_a_stop_sequence_held_is_given_before_a_failure() -> None:
    answer = AnswerStream("a server", ["<END>"])
    (_, event) = SSEDecoder().feed(sse("Hi <EN", finish=None, done=False))
    assert text(answer.feed(event)) == "Hi "
    assert text(answer.give_up()) == "<EN"
    assert answer.give_up() == []
