"""Whether every event came, once and in its turn, by the `seq` numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from multimodal.sync.log import SyncLog
from multimodal.sync.report import Vantage

__all__ = ["Order", "order_of", "orders"]


class Order(msgspec.Struct, frozen=True):
    """What a sequence of `seq` numbers lacks: the lost, the doubled and those that come after a higher one."""

    lost: tuple[int, ...] = ()
    duplicated: tuple[int, ...] = ()
    out_of_order: tuple[int, ...] = ()


def order_of(seqs: Sequence[int], expected: Iterable[int]) -> Order:
    """Compare `seq` numbers as they came with those that were to come."""
    seen: set[int] = set()
    duplicated, disordered = [], []
    highest = -1
    for seq in seqs:
        if seq in seen:
            duplicated.append(seq)
            continue
        seen.add(seq)
        if seq < highest:
            disordered.append(seq)
        highest = max(highest, seq)
    return Order(tuple(seq for seq in expected if seq not in seen), tuple(duplicated), tuple(disordered))


def orders(log: SyncLog) -> dict[Vantage, Order]:
    """The order of the emitted `seq` and, where arrivals are recorded, of theirs."""
    sent = [event.seq for event in log.events]
    known = {*sent, *log.skipped}
    gaps = order_of(sent, (seq for seq in range(max(known, default=-1) + 1) if seq not in log.skipped))
    found: dict[Vantage, Order] = {"emitted": gaps}
    if log.arrived:
        found["arrived"] = order_of([item.seq for item in log.arrived], sorted(known))
    return found
