"""What every road between a stream and a viewer has in common: the link, and the viewer's session over it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Link"]


class Link(Protocol):
    """Two channels to one viewer. Sending is synchronous and never blocks; receiving goes through `receive`.

    `events` is ordered JSON text, `images` unordered binary parts. Listeners are attached before the first byte can
    come, only enqueue, and never raise; the one consumer of `receive` keeps the order.
    """

    def send_event(self, text: str) -> None:
        """Send on the events channel. Raises ChannelClosedOK or ChannelClosedError when it is gone."""

    def send_image(self, data: bytes) -> None:
        """Send on the images channel. Raises as `send_event`."""

    @property
    def buffered_amount(self) -> int:
        """Bytes handed to the link that have not left it, both channels together."""
        ...

    async def receive(self) -> str | bytes:
        """The next message of the viewer, in order. Cancelling loses nothing.

        Raises ChannelClosedOK after a clean close, ChannelClosedError when the road was lost.
        """
        ...

    def on_writable(self, callback: object) -> None:
        """`callback()` is called whenever `buffered_amount` has fallen to 0."""

    async def aclose(self) -> None:
        """Close both channels and free everything. Twice is once."""
