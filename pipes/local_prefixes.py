"""Prompts that were read are not read again: keys and values of finished rows, found by their token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from multimodal.pipes.local_kv import RowKV
from multimodal.pipes.local_quantum import QUANTUM
from multimodal.pipes.pool import BytePool

__all__ = ["LEAST_TOKENS", "Prefixes", "shared_tokens"]

LEAST_TOKENS = 16
"""A prefix below this costs about as much to look up, copy and hold as to read."""

_Ids = npt.NDArray[np.int64]


class Prefixes:
    """Kept prefixes in a pool bounded in bytes.

    What is found depends on the token ids alone: whoever has the same prompt gets the same keys, and nobody gets those
    of another prompt.

    Args:
        pool: where they are kept; also what running rows reserve their room in.
    """

    def __init__(self, pool: BytePool[tuple[int, ...], RowKV]) -> None:
        self.pool = pool
        self._ids: dict[tuple[int, ...], _Ids] = {}
        pool.on_evict = self._gone

    def find(
        self, prompt: Sequence[int], running: Iterable[tuple[Sequence[int], RowKV]] = ()
    ) -> tuple[RowKV, int] | None:
        """The keys and values with most of this prompt's beginning, and how many positions of them to take.

        The last token of a prompt is always read, for its logits, and positions are taken in whole quanta, so that the
        rest is read in the same pieces as without.

        Args:
            prompt: its token ids.
            running: rows that run now: their ids and what they hold; their own prefix counts as kept.
        """
        wanted = np.asarray(prompt, np.int64)
        best: RowKV | None = None
        most, kept = 0, None
        for key, ids in self._ids.items():
            shared = _shared(wanted, ids)
            if shared > most:
                most, kept = shared, key
        for beside, kv in running:
            shared = _shared(wanted, np.asarray(beside[: kv.length], np.int64))
            if shared > most:
                most, best, kept = shared, kv, None
        most = _usable(most, len(prompt))
        if not most:
            return None
        if kept is not None:
            best = self.pool.get(kept)
        return None if best is None else (best, most)

    def keep(self, ids: Sequence[int], kv: RowKV) -> None:
        """A row ended; what it held is kept, and what it makes superfluous is given up."""
        if kv.length < LEAST_TOKENS:
            return
        key = tuple(ids[: kv.length])
        mine = np.asarray(key, np.int64)
        for other, theirs in list(self._ids.items()):
            shared = _shared(mine, theirs)
            if shared == len(key):
                self.pool.get(other)  # held already, and longer: it counts as used
                return
            if shared == len(other):
                self.pool.remove(other)
                self._ids.pop(other, None)
        self._ids[key] = mine
        for gone, value in self.pool.put(key, kv, kv.bytes):
            self._gone(gone, value)

    def clear(self) -> None:
        """Give up everything."""
        for key in list(self._ids):
            self.pool.remove(key)
        self._ids.clear()

    def _gone(self, key: tuple[int, ...], value: RowKV) -> None:
        self._ids.pop(key, None)


def shared_tokens(prompt: Sequence[int], ids: Sequence[int]) -> int:
    """How many positions of another row a prompt could take over; 0 = too few to be worth it."""
    return _usable(_shared(np.asarray(prompt, np.int64), np.asarray(ids, np.int64)), len(prompt))


def _usable(shared: int, length: int) -> int:
    whole = min(shared, length - 1) // QUANTUM * QUANTUM
    return whole if whole >= LEAST_TOKENS else 0


def _shared(a: _Ids, b: _Ids) -> int:
    """How many ids two rows have in common from the beginning."""
    count = min(len(a), len(b))
    different = np.flatnonzero(a[:count] != b[:count])
    return int(different[0]) if len(different) else count
