"""What is left of a stream whose process was killed and which nobody can go on telling: its end, in as many words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType

from multimodal.events import AnyEvent, ErrorRaised, StreamEnd
from multimodal.transport.base import Picture
from multimodal.transport.fold import Fold
from multimodal.wire import ClientMessage

__all__ = ["Remainder"]


class Remainder:
    """A `Source` that only ends: viewers get what the journal holds, and then this.

    Args:
        fold: the session so far.
        code, message: why it ends; "" = it had ended already, and nothing is added.
    """

    def __init__(self, fold: Fold, code: str = "", message: str = "") -> None:
        assert fold.last is not None, "a session without an event has no remainder"
        self._last, self._seq, self._code, self._message = fold.last, fold.seq, code, message

    async def __aenter__(self) -> Remainder:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def bundles(self) -> AsyncIterator[tuple[AnyEvent, ...]]:
        """At most one."""
        if self._code:
            last, seq = self._last, self._seq
            yield (
                ErrorRaised(last.v, last.sid, last.epoch, seq + 1, last.pts_ms, last.tok, self._code, self._message),
                StreamEnd(last.v, last.sid, last.epoch, seq + 2, last.pts_ms, last.tok, "error"),
            )

    def picture(self, key: str) -> Picture | None:
        """Pictures went with the process that had them."""
        return None

    def due(self, key: str) -> int | None:
        """Nothing is due any more."""
        return None

    def ack(self, message: ClientMessage) -> None:
        """Nothing depends on it."""

    def pause(self) -> None:
        """Nothing is pulled."""

    def resume(self) -> None:
        """Nothing is pulled."""

    async def aclose(self) -> None:
        """Nothing is held."""
