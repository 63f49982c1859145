"""MultiModalStream: the asyncio shell around the aligner. It moves items in and events out; the rules are not here."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Literal

from multimodal.conversation import Conversation, OnAsk, check_cues, check_pipe
from multimodal.errors import UsageError
from multimodal.events import AnyEvent, CueMissed, ProductBrief, Reveal
from multimodal.loops import loop_here
from multimodal.pictures import PictureDesk
from multimodal.pipes.base import HasKeys, HasProducts, ImagePipe, TextPipe
from multimodal.pipes.interleaved import CueFeed
from multimodal.pumps import close_pipe
from multimodal.sync.aligner import Aligner
from multimodal.sync.cues import EveryInterval
from multimodal.sync.history import Heard
from multimodal.sync.live import DriftSample, LiveDrift
from multimodal.sync.matcher import ProductNames
from multimodal.sync.meaning import Embed, Meaning
from multimodal.sync.rehearsal import SlowPictureAligner
from multimodal.sync.scanner import Repeat, Report
from multimodal.sync.sources import Sources
from multimodal.values import Cue, EncodedImage, LatePolicy, Place, Product, ViewerNeeds, check_seconds
from multimodal.wire import Bye, ClientMessage, Hello, Painted, Ready

__all__ = ["MultiModalStream"]

log = logging.getLogger(__name__)

ASKED_AHEAD = 16
"""Products up to which the pictures of all are asked for before the first is named; of more, each when it is named."""
OUTCOMES = (Reveal, CueMissed)
WIDEST_PX = 16_384.0
"""Whatever a viewer says of its screen, no picture is wider: so wide as WebP can be."""
TIMER_SLACK = 1e-6
"""Seconds by which an event loop may wake early; within it a deadline counts as met."""


class MultiModalStream:
    """Aligns the pictures of an image pipe to the tokens of a text pipe and emits one sequence of events.

    Use it as ``async with MultiModalStream(...) as stream: async for event in stream``. It is pulled: while nobody
    iterates, the text pipe stops after a bounded number of tokens. Leaving the block, or cancelling, stops both pipes
    and closes them.

    Args:
        text_pipe: an async iterator of `Token` or `str`, one token each (`multimodal.pipes.base`, T1-T8).
        image_pipe: an async iterator of `EncodedImage` or `ImageFailure` (I1-I8).
        sync_interval: tokens between two sync marks.
        cues: pictures tied to boundaries, or the `CueFeed` of an interleaved stream; None = picture i at boundary
            i * sync_interval, unless mentions, markers or embed say where pictures belong.
        late: what a cue does when its picture is not ready: ``placeholder``, ``hold`` or ``skip`` (R4).
        max_hold: seconds that ``hold`` waits at most.
        min_dwell: seconds that a picture stays before another mark's picture takes its place (R10).
        mentions: a product's name in the text is a cue, at its end: True for the image pipe's products, or the
            products to look for (`multimodal.sync.sources.Sources`).
        markers: ``[[show:sku]]`` in the text is a cue, and is not seen.
        embed: words about a product are a cue: text -> vector, or a `Meaning`; None = off.
        repeat: what a product that is named again gets: ``first`` (nothing) or ``every`` (its picture again).
        lead: tokens by which a mention's picture comes before its end, at most with its first word; the text comes as
            many tokens later.
        preroll: seconds that the first token waits at most for the pictures of the first two marks.
        swap_wait: seconds that the end waits at most for pictures still behind their previews (R4b).
        chapters: boundaries of the narration to which `skip` goes, such as a tour plan's `starts`.
        on_ask: called with a viewer's question and what it had seen (`Heard`) when it asked; gives the answer's text
            pipe, or (text pipe, cues with anchors counted from the answer's beginning); may be async.
        slow_images: rehearse slow pictures: each is ready only this many seconds after its first mark; 0 = off.
        resume: where an earlier stream of the same pipes stood when its process ended: this one goes on from there,
            in a new epoch. A text pipe that has `skip_to` goes there at once.

    Raises:
        UsageError: an argument of the wrong kind or out of range.
        PipeError: out of the iteration, after the end event, when a pipe failed.
    """

    def __init__(
        self,
        text_pipe: TextPipe,
        image_pipe: ImagePipe,
        sync_interval: int = 3,
        *,
        cues: Sequence[Cue] | CueFeed | None = None,
        late: LatePolicy = "placeholder",
        max_hold: float = 0.25,
        min_dwell: float = 0.0,
        mentions: bool | ProductNames | Iterable[Product] = False,
        markers: bool = False,
        embed: Embed | Meaning | None = None,
        repeat: Repeat = "first",
        lead: int = 0,
        preroll: float = 1.0,
        swap_wait: float = 1.0,
        chapters: Sequence[int] = (),
        slow_images: float = 0.0,
        on_ask: OnAsk | None = None,
        resume: Place | None = None,
    ) -> None:
        check_pipe("text_pipe", text_pipe, "Token or str; wrap text in ScriptTextPipe(...)")
        check_pipe("image_pipe", image_pipe, "EncodedImage; for a folder use FolderImagePipe(...)")
        check_seconds("preroll", preroll)
        check_seconds("slow_images", slow_images)
        given = [] if cues is None or isinstance(cues, CueFeed) else check_cues(cues)
        products = _products(image_pipe)
        self._sources = Sources(products, mentions=mentions, markers=markers, embed=embed, repeat=repeat, lead=lead)
        self.sid = uuid.uuid4().hex[:12] if resume is None else resume.sid
        self.sync_interval = sync_interval
        settings: dict[str, Any] = {
            "late": late,
            "max_hold": max_hold,
            "min_dwell": min_dwell,
            "swap_wait": swap_wait,
            "sid": self.sid,
            "products": [_brief(product) for product in products],
            "token_unit": getattr(text_pipe, "token_unit", "token"),
            "narrator": getattr(text_pipe, "narrator", ""),
            "place": resume,
        }
        self._aligner = (
            SlowPictureAligner(slow_images, sync_interval, **settings)
            if slow_images
            else Aligner(sync_interval, **settings)
        )
        self._text, self._images = text_pipe, image_pipe
        every = None
        if cues is None and not self._sources.active:
            keys = image_pipe.keys() if isinstance(image_pipe, HasKeys) else ()
            every = EveryInterval(sync_interval, keys)
            if resume is not None and not keys:
                raise UsageError(
                    "resume: pictures at every interval, whose keys the image pipe does not know; give cues"
                )
        self._talk = Conversation(
            self._aligner,
            self._sources,
            given,
            every=every,
            chapters=chapters,
            on_ask=on_ask,
            sync_interval=sync_interval,
            place=resume,
        )
        if resume is not None:
            given = [cue for cue in given if cue.anchor >= resume.token]
        self._inbox = self._talk.inbox
        self._desk = PictureDesk(image_pipe, self._inbox, self._aligner, given)
        self._cue_feed = cues if isinstance(cues, CueFeed) else None
        self._live: LiveDrift | None = None
        self._listeners: list[Callable[[DriftSample], object]] = []
        self._closed = self._speaking = self._reading = False
        self._preroll, self._preroll_until = preroll, -1.0
        """When the wait for the first word is over; negative = the stream has not begun, which may be at 0.0 itself."""
        self._group: asyncio.TaskGroup | None = None
        self._bundle: deque[AnyEvent] = deque()

    # ---- what an application calls -----------------------------------------------------------------------------

    async def __aenter__(self) -> MultiModalStream:
        if self._group is not None or self._closed:
            raise UsageError("a MultiModalStream runs once; make a new one for another run")
        self._group = asyncio.TaskGroup()
        self._clock = asyncio.get_running_loop().time
        await self._group.__aenter__()
        if self._cue_feed is not None:
            self._cue_feed.connect(self._talk.declare_own)
        may_come = self._sources.pictures if self._sources.active else ()
        if len(may_come) > ASKED_AHEAD:
            may_come = ()
        may_come = (*self._talk.foretold(self._text), *may_come)
        self._talk.start(self._group, self._text, self._desk)
        self._desk.start(self._talk.spawn, may_come)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
        if self._group is not None:
            # Without the caller's error: the group would wrap it, and nobody expects a group from `async with`.
            await self._group.__aexit__(None, None, None)

    async def aclose(self) -> None:
        """Stop and close both pipes; an iteration under way ends. Twice is once."""
        if self._closed:
            return
        self._closed = True
        try:
            for task in self._talk.tasks:
                task.cancel()
            if self._talk.tasks:
                await asyncio.wait(self._talk.tasks)
            else:
                for pipe in (self._text, self._images):
                    await close_pipe(pipe)
        finally:
            self._desk.close()
            self._inbox.wake()

    def __aiter__(self) -> MultiModalStream:
        return self

    async def __anext__(self) -> AnyEvent:
        if not self._bundle:
            self._bundle.extend(await self._pull())
        if self._bundle:
            return self._bundle.popleft()
        raise StopAsyncIteration

    async def bundles(self) -> AsyncIterator[tuple[AnyEvent, ...]]:
        """What was emitted at one instant, together; ends after the end event. Cancelling loses nothing emitted.

        Raises:
            PipeError: after the end event, when a pipe failed.
        """
        while bundle := await self._pull():
            yield tuple(bundle)

    def cue(
        self,
        anchor: int,
        key: str,
        *,
        late: LatePolicy | None = None,
        max_hold: float | None = None,
        product: str = "",
    ) -> None:
        """Tie a picture to a boundary while the stream runs; one whose mark has passed comes out late (R3).

        Raises:
            UsageError: the stream has ended, or an argument is wrong.
        """
        if self._aligner.ended or self._closed:
            raise UsageError(f"cue for {key!r} at {anchor}: the stream has ended")
        self._talk.declare_own(Cue(anchor, key, late, max_hold, product))

    def interrupt(self, epoch: int | None = None) -> Heard | None:
        """Stop the turn that is being told (R9): generation stops, nothing of it comes out again, the epoch rises.

        The stream stays open for another turn, and silent without a limit until it comes: `say` or `ask` tell one,
        `finish` and `aclose` end the stream. A turn that was left cannot be taken up again; `pause` is for that.

        Args:
            epoch: the epoch that the caller wants to stop; a stop that comes late and names an older one is refused,
                counted in `refused_stops`, and gives None. None = whatever is being told.

        Returns:
            What the viewer had really seen, by its receipts.

        Raises:
            UsageError: the stream is not running.
        """
        self._check_running("interrupt")
        return self._talk.interrupt(epoch)

    def rewind(self, boundary: int, epoch: int | None = None) -> Heard | None:
        """Tell the turn again from one of its boundaries, as `sync` events name them; the epoch rises (R9).

        Explicit cues from there on are declared anew; mentions are read anew. What is told again keeps its pace.

        Args:
            boundary: of the stream; of this turn, wherever in it.
            epoch: as for `interrupt`.

        Raises:
            UsageError: the stream is not running, or the boundary is of an earlier turn, or too old.
        """
        self._check_running("rewind")
        return self._talk.rewind(boundary, epoch)

    def skip(self, epoch: int | None = None) -> Heard | None:
        """Go on with the next chapter (`chapters`, such as a tour's `starts`); the epoch rises (R9).

        A text pipe that has `skip_to` goes there at once; another is pulled at its own pace until it is there.

        Args:
            epoch: as for `interrupt`.

        Raises:
            UsageError: the stream is not running, or no chapter lies ahead.
        """
        self._check_running("skip")
        return self._talk.skip(epoch)

    def say(self, text_pipe: TextPipe, cues: Sequence[Cue] = ()) -> None:
        """Tell another turn; one that is being told is interrupted.

        Args:
            text_pipe: as for the stream.
            cues: with anchors counted from the beginning of this turn.

        Raises:
            UsageError: the stream is not running, or the pipe is no async iterator.
        """
        check_pipe("text_pipe", text_pipe, "Token or str; wrap text in ScriptTextPipe(...)")
        given = check_cues(cues)
        self._check_running("say")
        self._talk.say(text_pipe, given)

    def ask(self, text: str, epoch: int | None = None) -> bool:
        """A viewer asks in the middle: interrupt, and let `on_ask` answer. Gives False for a refused, late epoch.

        Raises:
            UsageError: the stream was made without `on_ask`, or is not running.
        """
        self._check_running("ask")
        return self._talk.ask(text, epoch)

    def finish(self) -> None:
        """After an interruption: no further turn will come, end the stream."""
        self._talk.finish()

    def on(self, kind: Literal["drift"], listener: Callable[[DriftSample], object]) -> Callable[[], None]:
        """Hear of the drift of each reveal while the stream runs: once when emitted, once when a viewer painted it.

        Args:
            kind: ``drift``.
            listener: called with a `DriftSample`; it must not block. One that fails is logged, and the stream goes on.

        Returns:
            What ends it.

        Raises:
            UsageError: another kind.
        """
        if kind != "drift":
            raise UsageError(f"on({kind!r}) is unknown; there is: drift")
        self._live = self._live or LiveDrift()
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    @property
    def reports(self) -> list[Report]:
        """What the cue sources noticed so far: broken markers, products named again, or never (rule S5)."""
        return self._talk.reports

    @property
    def epoch(self) -> int:
        """How often the stream was interrupted."""
        return self._talk.epoch

    @property
    def offset(self) -> int | None:
        """By how many the text pipe's tokens are ahead of the stream's boundaries; None = an answer is being told.

        With it, a `Place` can be made of the last event.
        """
        return self._talk.offset

    @property
    def refused_stops(self) -> int:
        """Stops that came late and named an epoch that was over."""
        return self._talk.refused_stops

    def _check_running(self, what: str) -> None:
        if self._group is None or self._closed or self._aligner.ended:
            raise UsageError(f"{what}: the stream is not running")
        loop_here(f"{what}()")

    def pause(self) -> None:
        """Stop pulling text; pictures go on being prepared."""
        self._inbox.paused = True

    def resume(self) -> None:
        """Go on after a pause."""
        self._inbox.paused = False
        self._inbox.wake()
        self._inbox.emptied()

    def ack(self, message: ClientMessage) -> None:
        """What a viewer said: `Hello` makes it an acking viewer, `Ready` a picture ready; `Painted` is what it saw."""
        if isinstance(message, Painted):
            talk = self._talk
            talk.painted = max(message.seq, -1 if talk.painted is None else talk.painted)
            if self._live is not None:
                for sample in self._live.painted(message):
                    self._hear(sample)
        elif isinstance(message, Hello):
            self._talk.painted = -1
            width_px = int(max(0.0, min(message.viewport[0] * message.dpr, WIDEST_PX)))
            still = tuple(each for each in message.formats if not each.startswith("video/"))
            formats = still if message.reduced_motion else message.formats
            self._desk.fit(ViewerNeeds(formats, width_px, message.save_data))
        elif isinstance(message, Ready):
            self._desk.ready(message.key)
        if isinstance(message, Hello | Ready | Bye):
            self._inbox.put(lambda now: self._aligner.feed_ack(message, now))

    def expect(self, keys: Iterable[str]) -> None:
        """These pictures may be needed soon, such as what a search found for a question: they are prepared when all
        that is planned has arrived, and give way to anything that is due (`multimodal.pictures`, F3).

        Args:
            keys: pictures' keys, the likeliest first.
        """
        self._desk.expect(keys)

    def picture(self, key: str) -> EncodedImage | None:
        """The bytes behind an `asset` event that lists variants."""
        return self._desk.get(key)

    def due(self, key: str) -> int | None:
        """The boundary at which a picture is wanted first; None = no cue names it."""
        return self._desk.due(key)

    @property
    def plan(self) -> dict[int, Cue]:
        """The cues declared so far, by number, the stream's own settings filled in where a cue left them open."""
        plan = self._aligner.plan
        for cue in self._inbox.cues:
            plan[len(plan)] = self._aligner.filled_in(cue)
        return plan

    # ---- items in, events out ------------------------------------------------------------------------------------

    async def _pull(self) -> list[AnyEvent]:
        if self._group is None:
            raise UsageError("use `async with MultiModalStream(...) as stream:` before iterating")
        if self._reading:
            raise UsageError("this stream is being read already; it has one reader")
        self._reading = True
        try:
            return await self._next_events()
        finally:
            self._reading = False

    async def _next_events(self) -> list[AnyEvent]:
        clock, inbox = self._clock, self._inbox
        while not (events := self._aligner.events()):
            if self._aligner.ended or self._closed:
                failure, inbox.failure = inbox.failure, None
                if failure is not None:
                    raise failure
                return []
            timer = self._aligner.next_timer()
            # Without words the end of the preroll changes nothing, and waking for it, once past, is a busy loop.
            if not self._speaking and inbox.turn.waiting and (timer is None or self._preroll_until < timer):
                timer = self._preroll_until
            await inbox.sleep(timer)
            self._feed(clock())
        self._talk.history.append(events)
        for event in events:
            if isinstance(event, OUTCOMES):
                self._desk.advance(1)
        if self._live is not None:
            for event in events:
                sample = self._live.emitted(event)
                if sample is not None:
                    self._hear(sample)
        return events

    def _feed(self, now: float) -> None:
        aligner, inbox = self._aligner, self._inbox
        inbox.dirty = False
        timer = aligner.next_timer()
        if timer is not None and timer - now < TIMER_SLACK:
            now = max(now, timer)
        if self._preroll_until < 0:
            self._preroll_until = now + self._preroll
            aligner.handle_timer(now)
        while inbox.turns:
            inbox.turns.popleft()(now)
        while inbox.cues:
            aligner.feed_cue(inbox.cues.popleft(), now)
        if not self._speaking:
            # Before the first word, pictures may end the wait for them.
            self._feed_others(now)
        if inbox.turn.waiting and self._may_speak(now):
            inbox.turn.feed(aligner, now)
        self._feed_others(now)
        timer = aligner.next_timer()
        if timer is not None and now >= timer:
            aligner.handle_timer(now)
        # A hold that ended just now made room for tokens that were left standing above high water.
        waiting = bool(inbox.turn.tokens) and self._speaking
        inbox.dirty = inbox.dirty or (waiting and not (aligner.paused or inbox.paused))
        inbox.emptied()

    def _may_speak(self, now: float) -> bool:
        if not self._speaking:
            first = self._desk.first(self.sync_interval)
            early = now + TIMER_SLACK < self._preroll_until
            if early and (first is None or self._aligner.unready(first)):
                return False
            self._speaking = True
        return not self._inbox.paused

    def _feed_others(self, now: float) -> None:
        others = self._inbox.others
        while others:
            others.popleft()(now)

    def _hear(self, sample: DriftSample) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(sample)
            except Exception:
                log.exception("a drift listener failed; the stream goes on")


def _products(image_pipe: object) -> Sequence[Product]:
    return image_pipe.products if isinstance(image_pipe, HasProducts) else ()


def _brief(product: Product) -> ProductBrief:
    price = "" if product.price is None else str(product.price)
    return ProductBrief(product.id, product.title, product.aliases, price, product.currency, product.url)
