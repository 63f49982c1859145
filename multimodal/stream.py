"""MultiModalStream: the asyncio shell around the aligner. It moves items in and events out; the rules are not here."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from multimodal.errors import PipeError, UsageError
from multimodal.events import AnyEvent, ProductBrief
from multimodal.pipes.base import Describes, HasKeys, HasProducts, ImagePipe, TextPipe, Wants
from multimodal.sync.aligner import Aligner
from multimodal.sync.cues import EveryInterval
from multimodal.sync.rehearsal import SlowPictureAligner
from multimodal.values import Cue, EncodedImage, ImageFailure, LatePolicy, Product, Token
from multimodal.wire import Bye, ClientMessage, Hello, Ready

__all__ = ["MultiModalStream"]

log = logging.getLogger(__name__)

TOKENS_AHEAD = 64
"""Tokens that may wait for the consumer before the text pipe is no longer pulled."""
PICTURES_AHEAD = 16
"""Pictures that may wait for the consumer before the image pipe is no longer pulled."""
TOKEN_LIMIT = 8192
"""Characters of one token: escaped as JSON it still fits one message of 60 KiB."""
CLOSE_LIMIT = 5.0
"""Seconds a pipe may take to close before the stream goes on without it."""
DESCRIBE_BATCH = 4
"""Pictures described in one call: few enough that the first slots are reserved at once."""


class MultiModalStream:
    """Aligns the pictures of an image pipe to the tokens of a text pipe and emits one sequence of events.

    Use it as ``async with MultiModalStream(...) as stream: async for event in stream``. It is pulled: while nobody
    iterates, the text pipe stops after a bounded number of tokens. Leaving the block, or cancelling, stops both pipes
    and closes them.

    Args:
        text_pipe: an async iterator of `Token` or `str`, one token each (`multimodal.pipes.base`, T1-T6).
        image_pipe: an async iterator of `EncodedImage` or `ImageFailure` (I1-I8).
        sync_interval: tokens between two sync marks.
        cues: pictures tied to boundaries; None = picture i at boundary i * sync_interval.
        late: what a cue does when its picture is not ready: ``placeholder``, ``hold`` or ``skip`` (R4).
        max_hold: seconds that ``hold`` waits at most.
        min_dwell: must be 0 until it is built (R10).
        lead: must be 0 until it is built.
        preroll: seconds that the first token waits at most for the pictures of the first two marks.
        swap_wait: seconds that the end waits at most for pictures still behind their previews (R4b).
        slow_images: rehearse slow pictures: each is ready only this many seconds after its first mark; 0 = off.

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
        cues: Sequence[Cue] | None = None,
        late: LatePolicy = "placeholder",
        max_hold: float = 0.25,
        min_dwell: float = 0.0,
        lead: int = 0,
        preroll: float = 1.0,
        swap_wait: float = 1.0,
        slow_images: float = 0.0,
    ) -> None:
        for name, pipe, gives in (
            ("text_pipe", text_pipe, "Token or str"),
            ("image_pipe", image_pipe, "EncodedImage"),
        ):
            if not hasattr(pipe, "__aiter__"):
                hint = "; wrap text in ScriptTextPipe(...)" if isinstance(pipe, str | list) else ""
                raise UsageError(f"{name} must be an async iterator of {gives}, not {type(pipe).__name__}{hint}")
        for name, value in (("min_dwell", min_dwell), ("lead", lead)):
            if value:
                raise UsageError(f"{name}={value} is not built yet; leave it at 0")
        if not preroll >= 0 or not slow_images >= 0:
            raise UsageError(f"preroll={preroll} and slow_images={slow_images} must be 0 or more seconds")
        self.sid = uuid.uuid4().hex[:12]
        self.sync_interval = sync_interval
        self.late: LatePolicy = late
        settings: dict[str, Any] = {
            "late": late,
            "max_hold": max_hold,
            "swap_wait": swap_wait,
            "sid": self.sid,
            "products": [_brief(product) for product in _products(image_pipe)],
            "token_unit": getattr(text_pipe, "token_unit", "token"),
        }
        self._aligner = (
            SlowPictureAligner(slow_images, sync_interval, **settings)
            if slow_images
            else Aligner(sync_interval, **settings)
        )
        self._text, self._images = text_pipe, image_pipe
        self._every: EveryInterval | None = None
        self._declared: list[Cue] = sorted(cues or (), key=lambda cue: cue.anchor)
        if cues is None:
            self._every = EveryInterval(sync_interval, image_pipe.keys() if isinstance(image_pipe, HasKeys) else ())
        # Fed in this order at one instant: cues, tokens, then pictures and acks (R2).
        self._cues: deque[Cue] = deque(self._declared)
        self._tokens: deque[Token] = deque()
        self._others: deque[Callable[[float], object]] = deque()
        self._pictures: dict[str, EncodedImage] = {}
        self._settled: set[str] = set()
        self._text_done = self._images_done = self._closed = self._paused = self._speaking = False
        self._preroll, self._preroll_until = preroll, 0.0
        self._failure: PipeError | None = None
        self._text_error = ""
        self._tokens_fed = 0
        self._group: asyncio.TaskGroup | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiter: asyncio.Future[None] | None = None
        self._dirty = True
        self._room = asyncio.Event()
        self._bundle: deque[AnyEvent] = deque()

    # ---- what an application calls -----------------------------------------------------------------------------

    async def __aenter__(self) -> MultiModalStream:
        if self._group is not None or self._closed:
            raise UsageError("a MultiModalStream runs once; make a new one for another run")
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        jobs = [self._pump_text(), self._pump_images()]
        keys = list(self._every.keys if self._every else dict.fromkeys(cue.key for cue in self._declared))
        if isinstance(self._images, Wants):
            self._images.want(keys, final=self._every is not None)
        if isinstance(self._images, Describes) and keys:
            jobs.append(self._describe(self._images, keys))
        self._tasks = [self._group.create_task(job) for job in jobs]
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
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        else:
            for pipe in (self._text, self._images):
                await _close(pipe)
        self._wake()

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
        cue = Cue(anchor, key, late, max_hold, product)
        self._declared.append(cue)
        self._cues.append(cue)
        if isinstance(self._images, Wants):
            self._images.want([key])
        if self._images_done and key not in self._settled:
            self._fail_picture(key, "not_found")
        self._wake()

    def pause(self) -> None:
        """Stop pulling text; pictures go on being prepared."""
        self._paused = True

    def resume(self) -> None:
        """Go on after a pause."""
        self._paused = False
        self._wake()
        self._room.set()

    def ack(self, message: ClientMessage) -> None:
        """What a viewer said: `Hello` makes it an acking viewer, `Ready` makes a picture ready, `Bye` ends that."""
        if isinstance(message, Hello | Ready | Bye):
            self._others.append(lambda now: self._aligner.feed_ack(message, now))
            self._wake()

    def picture(self, key: str) -> EncodedImage | None:
        """The bytes behind an `asset` event that lists variants."""
        return self._pictures.get(key)

    def due(self, key: str) -> int | None:
        """The boundary at which a picture is wanted first; None = no cue names it."""
        if self._every is not None and (anchor := self._every.anchor(key)) is not None:
            return anchor
        return min((cue.anchor for cue in self._declared if cue.key == key), default=None)

    # ---- events out ----------------------------------------------------------------------------------------------

    async def _pull(self) -> list[AnyEvent]:
        if self._group is None:
            raise UsageError("use `async with MultiModalStream(...) as stream:` before iterating")
        loop = asyncio.get_running_loop()
        while not (events := self._aligner.events()):
            if self._aligner.ended or self._closed:
                if self._failure is not None:
                    failure, self._failure = self._failure, None
                    raise failure
                return []
            if not self._dirty:
                await self._sleep(loop)
            self._feed(loop.time())
        return events

    async def _sleep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until something comes in or the next deadline. A bare future: `wait_for` would cost a task per token."""
        timer = self._aligner.next_timer()
        if not self._speaking and (timer is None or self._preroll_until < timer):
            timer = self._preroll_until
        self._waiter = loop.create_future()
        handle = None if timer is None else loop.call_at(timer, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if handle is not None:
                handle.cancel()

    def _feed(self, now: float) -> None:
        aligner = self._aligner
        self._dirty = False
        timer = aligner.next_timer()
        if timer is not None and timer - now < 1e-6:
            # The loop may wake us a clock tick early; a deadline is met when its timer fired.
            now = max(now, timer)
        if not self._preroll_until:
            self._preroll_until = now + self._preroll
            aligner.handle_timer(now)
        while self._cues:
            aligner.feed_cue(self._cues.popleft(), now)
        if (self._tokens or self._text_done) and self._may_speak(now):
            self._feed_tokens(now)
        while self._others:
            self._others.popleft()(now)
        timer = aligner.next_timer()
        if timer is not None and now >= timer:
            aligner.handle_timer(now)
        self._room.set()

    def _may_speak(self, now: float) -> bool:
        if not self._speaking:
            first = (
                self._every.first(self.sync_interval)
                if self._every
                else [cue.key for cue in self._declared if cue.anchor <= self.sync_interval]
            )
            unknown = self._every is not None and len(first) < 2 and not self._images_done
            if now + 1e-6 < self._preroll_until and (unknown or self._aligner.unready(first)):
                return False
            self._speaking = True
        return not self._paused

    def _feed_tokens(self, now: float) -> None:
        aligner, tokens, every = self._aligner, self._tokens, self._every
        if every is not None and self._tokens_fed == 0:
            for cue in every.reach(0):
                aligner.feed_cue(cue, now)
        while tokens and not aligner.paused:
            token = tokens.popleft()
            self._tokens_fed += 1
            if every is not None and self._tokens_fed % self.sync_interval == 0:
                for cue in every.reach(self._tokens_fed):
                    aligner.feed_cue(cue, now)
            aligner.feed_token(token, now)
        if self._text_done and not tokens:
            if self._text_error:
                aligner.feed_error("text_pipe", self._text_error, now, fatal=True)
            aligner.feed_eof(now)

    def _wake(self) -> None:
        self._dirty = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ---- items in ------------------------------------------------------------------------------------------------

    async def _pump_text(self) -> None:
        count = 0
        try:
            async for item in self._text:
                token = item if isinstance(item, Token) else Token(item)
                if not isinstance(token.text, str) or len(token.text) > TOKEN_LIMIT:
                    raise PipeError(
                        f"gave a token of {type(item).__name__}, {len(str(token.text))} characters; "
                        f"give Token or str of at most {TOKEN_LIMIT} characters"
                    )
                count += 1
                self._tokens.append(token)
                if token.last:
                    # The end shares the instant of the last token where the pipe knows it (T6).
                    return
                self._wake()
                while self._paused or len(self._tokens) >= TOKENS_AHEAD:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:
            self._fail_pipe("text_pipe", f"the text pipe failed after {count} tokens", error)
        finally:
            self._text_done = True
            self._wake()
            await _close(self._text)

    async def _pump_images(self) -> None:
        try:
            async for item in self._images:
                if isinstance(item, EncodedImage):
                    self._take_picture(item)
                elif isinstance(item, ImageFailure):
                    self._fail_picture(item.key, item.reason)
                else:
                    raise PipeError(
                        f"gave {type(item).__name__}; give EncodedImage, or ImageFailure for a picture that failed"
                    )
                while len(self._others) >= PICTURES_AHEAD:
                    self._room.clear()
                    await self._room.wait()
            reason = "not_found"
        except Exception as error:
            reason = "image_pipe_failed"
            self._fail_pipe("image_pipe", f"the image pipe failed after {len(self._settled)} pictures", error)
        finally:
            await _close(self._images)
        self._images_done = True
        for key in {cue.key for cue in self._declared} - self._settled:
            self._fail_picture(key, reason)
        self._wake()

    async def _describe(self, pipe: Describes, keys: list[str]) -> None:
        try:
            for start in range(0, len(keys), DESCRIBE_BATCH):
                for asset in await pipe.describe(keys[start : start + DESCRIBE_BATCH]):
                    self._others.append(partial(self._aligner.feed_asset, asset))
                self._wake()
        except Exception:
            # The same failure comes out of the iteration, with the pictures it costs.
            log.debug("describing pictures failed", exc_info=True)

    def _take_picture(self, image: EncodedImage) -> None:
        if image.key in self._pictures:
            log.warning("the image pipe gave picture %r twice; the first is kept", image.key)
            return
        self._pictures[image.key] = image
        self._settled.add(image.key)
        if self._every is not None and self._every.anchor(image.key) is None:
            self._every.add(image.key)
            for cue in self._every.reach(self._tokens_fed if self._speaking else -1):
                self._cues.append(cue)
        self._others.append(lambda now: self._aligner.feed_image(image, now))
        self._wake()

    def _fail_picture(self, key: str, reason: str) -> None:
        self._settled.add(key)
        self._others.append(lambda now: self._aligner.feed_image_failed(key, reason, now))
        self._wake()

    def _fail_pipe(self, code: str, what: str, error: Exception) -> None:
        message = f"{what}: {error}" if isinstance(error, PipeError) else f"{what}: {type(error).__name__}: {error}"
        failure = PipeError(message, retryable=getattr(error, "retryable", False))
        failure.__cause__ = error
        self._failure = self._failure or failure
        if code == "text_pipe":
            # Told where the text broke off, after the tokens that came before.
            self._text_error = message
        else:
            self._others.append(lambda now: self._aligner.feed_error(code, message, now))


async def _close(pipe: object) -> None:
    """Close a pipe that can be closed; the stream is over, so one that fails to close is only logged."""
    close = getattr(pipe, "aclose", None)
    if close is None:
        return
    try:
        async with asyncio.timeout(CLOSE_LIMIT):
            await close()
    except Exception as error:
        log.warning("closing %s failed: %r", type(pipe).__name__, error)


def _products(image_pipe: object) -> Sequence[Product]:
    return image_pipe.products if isinstance(image_pipe, HasProducts) else ()


def _brief(product: Product) -> ProductBrief:
    price = "" if product.price is None else str(product.price)
    return ProductBrief(product.id, product.title, product.aliases, price, product.currency, product.url)
