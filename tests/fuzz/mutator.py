"""Spoils messages: half of them by the grammar, so that they come far, the rest byte by byte. The same seed, the same
messages."""

from __future__ import annotations

import copy
import json
import os
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from tests.fuzz.corpus import DEPTH, VALUES

__all__ = ["SEED", "Mutator", "count"]

SEED = int(os.environ.get("MULTIMODAL_FUZZ_SEED", "20261130"))
"""Another one tries other messages; a failure prints it."""

_TOKENS = ("{", "}", "[", "]", ":", ",", '"', "\\", "\\u", "\\ud800", "null", "1e999", "-", "\x00", "\ud800", "é", "//")
_KEYS = ("type", "kind", "v", "seq", "key", "events", "ranges", "x", "")


def count(name: str, usual: int) -> int:
    """How many: the environment's word, or the usual number."""
    return int(os.environ.get(name, usual))


class Mutator:
    """Endless messages, all of one seed.

    Args:
        seed: an int, so that seeding is cheap.
        seeds: real messages to begin with.
    """

    def __init__(self, seed: int, seeds: Sequence[dict[str, Any]] = ()) -> None:
        self.rng = random.Random(seed)
        self._texts = [json.dumps(message) for message in seeds]
        self._tags = sorted({str(message.get("type", message.get("kind"))) for message in seeds})
        self._ways: tuple[Callable[[], str | bytes], ...] = (
            self._by_field,
            self._by_field,
            self._by_field,
            self._by_text,
            self._by_text,
            self._by_bytes,
            self._raw,
        )

    def message(self) -> str | bytes:
        """A spoilt message, or by chance a good one."""
        made = self.rng.choice(self._ways)()
        if self.rng.random() < 0.3:
            return made.encode(errors="surrogatepass") if isinstance(made, str) else made.decode("latin-1")
        return made

    def part(self, parts: Sequence[bytes]) -> bytes:
        """A spoilt picture part; half of the spoilt ones have the checksum of what they carry."""
        rng = self.rng
        data = bytearray(rng.choice(parts))
        way = rng.randrange(5)
        if way == 0:
            data = bytearray(self._edited(bytes(data)))
        elif way == 1:
            at, size = rng.choice([(0, 1), (1, 1), (2, 2), (4, 4), (8, 4), (12, 4)])
            data[at : at + size] = rng.randrange(256**size).to_bytes(size, "big")
        elif way == 2:
            del data[rng.randrange(len(data) + 1) :]
        elif way == 3:
            data[16 : 16 + rng.randrange(20)] = rng.randbytes(rng.randrange(20))
        else:
            return rng.randbytes(rng.randrange(64))
        if rng.random() < 0.5 and len(data) >= 16:
            (key,) = struct.unpack_from(">H", data, 2)
            struct.pack_into(">I", data, 12, zlib.crc32(data[16 + key :]))
        return bytes(data)

    def edited(self, data: bytes) -> bytes:
        """Any bytes with some of them cut, doubled, replaced or added."""
        for _ in range(self.rng.randrange(1, 4)):
            data = self._edited(data)
        return data

    def value(self) -> Any:
        """Anything that JSON can hold."""
        chance = self.rng.random()
        if chance < 0.003:
            return _nested(DEPTH // 4)
        if chance < 0.006:
            return "x" * self.rng.choice((60_000, 65_536, 300_000))
        return copy.deepcopy(self.rng.choice(VALUES))

    def _by_field(self) -> str:
        rng = self.rng
        message = json.loads(rng.choice(self._texts))
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            place: Any = message
            while True:
                names = list(place) if isinstance(place, dict) else list(range(len(place)))
                if not names:
                    break
                name = rng.choice(names)
                inner = place[name]
                if isinstance(inner, dict | list) and inner and rng.random() < 0.6:
                    place = inner
                    continue
                self._spoil(place, name)
                break
        return json.dumps(message, ensure_ascii=rng.random() < 0.5)

    def _spoil(self, place: Any, name: Any) -> None:
        rng = self.rng
        way = rng.randrange(8)
        if way < 4:
            place[name] = self.value()
        elif way == 4:
            del place[name]
        elif isinstance(place, list):
            place.insert(name, place[name])
        elif way == 5:
            place[rng.choice(_KEYS)] = self.value()
        elif way == 6:
            place[rng.choice(_KEYS)] = place.pop(name)
        else:
            place["type" if "type" in place else "kind"] = rng.choice(self._tags)

    def _by_text(self) -> str:
        rng = self.rng
        text = rng.choice(self._texts)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text) + 1)
            to = min(len(text), at + rng.randrange(12))
            way = rng.randrange(6)
            if way == 0:
                text = text[:at] + text[to:]
            elif way == 1:
                text = text[:to] + text[at:]
            elif way == 2:
                text = text[:at] + rng.choice(_TOKENS) + text[at:]
            elif way == 3:
                text = text[:at] + rng.choice(_TOKENS) + text[to:]
            elif way == 4:
                text = text[:at]
            else:
                text = text[:at] + rng.choice(self._texts)[at:]
        return text

    def _by_bytes(self) -> bytes:
        return self.edited(self.rng.choice(self._texts).encode())

    def _raw(self) -> bytes:
        return self.rng.randbytes(self.rng.randrange(48))

    def _edited(self, data: bytes) -> bytes:
        rng = self.rng
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.randrange(1, 16))
        way = rng.randrange(4)
        if way == 0:
            return data[:at] + data[to:]
        if way == 1:
            return data[:to] + data[at:]
        if way == 2:
            return data[:at] + rng.randbytes(to - at) + data[to:]
        return data[:at] + bytes([rng.randrange(256)]) + data[at:]


def _nested(depth: int) -> Any:
    made: Any = 0
    for place in range(depth):
        made = [made] if place % 2 else {"a": made}
    return made
