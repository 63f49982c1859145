"""Everything else that reads what others wrote: the journal's snapshot, seats, tokens, and a stream of events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec
import pytest

from multimodal.errors import JournalError, RemoteProtocolError
from multimodal.events import AnyEvent
from multimodal.serving.auth import Tokens, bearer
from multimodal.serving.seats import Seats
from multimodal.serving.signalling import Problem
from multimodal.sse_reader import SSEDecoder
from multimodal.transport.fold import Fold, State
from multimodal.wire import decode_event
from tests.fuzz.corpus import EVENTS, NASTY_TEXT
from tests.fuzz.mutator import SEED, Mutator, count

MESSAGES = count("MULTIMODAL_FUZZ", 100_000) // 20
"""Spoilt inputs for each."""
SECRET = "a secret of tests, as long as it has to be"
NOW = 1_800_000_000.0


def spoilt(good: Iterable[bytes]) -> Iterable[bytes]:
    """The known offenders, then the good ones with bytes cut, doubled, replaced, added."""
    yield from (data if isinstance(data, bytes) else data.encode(errors="surrogatepass") for data in NASTY_TEXT)
    mutator, every = Mutator(SEED), list(good)
    for _ in range(MESSAGES):
        yield mutator.edited(mutator.rng.choice(every))


def fails_only_with(errors: type[Exception], read: Callable[[bytes], object], good: Iterable[bytes]) -> int:
    """Feed everything; how many were refused."""
    refused = 0
    for data in spoilt(good):
        said = ""
        try:
            read(data)
        except errors as error:
            refused += 1
            said = str(error)
        except Exception as error:
            pytest.fail(
                f"{type(error).__name__}: {str(error)[:200]}\nfor {data[:1000]!r} (MULTIMODAL_FUZZ_SEED={SEED})"
            )
        assert len(said) < 1000, f"a refusal that repeats what it refuses: {data[:200]!r}"
    return refused


def test_the_snapshot_of_a_journal() -> None:
    fold = Fold()
    events: list[AnyEvent] = [
        event for each in EVENTS[:8] if (event := decode_event(msgspec.json.encode(each))) is not None
    ]
    fold.feed(events)
    refused = fails_only_with(JournalError, State.decode, [fold.state(0).encode()])
    assert refused > MESSAGES / 2


def test_seats() -> None:
    seats = Seats(SECRET)
    tokens = Tokens(SECRET)
    grant = tokens.check(tokens.issue(tour="demo", now=NOW), tour="demo", now=NOW)
    good = seats.issue(grant, tour="demo", session="abc", now=NOW).id

    def read(data: bytes) -> None:
        text = data.decode("latin-1")
        assert seats.read(text, tour="demo", now=NOW).id == text == good

    fails_only_with(Problem, read, [good.encode()])


def test_tokens() -> None:
    tokens = Tokens(SECRET)
    good = tokens.issue(tour="demo", now=NOW)
    grant = tokens.check(good, tour="demo", now=NOW)

    def read(data: bytes) -> None:
        text = bearer("Bearer " + data.decode("latin-1"))
        # The bits that base64 leaves unused may differ; who is let in, and as whom, may not.
        assert tokens.check(text, tour="demo", now=NOW) == grant

    fails_only_with(Problem, read, [good.encode()])


def test_a_stream_of_events() -> None:
    good = b'id: 7\r\nevent: message\ndata: {"type":"tick"}\n\n: alive\n\nretry: 100\ndata: a\ndata: b\r\r'

    def read(data: bytes) -> None:
        whole, split = SSEDecoder(limit_bytes=2000), SSEDecoder(limit_bytes=2000)
        events = whole.feed(data)
        assert [event for place in range(len(data)) for event in split.feed(data[place : place + 1])] == events

    fails_only_with(RemoteProtocolError, read, [good])


def test_it_takes_no_time() -> None:
    tokens, began = Tokens(SECRET), time.perf_counter()
    for token in ("x" * 10**6, "." * 10**6, "a.b." + "c" * 10**6):
        with pytest.raises(Problem):
            tokens.check(token, tour="demo", now=NOW)
    assert time.perf_counter() - began < 5.0
