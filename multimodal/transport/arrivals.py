"""The pictures of one viewer: put together from parts or fetched, verified, held, and asked for again. Pure.

Rules V4, V8, V9 and V11 of `transport.client`, which says the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from multimodal import wire
from multimodal.errors import RemoteProtocolError
from multimodal.events import AssetReserved
from multimodal.transport.assembly import RESEND_AFTER, RESEND_LIMIT, Assembly

__all__ = ["HELD_BYTES", "PENDING_BYTES", "Arrivals", "Picture"]

PENDING_BYTES = 32 * 1024 * 1024
"""Bytes of unfinished pictures that are kept; more is the server's fault."""
HELD_BYTES = 64 * 1024 * 1024
"""Bytes of whole pictures kept, so that a new connection need not bring them again; the oldest go first."""
_SPOILT_LIMIT = 4 * RESEND_LIMIT
"""Spoilt parts of one picture that are asked for again, before the whole of it is."""


@dataclass(frozen=True)
class Picture:
    """A picture arrived whole."""

    key: str
    data: bytes


class Arrivals:
    """What came of which picture.

    Args:
        held: the bytes of pictures from earlier tours.
    """

    def __init__(self, held: Iterable[bytes] = ()) -> None:
        by_hash = [(hashlib.sha256(data).hexdigest(), data) for data in held]
        self._held = dict(by_hash[-wire.HAVE_LIMIT :])
        self._held_bytes = sum(len(data) for data in self._held.values())
        self._sha256: dict[str, str] = {}
        self._waiting: dict[str, None] = {}
        self._assemblies: dict[str, Assembly] = {}
        self._whole: dict[str, bytes] = {}
        self._stale: set[str] = set()
        self._asked_whole: set[str] = set()
        self._said: list[wire.Resend | wire.Need | wire.Ready] = []

    def connect(self, now: float, *, by_url: bool) -> tuple[str, ...]:
        """A connection begins; gives what its hello says to have (V8, V9)."""
        self._stale.update(self._assemblies)
        self._parts_at = now
        self._by_url = by_url
        self._fetching: set[str] = set()
        return tuple(digest[: wire.HAVE_CHARS] for digest in self._held)[-wire.HAVE_LIMIT :]

    def reserve(self, asset: AssetReserved, *, again: bool = False) -> None:
        """A picture was described.

        Args:
            asset: its description.
            again: a picture that is whole arrives once more where it was described before (V8).
        """
        if not asset.variants or asset.variants[0].url is not None:
            return
        digest = asset.variants[0].sha256
        if self._sha256.get(asset.key) == digest and asset.key not in self._waiting and not again:
            return
        self._sha256[asset.key] = digest
        self._waiting[asset.key] = None
        if digest in self._held:
            self._whole[asset.key] = self._held[digest]

    def described(self) -> list[Picture]:
        """Pictures that were whole before their description came."""
        keys = [key for key in self._whole if key in self._sha256]
        return [picture for key in keys for picture in self._verified(key, self._whole.pop(key))]

    def part(self, data: bytes, now: float) -> tuple[int, list[Picture]]:
        """A part: its payload's bytes, and the picture that it completes.

        Raises:
            RemoteProtocolError: malformed, or of a picture that changed its size, or too much of unfinished ones.
        """
        self._parts_at = now
        try:
            part = wire.decode_part(data)
        except wire.SpoiltPart as spoilt:
            self._spoilt(spoilt, now)
            return spoilt.size_bytes, []
        assembly = self._assembly(part.key, part.total, now)
        if not assembly.add(part.offset, part.payload, now):
            return len(part.payload), []
        self._forget(part.key)
        whole = bytes(assembly.data)
        if part.key in self._sha256:
            return len(part.payload), self._verified(part.key, whole)
        # The two channels are not ordered against each other: the asset may still be on its way (V4).
        self._whole[part.key] = whole
        return len(part.payload), []

    def wanted(self) -> list[tuple[str, str]]:
        """Key and SHA-256 of the pictures that have to be fetched; each is named once a connection."""
        if not self._by_url:
            return []
        keys = [key for key in self._waiting if key not in self._fetching]
        self._fetching.update(keys)
        return [(key, self._sha256[key]) for key in keys]

    def fetched(self, key: str, data: bytes) -> list[Picture]:
        """The bytes of a wanted picture, as they came by its URL."""
        return self._verified(key, data)

    def said(self) -> list[wire.Resend | wire.Need | wire.Ready]:
        """What is to be said to the server; each is given once."""
        said, self._said = self._said, []
        return said

    def next_timer(self) -> float | None:
        """When `handle_timer` has something to do."""
        return min((assembly.due() for assembly in self._assemblies.values()), default=None)

    def handle_timer(self, now: float) -> None:
        """Ask for what is missing when it is due (V11)."""
        for key, assembly in list(self._assemblies.items()):
            if now < assembly.due():
                continue
            holes = assembly.ask(now, tail=now - self._parts_at >= RESEND_AFTER)
            if assembly.asked > RESEND_LIMIT:
                self._need(key)
            elif holes:
                self._said.append(wire.Resend(key, tuple(holes[: wire.RANGES_LIMIT])))

    def _assembly(self, key: str, total: int, now: float) -> Assembly:
        assembly = self._assemblies.get(key)
        if assembly is not None and total != len(assembly.data):
            if key not in self._stale:
                raise RemoteProtocolError(f"picture {key!r} changed its size to {total} bytes")
            # Begun on another connection, to a server that was started again and encodes anew.
            self._forget(key)
            assembly = None
        if assembly is None:
            if self._pending_bytes() + total > PENDING_BYTES:
                for other in tuple(self._stale):
                    self._forget(other)
            if self._pending_bytes() + total > PENDING_BYTES:
                raise RemoteProtocolError(f"more than {PENDING_BYTES} bytes of unfinished pictures")
            assembly = self._assemblies[key] = Assembly(total, now)
        return assembly

    def _pending_bytes(self) -> int:
        begun = sum(len(assembly.data) for assembly in self._assemblies.values())
        return begun + sum(len(whole) for whole in self._whole.values())

    def _forget(self, key: str) -> None:
        self._assemblies.pop(key, None)
        self._stale.discard(key)

    def _spoilt(self, part: wire.SpoiltPart, now: float) -> None:
        # Nothing vouches for the header either: what names no picture of ours is left to the other ways of V11.
        if part.key not in self._waiting or part.key in self._asked_whole:
            return
        assembly = self._assembly(part.key, part.total, now)
        assembly.asked += 1
        if assembly.asked > _SPOILT_LIMIT:
            self._need(part.key)
        else:
            self._said.append(wire.Resend(part.key, ((part.offset, part.offset + part.size_bytes),)))

    def _need(self, key: str) -> None:
        """Ask for the whole of a picture, once; the second time it is given up (V11)."""
        self._forget(key)
        if key in self._asked_whole:
            self._waiting.pop(key, None)
            self._said.append(wire.Ready(key, False, "the bytes that came are not the picture's"))
            return
        self._asked_whole.add(key)
        if self._by_url:
            self._fetching.discard(key)
        else:
            self._said.append(wire.Need(key))

    def _verified(self, key: str, data: bytes) -> list[Picture]:
        if key not in self._waiting:
            return []
        digest = self._sha256[key]
        if hashlib.sha256(data).hexdigest() != digest:
            self._need(key)
            return []
        del self._waiting[key]
        if digest not in self._held:
            self._held[digest] = data
            self._held_bytes += len(data)
            while self._held_bytes > HELD_BYTES:
                self._held_bytes -= len(self._held.pop(next(iter(self._held))))
        return [Picture(key, data)]
