"""The turns of a stream: begun, interrupted, told again, skipped ahead, answered. The rules are the aligner's (R9)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from multimodal.errors import UsageError
from multimodal.pictures import PictureDesk
from multimodal.pipes.base import FollowsMarks, Foretells, TextPipe
from multimodal.pumps import Inbox, close_pipe, pump_text
from multimodal.sync.aligner import Aligner
from multimodal.sync.cues import EveryInterval
from multimodal.sync.history import Heard, History
from multimodal.sync.scanner import Report
from multimodal.sync.sources import Sources
from multimodal.tape import Tape
from multimodal.turn import Turn
from multimodal.values import Cue, Place

__all__ = ["Answer", "Conversation", "OnAsk", "check_cues", "check_pipe"]

log = logging.getLogger(__name__)

FORETOLD_CHARS = 20_000
"""Characters of a text to come that are read for the pictures they will bring: half an hour of narration."""
Answer = TextPipe | tuple[TextPipe, Sequence[Cue]]
OnAsk = Callable[[str, Heard], Answer | Awaitable[Answer]]
"""Answers a question: see `MultiModalStream`."""


class Conversation:
    """Which turn is being told, and what becomes of it. `MultiModalStream` documents what each call promises.

    Args:
        aligner: is interrupted, and fed with the cues of a turn.
        sources: read each turn for cues.
        cues: the explicit cues of the first turn.
        every: the first turn's pictures at every interval; None = it has none.
        chapters: boundaries of the first turn to which `skip` goes.
        on_ask: answers questions; None = none are taken.
        sync_interval: tokens between two sync marks, told to each text pipe (T8).
        place: where an earlier stream stood, which this one goes on; None = it begins.
    """

    def __init__(
        self,
        aligner: Aligner,
        sources: Sources,
        cues: Sequence[Cue],
        *,
        every: EveryInterval | None,
        chapters: Sequence[int],
        on_ask: OnAsk | None,
        sync_interval: int,
        place: Place | None = None,
    ) -> None:
        self._interval, self._place = sync_interval, place
        self._aligner, self._sources, self._on_ask = aligner, sources, on_ask
        self._chapters, self._first_turn = tuple(chapters), True
        self.inbox = Inbox(self._turn(cues, every=every))
        if place is None:
            self.inbox.cues.extend(cues)
        self.history = History()
        self.painted: int | None = None
        self.epoch = 0 if place is None else place.epoch + 1
        self.refused_stops = 0
        self.tasks: list[asyncio.Task[None]] = []
        self._desk: PictureDesk | None = None
        self._group: asyncio.TaskGroup | None = None
        self._telling: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._reports: list[Report] = []

    def start(self, group: asyncio.TaskGroup, text_pipe: TextPipe, desk: PictureDesk) -> None:
        """Begin the first turn; tasks belong to `group` and are listed in `tasks`."""
        self._tell_marks(text_pipe)
        self._group, self._desk = group, desk
        self.inbox.turn.tape = Tape(text_pipe)
        if self._place is not None:
            self._go_on(self._place)
        self._tell(self.inbox.turn)

    @property
    def offset(self) -> int | None:
        """The token of the first turn less the stream's boundary; None = another turn is being told."""
        out = self._aligner.snapshot().tokens_out
        return self.inbox.turn.place(out) - out if self._first_turn else None

    def spawn(self, job: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task of the stream."""
        assert self._group is not None
        self.tasks = [task for task in self.tasks if not task.done()]
        task = self._group.create_task(job)
        self.tasks.append(task)
        return task

    @property
    def reports(self) -> list[Report]:
        """What the cue sources noticed, of all turns."""
        return [*self._reports, *self.inbox.turn.reports]

    def interrupt(self, epoch: int | None) -> Heard | None:
        """Stop the turn; None = the epoch named is over already."""
        if self._late_stop(epoch):
            return None
        for task in (self._telling, self._answering):
            # An answer that a newer question overtook would only pile up; the one that asks now is done with its own.
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._telling = self._answering = None
        heard = self._stop()
        self._reports += self.inbox.turn.reports
        self.inbox.turn = self._turn(())
        return heard

    def rewind(self, boundary: int, epoch: int | None) -> Heard | None:
        """Tell the turn again from a boundary of the stream."""
        if self._late_stop(epoch):
            return None
        out = self._aligner.snapshot().tokens_out
        if boundary > out:
            raise UsageError(f"rewind: boundary {boundary} lies ahead of what was told, {out} tokens")
        return self._move(self.inbox.turn.place(boundary))

    def skip(self, epoch: int | None) -> Heard | None:
        """Go on with the next chapter."""
        if self._late_stop(epoch):
            return None
        here = self.inbox.turn.place(self._aligner.snapshot().tokens_out)
        ahead = [chapter for chapter in self._chapters if chapter > here] if self._first_turn else []
        if not ahead:
            raise UsageError(f"skip: no chapter lies ahead of token {here}; chapters={list(self._chapters)}")
        return self._move(min(ahead))

    def say(self, text_pipe: TextPipe, cues: Sequence[Cue]) -> None:
        """Tell another turn."""
        if self._telling is not None:
            self.interrupt(None)
        self._tell_marks(text_pipe)
        turn = self.inbox.turn = self._turn(cues)
        turn.tape = Tape(text_pipe)
        self._first_turn = False
        self._tell(turn)

        foretold = self.foretold(text_pipe)

        def begin(now: float) -> None:
            turn.begin(self._aligner.snapshot().tokens_out)
            if turn is self.inbox.turn:
                for cue in cues:
                    self.declare(cue.at(turn.base + cue.anchor))
                if self._desk is not None:
                    self._desk.plan(foretold)

        self.inbox.put_first(begin)

    def ask(self, text: str, epoch: int | None) -> bool:
        """Interrupt, and let the application answer."""
        if self._on_ask is None:
            raise UsageError("ask: this stream takes no questions; give it on_ask=...")
        heard = self.interrupt(epoch)
        if heard is None:
            return False
        self.spawn(self._answer(self._on_ask, text, heard, self.epoch))
        return True

    def finish(self) -> None:
        """No further turn will come."""
        self.inbox.turn.done = True
        self.inbox.wake()

    def declare_own(self, cue: Cue) -> None:
        """A cue from outside while the stream runs: its product needs none at its mention (S3)."""
        turn = self.inbox.turn
        if cue.anchor >= turn.base:
            turn.script.append(cue.at(turn.place(cue.anchor)))
            if turn.scanner is not None:
                turn.scanner.explicit(cue.at(cue.anchor - turn.base))
        self.declare(cue, at_once=True)

    def declare(self, cue: Cue, *, at_once: bool = False) -> None:
        """A cue on the stream's boundaries, to be fed at the next instant; `at_once` = its picture may be due."""
        self._want(cue, at_once=at_once)
        self.inbox.cues.append(cue)
        self.inbox.wake()

    def _found(self, cue: Cue, now: float) -> None:
        """A cue that the narration itself brings: fed at this very instant, before the token that reaches it."""
        self._want(cue, at_once=True)
        self._aligner.feed_cue(cue, now)

    def _want(self, cue: Cue, *, at_once: bool = False) -> None:
        self._pictures.want(cue, at_once=at_once)

    @property
    def _pictures(self) -> PictureDesk:
        """The desk, which is there from the stream's beginning on."""
        assert self._desk is not None
        return self._desk

    def _late_stop(self, epoch: int | None) -> bool:
        refused = epoch is not None and epoch != self.epoch
        self.refused_stops += refused
        return refused

    def _move(self, token: int) -> Heard:
        turn = self.inbox.turn
        if turn.tape is None:
            raise UsageError("there is nothing to tell again: the next turn has not begun")
        turn.tape.seek(token)
        heard = self._stop()
        over = turn.done
        turn.again(token, self._sources.scanner() if self._sources.active else None)

        foretold = self.foretold(turn.tape.pipe)

        def begin(now: float) -> None:
            for cue in turn.moved(self._aligner.snapshot().tokens_out):
                self.declare(cue)
            if self._desk is not None:
                self._desk.plan(foretold)

        self.inbox.put_first(begin)
        if over:
            self._tell(turn)
        return heard

    def _go_on(self, place: Place) -> None:
        """The first turn was told up to a place by an earlier stream: its tokens up to there are read, and not told."""
        turn = self.inbox.turn
        tape = _begun(turn)
        tape.seek(place.token)
        tape.seek(0)

        def begin(now: float) -> None:
            for key, product in place.shown:
                self.declare(Cue(place.boundary, key, product=product))
            for cue in turn.resume(place):
                self.declare(cue)

        self.inbox.put_first(begin)

    def _stop(self) -> Heard:
        """The old epoch ends at the next instant; gives what was heard of it."""
        heard = self.history.heard(self.epoch, self.painted)
        self.epoch += 1
        self._pictures.forget_cues()
        # Cues that were declared but not fed yet belong to the epoch that ends.
        old, self.inbox.cues = self.inbox.cues, deque()

        def stop(now: float) -> None:
            for cue in old:
                self._aligner.feed_cue(cue, now)
            self._aligner.interrupt(now)

        self.inbox.put_first(stop)
        return heard

    def foretold(self, text_pipe: TextPipe) -> list[str]:
        """The pictures that the text which is certain to come will bring, in their order (T9)."""
        if not (self._sources.active and isinstance(text_pipe, Foretells)):
            return []
        return self._sources.foresee(text_pipe.upcoming(FORETOLD_CHARS))

    def _tell_marks(self, text_pipe: TextPipe) -> None:
        if isinstance(text_pipe, FollowsMarks):
            text_pipe.sync_every(self._interval)

    def _tell(self, turn: Turn) -> None:
        self._telling = self.spawn(pump_text(_begun(turn), self.inbox, turn))

    async def _answer(self, on_ask: OnAsk, text: str, heard: Heard, epoch: int) -> None:
        try:
            # Asked even when another question came in the same instant: the application hears of each.
            answer = on_ask(text, heard)
            if inspect.isawaitable(answer):
                if epoch != self.epoch:
                    getattr(answer, "close", _nothing)()
                    return
                self._answering = asyncio.current_task()
                answer = await answer
            pipe, cues = answer if isinstance(answer, tuple) else (answer, ())
            check_pipe("text_pipe", pipe, "Token or str, which on_ask gives")
            given = check_cues(cues)
            if epoch == self.epoch:
                self.say(pipe, given)
            else:
                await close_pipe(pipe)  # the viewer did not wait for it
        except Exception as error:
            if epoch == self.epoch:
                self.inbox.turn.error = self.inbox.fail("the question could not be answered", error)
                self.finish()
            else:
                log.warning("on_ask failed for a question that another overtook", exc_info=True)

    def _turn(self, explicit: Sequence[Cue], *, every: EveryInterval | None = None) -> Turn:
        scanner = self._sources.scanner() if self._sources.active else None
        if scanner is not None:
            for cue in explicit:
                scanner.explicit(cue)
        return Turn(self._found, every=every, scanner=scanner, script=explicit)


def _nothing() -> None:
    """What an awaitable without `close` needs."""


def check_cues(cues: object) -> list[Cue]:
    """The cues as a list.

    Raises:
        UsageError: it is no sequence of Cue.
    """
    if not isinstance(cues, Sequence) or not all(isinstance(cue, Cue) for cue in cues):
        raise UsageError("cues is no list of Cue; give [Cue(anchor, key), ...], or None for one at every interval")
    return list(cues)


def check_pipe(name: str, pipe: object, gives: str) -> None:
    """Refuse what cannot be iterated.

    Raises:
        UsageError: it is no async iterator.
    """
    if not hasattr(pipe, "__aiter__"):
        raise UsageError(f"{name} is {type(pipe).__name__}; it must be an async iterator of {gives}")


def _begun(turn: Turn) -> Tape:
    """The tape of a turn that has begun."""
    assert turn.tape is not None
    return turn.tape
