"""Sessions that register callbacks of every kind on real processors and go away, and what is left of them."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import threading
import time
import weakref
from collections import Counter
from typing import Any

import msgspec

from multimodal.bench.batch_load import resident_bytes
from multimodal.pipes.callbacks import Handle
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.script_engine import ScriptEngine
from multimodal.sync.virtual import VirtualClock

__all__ = ["Left", "churn"]

TOKENS = 12
BATCH = 100
"""Sessions between two looks at the memory; what they emitted is delivered by then."""
DELIVERY_LIMIT = 30.0
"""Seconds that events may take to their callbacks."""


class Left(msgspec.Struct):
    """What is left.

    Args:
        ours: objects of this package, by class, beyond those that were there after the first sessions.
        theirs: objects of the sessions' applications.
        registered, expired: callbacks of the processor that stayed: alive, and gone with their object or owner.
        missing: events that callbacks did not get that were there to the end.
        delivered: calls of callbacks that were counted.
        threads: beyond those of the beginning.
        growth_mib: of the resident memory, from a tenth of the sessions to the end, along the line of least squares.
        resident_mib: at the beginning, after a tenth, and at the end.
    """

    ours: dict[str, int]
    theirs: int
    registered: int
    expired: int
    missing: int
    delivered: int
    threads: int
    growth_mib: float
    resident_mib: tuple[float, float, float]


class Screen:
    """An application's object, large enough that a leak shows."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.large = bytearray(64 * 1024)

    def show(self, event: object) -> None:
        """A bound method."""
        self.seen.append(event)

    def show_as(self, how: str, event: object) -> None:
        """For partials."""
        self.seen.append((how, event))

    async def show_soon(self, event: object) -> None:
        """A coroutine function."""
        self.seen.append(event)


def churn(sessions: int, tokenizer: Any) -> Left:
    """Run so many sessions, one after the other; half of them on a processor of their own."""
    logging.getLogger("multimodal.pipes.callback_entry").setLevel(logging.CRITICAL)
    run = _Churn(tokenizer)
    before = _threads()
    first = resident_bytes()
    with VirtualClock() as clock:
        clock.run(run.play(sessions))
    return run.left(first, before)


class _Churn:
    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.ids = tokenizer.encode("let us look at the kettle and the lamp and the stool, and then at the bowl").ids[
            :TOKENS
        ]
        self.engine = ScriptEngine(self.ids, gap=0.001)
        self.stays = StreamProcessor(self.engine, tokenizer, chunk_size=1, priority_threshold=0.0)
        self.screens: weakref.WeakSet[Screen] = weakref.WeakSet()
        self.resident: list[int] = []
        self.counted: Counter[str] = Counter()
        self.missing = self.delivered = 0

    async def play(self, sessions: int) -> None:
        for number in range(sessions):
            await self._session(number)
            if number % BATCH == BATCH - 1:
                await self._settle()
                self.resident.append(resident_bytes())
            if number == max(BATCH, sessions // 10) - 1:
                self.engine.requests.clear()
                self.counted = _ours()

    def left(self, first: int, threads: int) -> Left:
        self.engine.requests.clear()  # kept for assertions, a thousand of them at most
        gc.collect()
        stats = self.stays.metrics.callbacks  # which also forgets those that are gone
        self.stays.close()
        ours = _ours()
        ours.subtract(self.counted)
        early = max(1, len(self.resident) // 10)
        line = self.resident[early - 1 :]
        end = time.monotonic() + DELIVERY_LIMIT
        while _threads() > threads and time.monotonic() < end:
            time.sleep(0.05)  # the callbacks' thread lingers for what may come
        return Left(
            ours={name: count for name, count in ours.items() if count > 0},
            theirs=len(self.screens),
            registered=stats.registered,
            expired=stats.expired,
            missing=self.missing,
            delivered=self.delivered,
            threads=max(0, _threads() - threads),
            growth_mib=max(0.0, _slope(line) * (len(line) - 1)) / 2**20,
            resident_mib=(first / 2**20, line[0] / 2**20, line[-1] / 2**20),
        )

    async def _session(self, number: int) -> None:
        own = number % 2 == 0
        processor = self.stays
        if own:
            processor = StreamProcessor(self.engine, self.tokenizer, chunk_size=1, priority_threshold=0.0)
        screen, other, list_ = Screen(), Screen(), list[Any]()
        self.screens.update((screen, other))
        held: list[Handle] = [
            processor.register_callback("update", screen.show),
            processor.register_callback("update", functools.partial(screen.show_as, "large")),
            processor.register_callback("update", screen.show_soon),
            processor.register_callback("stage_change", lambda event: screen.show(event), owner=screen),
        ]
        # These have nobody who holds them: on a processor that stays they stay until their handle is removed, or take
        # an owner.
        loose: list[Handle] = []
        for kind in (lambda event: other.show(event), functools.partial(_keep, other), list_.append, _raise):
            owner = other if not own and number % 4 == 1 else None
            loose.append(processor.register_callback("update", kind, owner=owner))
        pipe = processor.prompt([{"role": "user", "content": "Hello!"}], max_new_tokens=TOKENS)
        said = [token async for token in pipe]
        assert len(said) == TOKENS
        if own and number % 4 == 0:
            processor.close()
        elif not own and number % 4 == 3:
            for handle in loose:
                handle.remove()
        if number % BATCH == 0:
            await self._settle(processor)
            self.missing += TOKENS - sum(update.token_count for update in list_)
            self.delivered += len(list_) + len(screen.seen) + len(other.seen)
        del held, loose

    async def _settle(self, processor: StreamProcessor | None = None) -> None:
        """Until what was emitted is delivered: callbacks run in a thread, and coroutine functions here."""
        end = time.monotonic() + DELIVERY_LIMIT
        for each in (self.stays, processor):
            # Polled, because the clock is virtual and the callbacks' thread is not: the loop cannot wait for it.
            while each is not None and time.monotonic() < end:
                if each._callbacks._tally.wait_idle(0.001):
                    break
                await asyncio.sleep(0)


def _keep(screen: Screen, event: object) -> None:
    screen.seen.append(event)


def _raise(event: object) -> None:
    raise ValueError("what an application's callback may do")


def _ours() -> Counter[str]:
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    # Not every class says its module in words: some describe it.
    names = [f"{kind.__module__}.{kind.__name__}" for kind in kinds if isinstance(kind.__module__, str)]
    return Counter(name for name in names if name.startswith("multimodal.pipes"))


def _threads() -> int:
    return threading.active_count()


def _slope(values: list[int]) -> float:
    """Bytes from one look at the memory to the next, by least squares."""
    count = len(values)
    if count < 2:
        return 0.0
    middle, mean = (count - 1) / 2, sum(values) / count
    above = sum((place - middle) * (value - mean) for place, value in enumerate(values))
    return above / sum((place - middle) ** 2 for place in range(count))
