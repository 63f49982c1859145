"""What every road between a stream and a viewer has in common: a link with two channels.

L1  Sending is synchronous and never blocks; what could not leave yet shows in `buffered_amount`.
L2  Listeners are attached before the first byte can come, only enqueue, and never raise; `receive` has one
    consumer, which keeps the order.
L3  The inbox is bounded: a peer that floods it is dropped with a reason, nothing is dropped from the middle.
L4  `events` is ordered and carries text, `images` is unordered and carries bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from multimodal.events import AnyEvent
from multimodal.wire import ClientMessage

__all__ = ["Channel", "GoesOn", "Inbound", "Link", "Moves", "Picture", "Source", "Turns"]

Channel = Literal["events", "images"]


class Inbound(NamedTuple):
    """A message and its channel; the type of `data` is what the peer sent, not what it should have sent."""

    channel: Channel
    data: str | bytes


class Link(Protocol):
    """Two channels to one peer (L1-L4)."""

    async def opened(self) -> None:
        """Returns when the road stands. Cancelling loses nothing.

        Raises:
            ChannelClosedError: it did not come to stand within the link's own limit, or was lost.
        """

    def send_event(self, text: str) -> None:
        """Send on the events channel.

        Raises:
            ChannelClosedOK: closed on purpose, by either side.
            ChannelClosedError: lost, or not open yet.
            MessageTooLarge: above `wire.MESSAGE_LIMIT_BYTES`.
        """

    def send_image(self, data: bytes) -> None:
        """Send on the images channel. Raises as `send_event`."""

    def send_last(self, text: str) -> None:
        """As `send_event`, and on its way when this returns: nothing can be sent later, as the loop is ending."""

    @property
    def buffered_amount(self) -> int:
        """Bytes handed to the link that have not left it, both channels together."""
        ...

    async def receive(self) -> Inbound:
        """The next message of the peer, in order. Cancelling loses nothing.

        Raises:
            ChannelClosedOK: after a clean close, once everything received has been read.
            ChannelClosedError: the road was lost, or the peer flooded it.
        """
        ...

    def on_writable(self, callback: Callable[[], None]) -> None:
        """`callback()` is called whenever `buffered_amount` has fallen to 0. It must not raise."""

    async def aclose(self) -> None:
        """Close both channels and free everything. Twice is once."""


class Picture(Protocol):
    """A picture's bytes, as `EncodedImage` has them."""

    @property
    def data(self) -> bytes:
        """The encoded bytes."""
        ...

    @property
    def sha256(self) -> str:
        """Hex digest of them, by which a viewer knows that it has them."""
        ...


class Source(Protocol):
    """What a session needs of a stream; `MultiModalStream` is one."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> object: ...

    def bundles(self) -> AsyncIterator[tuple[AnyEvent, ...]]:
        """What was emitted at one instant, together; ends after the end event."""
        ...

    def picture(self, key: str) -> Picture | None:
        """The bytes behind an `asset` event that lists variants."""
        ...

    def due(self, key: str) -> int | None:
        """The boundary at which a picture is wanted; None = nowhere yet."""
        ...

    def ack(self, message: ClientMessage) -> None:
        """What the viewer said."""

    def pause(self) -> None:
        """Stop pulling text."""

    def resume(self) -> None:
        """Go on after a pause."""

    async def aclose(self) -> None:
        """Stop, and free everything. Twice is once."""


@runtime_checkable
class GoesOn(Protocol):
    """What a stream has from whose place another can go on; `MultiModalStream` is one."""

    @property
    def offset(self) -> int | None:
        """By how many the text pipe's tokens are ahead of the boundaries; None = it cannot be told from there."""
        ...


@runtime_checkable
class Moves(Protocol):
    """What a stream has in which viewers may move (R9); `MultiModalStream` is one."""

    def skip(self, epoch: int | None = None) -> object | None:
        """Go on with the next chapter; None = the turn is over already, and nothing has changed.

        Raises:
            UsageError: there is none, or the stream has ended.
        """

    def rewind(self, boundary: int, epoch: int | None = None) -> object | None:
        """Tell the turn again from a boundary; None as for `skip`.

        Raises:
            UsageError: it cannot be told again from there, or the stream has ended.
        """


@runtime_checkable
class Turns(Protocol):
    """What a stream has that viewers may interrupt (R9); `MultiModalStream` is one."""

    def interrupt(self, epoch: int | None = None) -> object | None:
        """Stop the turn of this epoch; None = it is over already, and nothing has changed.

        Raises:
            UsageError: the stream has ended.
        """

    def ask(self, text: str, epoch: int | None = None) -> bool:
        """As `interrupt`, and answer; False = the turn is over already, and nothing has changed.

        Raises:
            UsageError: the stream takes no questions, or has ended.
        """
        ...

    def finish(self) -> None:
        """After an interruption: end the stream."""
