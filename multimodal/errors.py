"""Every error this package raises on purpose.

    MultiModalError
    |-- UsageError           you: a wrong argument, a call out of order, a missing extra
    |-- RemoteProtocolError  the peer: a message that breaks the protocol
    |-- PipeError            the source: a text or image pipe failed (`retryable`)
    |-- TransportError       the road between server and viewer
    |   |-- ChannelClosedOK      closed on purpose, by either side
    |   |-- ChannelClosedError   lost
    |   |-- JoinRefused          the server does not let this viewer in (also a UsageError)
    |   |-- SendTimeout          the peer took nothing for too long
    |   `-- MessageTooLarge      above what the channel carries
    |-- JournalError         the log of what was emitted
    |   |-- JournalGap           what was asked for is no longer kept
    |   |-- LeaseHeld            another process writes this session (retry later)
    |   `-- LeaseLost            another process has taken over: this one must stop writing
    `-- SyncError            the sequence of events broke a rule of the contract
        `-- DriftError           a picture and its words came apart (also an AssertionError)

`asyncio.CancelledError` is never wrapped in any of them.
"""

from __future__ import annotations

__all__ = [
    "ChannelClosedError",
    "ChannelClosedOK",
    "DriftError",
    "JoinRefused",
    "JournalError",
    "JournalGap",
    "LeaseHeld",
    "LeaseLost",
    "MessageTooLarge",
    "MultiModalError",
    "PipeError",
    "RemoteProtocolError",
    "SendTimeout",
    "SyncError",
    "TransportError",
    "UsageError",
]


class MultiModalError(Exception):
    """The root of the tree: catch it to catch everything that this package raises on purpose."""


class UsageError(MultiModalError):
    """A wrong argument or a call out of order; the message says what, where and what to do."""


class RemoteProtocolError(MultiModalError):
    """The peer sent something that the protocol does not allow."""


class PipeError(MultiModalError):
    """A text or image pipe failed.

    Args:
        message: what failed, where, and what to do.
        retryable: whether the same call may succeed later (a busy server, not a missing file).
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class TransportError(MultiModalError):
    """The road between the server and a viewer failed."""


class ChannelClosedOK(TransportError):  # noqa: N818 - a clean close is not an error to its reader
    """The channel was closed on purpose, by either side."""


class ChannelClosedError(TransportError):
    """The channel was lost."""


class JoinRefused(TransportError, UsageError):  # noqa: N818 - it says how things stand
    """The server answered, and does not let this viewer in.

    Args:
        url: what was asked for.
        status: HTTP's.
        code: the server's own, for programs ("" = its answer had none).
        message: what it said.
        retry_after: seconds after which it may be asked again; None = it did not say.
    """

    def __init__(self, url: str, status: int, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{url} answered {status}{' ' + code if code else ''}: {message}")
        self.status, self.code, self.retry_after = status, code, retry_after


class SendTimeout(TransportError):  # noqa: N818 - the field's word
    """The peer took nothing for longer than the named limit."""


class MessageTooLarge(TransportError):  # noqa: N818 - the field's word
    """A message is larger than the channel carries.

    Args:
        size_bytes: the size of the message.
        limit_bytes: the largest size that may be sent.
    """

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a message of {size_bytes} bytes is above the limit of {limit_bytes} bytes")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class JournalError(MultiModalError):
    """The journal cannot be read or written, such as a Redis that does not answer."""


class JournalGap(JournalError):  # noqa: N818 - what the viewer is told too
    """Events that follow `after_seq` are no longer kept, or were lost.

    Args:
        session: the session.
        after_seq: what was to be followed.
        first_seq: the first event that is kept behind the gap.
    """

    def __init__(self, session: str, after_seq: int, first_seq: int) -> None:
        super().__init__(
            f"session {session[:40]}: the event after {after_seq} is no longer kept; the first that is: {first_seq}"
        )
        self.after_seq = after_seq
        self.first_seq = first_seq


class LeaseHeld(JournalError):  # noqa: N818 - it says how things stand
    """Another writer holds the session.

    Args:
        session: the session.
        writer: who.
        seconds: until its lease ends, if it is not renewed.
    """

    def __init__(self, session: str, writer: str, seconds: float) -> None:
        super().__init__(f"session {session[:40]} is written by {writer[:80]}, whose lease lasts {seconds:.1f} s more")
        self.writer = writer
        self.seconds = seconds


class LeaseLost(JournalError):  # noqa: N818 - it says how things stand
    """A later writer has taken over the session, or it was dropped; nothing of this append was kept."""


class SyncError(MultiModalError):
    """The sequence of events broke a rule of the contract (R1-R8)."""


class DriftError(SyncError, AssertionError):
    """A picture and its words came apart; an AssertionError too, so that test runners report a failure."""
