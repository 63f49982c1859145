"""The pictures of a stream: which are wanted, which came, which will not come."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable

from multimodal.pipes.base import Describes, Fits, ImagePipe, Wants
from multimodal.pumps import Inbox, describe, pump_images
from multimodal.sync.aligner import Aligner
from multimodal.values import Cue, EncodedImage, ViewerNeeds

__all__ = ["PictureDesk"]

log = logging.getLogger(__name__)

LOOK_AHEAD = 8
"""Pictures asked for before they are due. All at once, a catalogue of 54 photographs kept both processors busy for
three seconds, and the page missed frames; with eight, the next is still several seconds early at a reader's pace."""


class PictureDesk:
    """Between the image pipe and the aligner.

    Args:
        pipe: the image pipe (I1-I8).
        inbox: takes what is to be fed.
        aligner: is told of pictures and failures.
        cues: those known from the start.
    """

    def __init__(self, pipe: ImagePipe, inbox: Inbox, aligner: Aligner, cues: Iterable[Cue]) -> None:
        self._pipe, self._inbox, self._aligner = pipe, inbox, aligner
        # Asked once: whether an object fits a protocol costs microseconds, and cues are many.
        self._wants = pipe if isinstance(pipe, Wants) else None
        self._describes = pipe if isinstance(pipe, Describes) else None
        self._cues = list(cues)
        self._pictures: dict[str, EncodedImage] = {}
        self._settled: set[str] = set()
        self._over = ""
        self._later: deque[str] = deque()
        self._spawn: Callable[[Coroutine[object, object, None]], object] | None = None

    @property
    def over(self) -> bool:
        """No further picture will come."""
        return bool(self._over)

    def start(self, spawn: Callable[[Coroutine[object, object, None]], object], may_come: Iterable[str]) -> None:
        """Begin to pull the pipe, and hand it the beginning of the plan, soonest first.

        Args:
            spawn: runs a coroutine as a task of the stream.
            may_come: pictures that the narration itself may bring, wanted after those of the cues.
        """
        self._spawn = spawn
        every = self._inbox.turn.every
        planned = [cue.key for cue in sorted(self._cues, key=lambda cue: cue.anchor)]
        keys = every.keys if every else list(dict.fromkeys([*planned, *may_come]))
        self._later.extend(keys)
        if keys:
            self.advance(LOOK_AHEAD)
        elif self._wants is not None:
            self._wants.want((), final=every is not None)
        spawn(pump_images(self._pipe, self._inbox, self._take, self._fail, self._no_more))

    def advance(self, count: int) -> None:
        """So many cues have their outcome: ask for as many further pictures of the plan."""
        if not self._later:
            return
        keys = [self._later.popleft() for _ in range(min(count, len(self._later)))]
        if self._wants is not None and not self._over:
            self._wants.want(tuple(keys), final=self._inbox.turn.every is not None and not self._later)
        if self._describes is not None and self._spawn is not None:
            self._spawn(describe(self._describes, keys, self._inbox, self._aligner.feed_asset))

    def fit(self, viewer: ViewerNeeds) -> None:
        """The viewer said what it can show (I10)."""
        if isinstance(self._pipe, Fits):
            self._pipe.fit(viewer)

    def want(self, cue: Cue) -> None:
        """A cue was declared: its picture is needed."""
        self._cues.append(cue)
        if self._wants is not None and not self._over:
            self._wants.want([cue.key])
        elif self._over and cue.key not in self._settled:
            self._fail(cue.key, self._over)

    def forget_cues(self) -> None:
        """The turn they belong to is over: their pictures are no longer due."""
        self._cues.clear()

    def get(self, key: str) -> EncodedImage | None:
        """The bytes of a picture that came."""
        return self._pictures.get(key)

    def due(self, key: str) -> int | None:
        """The boundary at which a picture is wanted first; None = no cue names it."""
        every = self._inbox.turn.every
        if every is not None and (anchor := every.anchor(key)) is not None:
            return anchor
        return min((cue.anchor for cue in self._cues if cue.key == key), default=None)

    def first(self, boundary: int) -> list[str] | None:
        """The pictures that stand up to `boundary`: what a preroll waits for; None = not known yet."""
        every = self._inbox.turn.every
        if every is None:
            return [cue.key for cue in self._cues if cue.anchor <= boundary]
        keys = every.first(boundary)
        return keys if len(keys) > 1 or self._over else None

    def _take(self, image: EncodedImage) -> None:
        if image.key in self._pictures:
            log.warning("the image pipe gave picture %r twice; the first is kept", image.key)
            return
        self._pictures[image.key] = image
        self._settled.add(image.key)
        turn = self._inbox.turn
        if turn.every is not None and turn.every.anchor(image.key) is None:
            turn.every.add(image.key)
            if turn.began:
                self._inbox.cues.extend(turn.every.reach(turn.fed))
        self._inbox.put(lambda now: self._aligner.feed_image(image, now))

    def _fail(self, key: str, reason: str) -> None:
        self._settled.add(key)
        self._inbox.put(lambda now: self._aligner.feed_image_failed(key, reason, now))

    def _no_more(self, reason: str, message: str) -> None:
        self._over = reason
        if message:
            self._inbox.put(lambda now: self._aligner.feed_error("image_pipe", message, now))
        for key in {cue.key for cue in self._cues} - self._settled:
            self._fail(key, reason)
        self._inbox.wake()
