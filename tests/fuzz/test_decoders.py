"""Whatever comes, the decoders give a message or say RemoteProtocolError; nothing else, at once, and nothing stays."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from multimodal import wire
from multimodal.bench.batch_load import resident_bytes
from multimodal.errors import RemoteProtocolError
from multimodal.transport.base import Inbound
from multimodal.transport.client import ViewerProtocol
from tests.fuzz.corpus import CLIENT, EVENTS, NASTY_PARTS, NASTY_TEXT, PARTS, SERVER
from tests.fuzz.mutator import SEED, Mutator, count

MESSAGES = count("MULTIMODAL_FUZZ", 100_000)
"""Spoilt messages in all; `make soak` asks for a million."""
HANG = 10.0
"""Seconds after which one message counts as a hang: a million times of what it takes, on a machine that is busy too."""
KEPT_BYTES = 8 * 2**20
"""Resident memory that may be more at the end: what an allocator keeps."""


def client(data: Any) -> None:
    message = wire.decode_client(data)
    assert wire.decode_client(wire.encode(message)) == message


def server(data: Any) -> None:
    message = wire.decode_server(data)
    if isinstance(message, wire.Bundle):
        again = "".join(wire.encode_bundle(message.events, 10**9))
        decoded = wire.decode_server(again or '{"type":"bundle","events":[]}')
        assert isinstance(decoded, wire.Bundle)
        assert decoded.events == message.events
    elif message is not None:
        assert wire.decode_server(wire.encode(message)) == message


def event(data: Any) -> None:
    made = wire.decode_event(data)
    if made is not None:
        assert wire.decode_event(wire.encode_event(made)) == made


def part(data: bytes) -> None:
    assert wire.encode_part(wire.decode_part(data)) == data


def viewer(data: Any) -> None:
    """The Python viewer's whole reading of a message, the places of its events included."""
    ViewerProtocol().receive(Inbound("events", data), 0.0)


def viewer_part(data: bytes) -> None:
    ViewerProtocol().receive(Inbound("images", data), 0.0)


class Fuzz:
    """Feeds one decoder and keeps what was slowest."""

    def __init__(self, decode: Callable[[Any], None]) -> None:
        self.decode = decode
        self.given = self.refused = 0
        self.slowest = 0.0

    def feed(self, data: str | bytes) -> None:
        said = ""
        began = time.perf_counter()
        try:
            self.decode(data)
        except RemoteProtocolError as error:
            self.refused += 1
            said = str(error)
        except Exception as error:
            pytest.fail(
                f"{self.decode.__name__} raised {type(error).__name__}: {str(error)[:200]}\nfor {data[:2000]!r}\n"
                f"message {self.given} of MULTIMODAL_FUZZ_SEED={SEED}; add it to tests/fuzz/corpus.py"
            )
        finally:
            self.given += 1
            took = time.perf_counter() - began
            self.slowest = max(self.slowest, took)
        assert len(said) < 1000, f"a refusal that repeats what it refuses: {data[:200]!r}"
        assert took < HANG, f"{self.decode.__name__} took {took:.1f} s for {data[:2000]!r}"


@pytest.mark.parametrize("decode", [client, server, event, viewer])
def test_the_known_offenders_are_refused_in_words(decode: Callable[[Any], None]) -> None:
    fuzz = Fuzz(decode)
    for data in NASTY_TEXT:
        fuzz.feed(data)
    assert fuzz.refused > len(NASTY_TEXT) / 2


@pytest.mark.parametrize("decode", [part, viewer_part])
def test_the_known_bad_parts_are_refused_in_words(decode: Callable[[Any], None]) -> None:
    fuzz = Fuzz(decode)
    for data in NASTY_PARTS:
        fuzz.feed(data)
    assert fuzz.refused > len(NASTY_PARTS) / 2


@pytest.mark.parametrize(
    ("decode", "seeds", "share"),
    [(client, CLIENT, 0.45), (server, SERVER, 0.1), (event, EVENTS, 0.1), (viewer, SERVER, 0.05), (part, None, 0.3)],
)
def test_random_and_spoilt_messages(
    decode: Callable[[Any], None], seeds: list[dict[str, Any]] | None, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    fuzz, mutator = Fuzz(decode), Mutator(SEED, seeds or CLIENT)
    number = int(MESSAGES * share)
    before = 0
    for place in range(number):
        fuzz.feed(mutator.part(PARTS) if seeds is None else mutator.message())
        if place == number // 10:
            gc.collect()
            before = resident_bytes()
    gc.collect()
    grown = resident_bytes() - before
    with capsys.disabled():
        print(
            f"\n{decode.__name__}: {fuzz.given} messages, {fuzz.refused} refused, the slowest "
            f"{fuzz.slowest * 1e3:.1f} ms, memory +{grown / 2**20:.1f} MB (seed {SEED})"
        )
    assert number / 10 < fuzz.refused < number, "a mutator that is too gentle, or too rough, tries nothing"
    assert grown < KEPT_BYTES


def test_what_a_message_takes_is_bounded_by_its_size() -> None:
    for decode, messages in ((wire.decode_client, NASTY_TEXT), (wire.decode_server, NASTY_TEXT)):
        for data in messages:
            tracemalloc.start()
            try:
                decode(data)
            except RemoteProtocolError:
                pass
            finally:
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            assert peak < 64 * len(data) + 64 * 1024, f"{peak} bytes for {data[:200]!r} of {len(data)}"


def test_the_same_seed_spoils_alike() -> None:
    first, second, other = (Mutator(seed, CLIENT) for seed in (1, 1, 2))
    made = [first.message() for _ in range(200)]
    assert made == [second.message() for _ in range(200)]
    assert made != [other.message() for _ in range(200)]
