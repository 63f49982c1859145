"""One session's outbox, and what happens when its consumer falls behind. Pure.

O1. Text and whatever is fixed (marks, cues, reveals) are never lost, changed or moved, whatever a handler does.
O2. Above the high mark the handler is asked. Whatever it did, the outbox is then at the mark or below, or `full`: the
    producer is held back until the low mark.
O3. Shedding takes previews and notices only, the oldest first, never fewer than it was asked for while there are any.
O4. One gap stands where the oldest of them stood and says how many are missing, and from when to when; a consumer that
    took it finds a new one for what is shed later.
O5. Coalescing joins text with the text right after it: of one lane, its tokens in sequence, nothing in between, up to
    `JOINED_BYTES`. It saves what each message costs beside its content.
O6. A handler that raises is counted, and the default takes over. One that goes on without any effect is stopped.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections import deque
from collections.abc import Callable

from multimodal.errors import UsageError
from multimodal.pipes.overflow_items import ITEM_BYTES, Fixed, Gap, Item, Sheddable, TextItem, joined

__all__ = [
    "Fixed",
    "Gap",
    "Item",
    "Outbox",
    "OverflowHandler",
    "OverflowView",
    "Sheddable",
    "TextItem",
    "default_policy",
]

log = logging.getLogger(__name__)

FRUITLESS_CALLS, FRUITLESS_READS = 8, 10_000
"""Calls and reads in a row that change nothing, after which a handler is stopped (O6)."""


class Outbox:
    """O1-O6. `now` is seconds of one clock throughout.

    Args:
        limit_bytes: where the memory of the session ends; the high mark is 3/4 of it, the low mark 3/8. What a producer
            makes before it stops has the rest.
        handler: as `set_overflow_handler`.

    Raises:
        UsageError: a limit that does not hold sixteen messages, or a handler that cannot be one.
    """

    def __init__(self, limit_bytes: int = 256 * 1024, handler: OverflowHandler | None = None) -> None:
        if isinstance(limit_bytes, bool) or not isinstance(limit_bytes, int) or limit_bytes < 16 * ITEM_BYTES:
            raise UsageError(f"limit_bytes={limit_bytes!r} holds no messages; give {16 * ITEM_BYTES} or more")
        self.limit_bytes = limit_bytes
        self.high_bytes, self.low_bytes = limit_bytes * 3 // 4, limit_bytes * 3 // 8
        self.full = False
        """O2: make no more now."""
        self.bytes = self.peak_bytes = 0
        self.overflows = self.coalesced = self.shed = self.shed_bytes = self.failures = self.held_back = 0
        """How often the mark was passed, texts joined, items and bytes shed, handlers failed or stopped, and producers
        held back."""
        self._items: deque[Item] = deque()
        self._gap: Gap | None = None
        self._handler: OverflowHandler = default_policy
        self.set_overflow_handler(handler)

    def set_overflow_handler(self, handler: OverflowHandler | None) -> None:
        """What is asked above the high mark, on the token path: it must be quick. None = `default_policy`.

        Args:
            handler: called with an `OverflowView`, which is good for that call only.

        Raises:
            UsageError: it cannot be called, or is a coroutine function.
        """
        if handler is not None and (not callable(handler) or inspect.iscoroutinefunction(handler)):
            raise UsageError(
                f"the overflow handler is {handler!r}; give a plain function of one argument, or None for the default"
            )
        self._handler = default_policy if handler is None else handler

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: TextItem | Fixed | Sheddable, now: float) -> None:
        """Take it over; it is never refused, as a producer that was told to stop may have made one more."""
        item.at = now
        last = self._items[-1] if self._items else None
        # While the producer is held back its last texts are joined as they come: what waits is not gone over again.
        if not (self.full and isinstance(item, TextItem) and isinstance(last, TextItem) and self._join(last, item)):
            self._items.append(item)
            self.bytes += item.size_bytes
        if self.bytes > self.high_bytes and not (self.full and not isinstance(item, Sheddable)):
            self._overflow()
        self.peak_bytes = max(self.peak_bytes, self.bytes)

    def take(self) -> Item | None:
        """The next for the consumer; None = nothing waits."""
        if not self._items:
            return None
        item = self._items.popleft()
        if item is self._gap:
            self._gap = None
        self.bytes -= item.size_bytes
        if self.bytes <= self.low_bytes:
            self.full = False
        return item

    def _overflow(self) -> None:
        self.overflows += 1
        view = OverflowView(self)
        try:
            self._handler(view)
        except (Exception, _Stopped) as error:
            self.failures += 1
            if self.failures == 1:
                log.warning("the overflow handler failed; the default takes over", exc_info=error)
            view = OverflowView(self)
            default_policy(view)
        finally:
            view._closed = True
        if self.bytes > self.high_bytes:
            self._hold_back()

    def _hold_back(self) -> None:
        self.held_back += not self.full
        self.full = True

    def _coalesce(self) -> int:
        left: deque[Item] = deque()
        for item in self._items:
            last = left[-1] if left else None
            if not (isinstance(item, TextItem) and isinstance(last, TextItem) and self._join(last, item, held=True)):
                left.append(item)
        count = len(self._items) - len(left)
        self._items = left
        return count

    def _join(self, last: TextItem, item: TextItem, *, held: bool = False) -> bool:
        """Append `item` to the text before it, if it may be (O5); `held` = its bytes are counted already."""
        if not joined(last, item):
            return False
        self.bytes += -ITEM_BYTES if held else item.size_bytes - ITEM_BYTES
        self.coalesced += 1
        return True

    def _shed(self, count: int) -> int:
        kept: deque[Item] = deque()
        gone: list[Sheddable] = []
        for item in self._items:
            if isinstance(item, Sheddable) and len(gone) < count:
                if not gone and self._gap is None:
                    self._gap = Gap(0, 0, item.at, item.at)
                    self.bytes += self._gap.size_bytes
                    kept.append(self._gap)
                gone.append(item)
            else:
                kept.append(item)
        if gone:
            assert self._gap is not None
            self._gap.count += len(gone)
            self._gap.content_bytes += sum(item.content_bytes for item in gone)
            self._gap.oldest = min(self._gap.oldest, gone[0].at)
            self._gap.newest = max(self._gap.newest, gone[-1].at)
            self._items = kept
            self.bytes -= sum(item.size_bytes for item in gone)
            self.shed += len(gone)
            self.shed_bytes += sum(item.content_bytes for item in gone)
        return len(gone)


class _Stopped(BaseException):
    """A handler goes on without effect. No Exception, so that a handler which swallows those is stopped, too."""


class OverflowView:
    """What a handler sees of an outbox, and may do. It cannot touch text or cues (O1)."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._closed = False
        self._calls = self._reads = 0

    @property
    def bytes(self) -> int:
        """Bytes that wait."""
        return self._read().bytes

    @property
    def high_bytes(self) -> int:
        """The mark to get to, or below."""
        return self._read().high_bytes

    @property
    def limit_bytes(self) -> int:
        """Where the session's memory ends."""
        return self._read().limit_bytes

    @property
    def items(self) -> int:
        """Messages that wait."""
        return len(self._read())

    @property
    def sheddable(self) -> int:
        """How many of them are previews and notices."""
        return sum(isinstance(item, Sheddable) for item in self._read()._items)

    @property
    def text_bytes(self) -> int:
        """Bytes of text among them."""
        return sum(item.size_bytes for item in self._read()._items if isinstance(item, TextItem))

    def coalesce(self) -> int:
        """Join neighbouring text (O5); gives how many messages that saved."""
        return self._did(self._read()._coalesce())

    def shed(self, share: float = 0.1, at_least: int = 1) -> int:
        """Shed the oldest previews and notices (O3); gives how many.

        Args:
            share: of those that wait, 0 to 1, rounded up.
            at_least: as many in any case, if there are.

        Raises:
            UsageError: a value out of its range.
        """
        if not 0 <= share <= 1 or at_least < 0:
            raise UsageError(f"shed(share={share!r}, at_least={at_least!r}): give a share of 0 to 1 and at least 0")
        return self._did(self._read()._shed(max(at_least, math.ceil(share * self.sheddable))))

    def backpressure(self) -> None:
        """Hold the producer back until the low mark."""
        outbox = self._read()
        was = outbox.full
        outbox._hold_back()
        self._did(not was)

    def _read(self) -> Outbox:
        if self._closed:
            raise UsageError("this view of an outbox is over: it is good for one call of the handler")
        self._reads += 1
        if self._reads > FRUITLESS_READS:
            raise _Stopped("the overflow handler reads on without doing anything; call shed() or backpressure()")
        return self._outbox

    def _did(self, effect: int) -> int:
        self._calls = 0 if effect else self._calls + 1
        self._reads = 0 if effect else self._reads
        if self._calls > FRUITLESS_CALLS:
            raise _Stopped(
                "the overflow handler goes on though nothing is left to shed; call backpressure() and return"
            )
        return effect


OverflowHandler = Callable[[OverflowView], object]


def default_policy(view: OverflowView) -> None:
    """Coalesce; then shed tenths, the oldest first, until the mark is met; then hold the producer back."""
    view.coalesce()
    while view.bytes > view.high_bytes and view.shed(0.1, 1):
        view.coalesce()
    if view.bytes > view.high_bytes:
        view.backpressure()
