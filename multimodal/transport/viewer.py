"""Drive a stream from Python: a viewer over any link, a double of the player that paints into a log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from multimodal import wire
from multimodal.errors import ChannelClosedError, ChannelClosedOK, JoinRefused, TransportError
from multimodal.events import AnyEvent, ErrorRaised, Reveal, Snapshot, StreamEnd, Text
from multimodal.loops import loop_here
from multimodal.transport.base import Link
from multimodal.transport.client import Farewell, Picture, Shown, ViewerProtocol

__all__ = ["LET_GO", "FetchesPictures", "Seen", "Viewer"]

LET_GO = 1.0
"""Seconds that a viewer which said goodbye waits for the server to close."""
_FETCHES = 4
"""Pictures fetched side by side, as a browser does it with one server."""
_SURVIVED = frozenset({"image_pipe"})
"""Codes of errors after which the words go on: they are no reason why a tour ended."""


@runtime_checkable
class FetchesPictures(Protocol):
    """What a link has over which pictures do not come."""

    pictures_by_url: bool

    async def picture(self, sha256: str) -> bytes:
        """The bytes of one, by its URL.

        Raises:
            JoinRefused: the server does not give it.
            ChannelClosedError: the server could not be reached.
        """
        ...


@dataclass
class Seen:
    """What one viewer saw.

    Args:
        events: every event, in order.
        at: seconds (the loop's clock) at which each event was painted.
        pictures: the bytes of each picture that arrived whole.
        ended: why the viewing ended: ``end``, the tour came to its own end; the code of the error that cut it short,
            such as ``server_restarted`` or ``text_pipe`` (``error``, where this viewer was not told which); the
            server's farewell; or ``closed``.
    """

    events: list[AnyEvent] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)
    ended: str = ""

    @property
    def text(self) -> str:
        """The narration so far, from the first words that were told or that a snapshot gave."""
        told, begin = "", 0
        for event in self.events:
            if isinstance(event, Text):
                told += event.text
            elif isinstance(event, Snapshot) and not event.continued:
                # What it says again of what was told is told once.
                kept = event.char - begin
                begin = begin if 0 <= kept <= len(told) else event.char
                told = told[: event.char - begin] + event.text
        return told

    @property
    def outcome(self) -> str:
        """How the tour ended: ``end`` or an error, as in `ended`; "" = its end has not come."""
        end = self.events[-1] if self.events else None
        if not isinstance(end, StreamEnd):
            return ""
        if end.reason == "complete":
            return "end"
        codes = [event.code for event in self.events if isinstance(event, ErrorRaised) and event.code not in _SURVIVED]
        return codes[-1] if codes else end.reason

    @property
    def revealed(self) -> list[str]:
        """Keys in the order of their reveals."""
        return [event.key for event in self.events if isinstance(event, Reveal)]


class Viewer:
    """One viewer on one link, saying what the player says: ready, painted, acks, pings.

    Args:
        link: the client's end of the road; closed at the end.
        hello: the first message.
        held: the bytes of pictures from earlier tours, which then need not be sent.
        decode: seconds that decoding a picture takes, or a function of its key; None = never ready.
        on_show: called with every bundle when it is painted.
        leave_at_end: say goodbye when the stream's end was painted; False = stay until the server closes.

    Raises:
        UsageError: no event loop runs here.
    """

    def __init__(
        self,
        link: Link,
        *,
        hello: wire.Hello | None = None,
        held: Iterable[bytes] = (),
        decode: float | Callable[[str], float | None] | None = 0.0,
        on_show: Callable[[tuple[AnyEvent, ...]], None] | None = None,
        leave_at_end: bool = True,
    ) -> None:
        self.link = link
        self.seen = Seen()
        self._loop = loop_here(f"{type(self).__name__}(...)")
        by_url = isinstance(link, FetchesPictures)
        self.protocol = ViewerProtocol(hello, now=self._loop.time(), held=held, by_url=by_url)
        self._decode = decode
        self._on_show = on_show
        self._leave_at_end = leave_at_end
        self._said_goodbye = False
        self._decoding: list[tuple[float, str]] = []
        self._frame = 0
        self._patience: asyncio.Timeout | None = None
        self._fetches = asyncio.Semaphore(_FETCHES)

    async def watch(self) -> Seen:
        """View to the end: of the stream, or of the road. Cancelling closes the link.

        Raises:
            ChannelClosedError: the road was lost, or the server fell silent.
            JoinRefused: the server does not let this viewer in.
            RemoteProtocolError: the server broke the protocol.
        """
        await self._view()
        return self.seen

    async def _view(self) -> None:
        """View over `self.link` until it ends, and close it."""
        try:
            await self.link.opened()
            self._flush()
            if isinstance(self.link, FetchesPictures):
                await self._fetching(self.link)
            else:
                await self._steps()
            if self._said_goodbye:
                await self._let_go()
        finally:
            await self.link.aclose()

    def say(self, act: Callable[[ViewerProtocol], None]) -> None:
        """Say something at once, such as ``viewer.say(ViewerProtocol.pause)``.

        Raises:
            UsageError: no event loop runs in this thread; ``loop.call_soon_threadsafe(viewer.say, ...)`` from others.
        """
        loop_here("what a viewer says")
        act(self.protocol)
        self._flush()

    def interrupt(self) -> None:
        """Leave the turn that is being told: nothing of it is shown from now on.

        The tour stays open, and silent until the application says another turn or ends it, or this viewer asks.
        """
        self.say(ViewerProtocol.interrupt)

    def ask(self, text: str) -> None:
        """As `interrupt`, with a question for the next turn.

        Raises:
            UsageError: the question is too long.
        """
        self.say(lambda protocol: protocol.ask(text))

    async def _steps(self) -> None:
        while not self.seen.ended:
            await self._step()

    async def _step(self) -> None:
        now = self._loop.time()
        wake = min([self.protocol.next_timer(), self.protocol.silent_at, *(at for at, _ in self._decoding)])
        try:
            async with asyncio.timeout(max(wake - now, 0.0)) as self._patience:
                inbound = await self.link.receive()
        except TimeoutError:
            # A loop may wake a little early; what the timer was set for is due all the same.
            self._timers(max(self._loop.time(), wake))
        except ChannelClosedOK:
            self.seen.ended = "closed"
            return
        else:
            now = self._loop.time()
            for shown in self.protocol.receive(inbound, now):
                self._show(shown, now)
            # A steady flow must not starve the timers: `receive` may always have something at once.
            if now >= wake:
                self._timers(now)
        finally:
            self._patience = None
        self._flush()

    async def _fetching(self, link: FetchesPictures) -> None:
        """As `_steps`, with what has to be fetched beside it."""
        try:
            async with asyncio.TaskGroup() as group:
                fetches: set[asyncio.Task[None]] = set()
                while not self.seen.ended:
                    await self._step()
                    for key, sha256 in self.protocol.wanted():
                        task = group.create_task(self._fetch(link, key, sha256))
                        fetches.add(task)
                        task.add_done_callback(fetches.discard)
                for task in fetches:
                    task.cancel()
        except BaseExceptionGroup as errors:
            # One reason: the road's; the fetches raise nothing.
            raise errors.exceptions[0] from None

    async def _fetch(self, link: FetchesPictures, key: str, sha256: str) -> None:
        try:
            async with self._fetches:
                data = await link.picture(sha256)
        except JoinRefused as error:
            self.protocol.ready(key, ok=False, reason=str(error)[:200])
        except TransportError:
            return  # the next connection fetches it
        else:
            now = self._loop.time()
            for shown in self.protocol.fetched(key, data):
                self._show(shown, now)
            if self._patience is not None and self._decoding:
                # The step that waits was begun without knowing of this.
                with suppress(RuntimeError):
                    self._patience.reschedule(min(at for at, _ in self._decoding))
        self._flush()

    async def _let_go(self) -> None:
        """Closing at once could lose the last receipts: the server closes when it has read the goodbye."""
        with suppress(TimeoutError, TransportError):
            async with asyncio.timeout(LET_GO):
                while True:
                    await self.link.receive()

    def _timers(self, now: float) -> None:
        self.protocol.handle_timer(now)
        if self.protocol.silent(now):
            raise ChannelClosedError("the server said nothing for 3 s, though it pings every second")
        for entry in [entry for entry in self._decoding if entry[0] <= now]:
            self._decoding.remove(entry)
            self.protocol.ready(entry[1])

    def _show(self, shown: Shown, now: float) -> None:
        if isinstance(shown, Farewell):
            self.seen.ended = shown.reason or "closed"
        elif isinstance(shown, Picture):
            self.seen.pictures[shown.key] = shown.data
            delay = self._decode(shown.key) if callable(self._decode) else self._decode
            if delay is not None:
                self._decoding.append((now + delay, shown.key))
        else:
            self._frame += 1
            self.seen.events += shown
            self.seen.at += [now] * len(shown)
            self.protocol.painted(shown[-1].seq, now * 1000, self._frame)
            if self._on_show is not None:
                self._on_show(shown)
            if self._leave_at_end and self.seen.outcome:
                self.protocol.bye("end")
                self._said_goodbye = True
                self.seen.ended = self.seen.outcome

    def _flush(self) -> None:
        for message in self.protocol.outgoing():
            try:
                self.link.send_event(message)
            except TransportError:
                # The reader learns of it too, in order, after what came before.
                return
