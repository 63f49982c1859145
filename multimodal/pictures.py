"""The pictures of a stream: which are wanted, and when; which came, and which will not come.

F1. The plan is asked for soonest first, `LOOK_AHEAD` pictures before they are due; each outcome lets one more in.
F2. The plan is what is known of the narration: its cues; the names in the text that is certain to come (T9); the
    catalogue, where it is small. A cue that the narration brings unforeseen is asked for at once.
F3. What only may be needed (`expect`: retrieval results, say) is asked for when everything planned has arrived: at
    the viewer, if one says so (`ready`). It is taken back (I11) as soon as something unforeseen is due, and asked for
    again later.
F4. An interruption takes back what the turn before it wanted (I11) and has not come.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable

from multimodal.pipes.base import Describes, Fits, Forgets, ImagePipe, Wants
from multimodal.pumps import Inbox, describe, pump_images
from multimodal.shelf import Shelf
from multimodal.sync.aligner import Aligner
from multimodal.values import Cue, EncodedImage, ViewerNeeds

__all__ = ["PictureDesk"]

log = logging.getLogger(__name__)

LOOK_AHEAD = 8
"""Pictures asked for before they are due. All at once, a catalogue of 54 photographs kept both processors busy for
three seconds, and the page missed frames; with eight, the next is still several seconds early at a reader's pace."""
LIKELY_AHEAD = 3
"""Pictures that only may be needed and are in work at one time."""


class PictureDesk:
    """Between the image pipe and the aligner (F1-F4).

    Args:
        pipe: the image pipe (I1-I11).
        inbox: takes what is to be fed.
        aligner: is told of pictures and failures.
        cues: those known from the start.
    """

    def __init__(self, pipe: ImagePipe, inbox: Inbox, aligner: Aligner, cues: Iterable[Cue]) -> None:
        self._pipe, self._inbox, self._aligner = pipe, inbox, aligner
        # Asked once: whether an object fits a protocol costs microseconds, and cues are many.
        self._wants = pipe if isinstance(pipe, Wants) else None
        self._describes = pipe if isinstance(pipe, Describes) else None
        self._forgets = pipe if isinstance(pipe, Forgets) else None
        self._cues = list(cues)
        self._pictures = Shelf()
        self._settled: set[str] = set()
        self._ready: set[str] | None = None  # what the viewer holds decoded; None = none says so
        self._asked: dict[str, None] = {}  # of the pipe, and not settled
        self._guessed: dict[str, None] = {}  # the part of it that only may be needed
        self._over = ""
        self._later: deque[str] = deque()
        self._likely: deque[str] = deque()
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
        keys = every.keys if every else [*planned, *may_come]
        self.plan(keys)
        if not keys and self._wants is not None:
            self._wants.want((), final=every is not None)
        spawn(pump_images(self._pipe, self._inbox, self._take, self._fail, self._no_more))
        self._guess()

    def plan(self, keys: Iterable[str]) -> None:
        """The narration will bring these, in this order, after what is planned already (F1)."""
        known = {*self._later, *self._asked, *self._settled}
        self._later.extend(key for key in dict.fromkeys(keys) if key not in known)
        self.advance(max(0, LOOK_AHEAD - len(self._asked)))

    def expect(self, keys: Iterable[str]) -> None:
        """These may be needed, the likeliest first (F3); they go before what was expected earlier."""
        fresh = [key for key in dict.fromkeys(keys) if key not in self._asked and key not in self._settled]
        self._likely = deque([*fresh, *(key for key in self._likely if key not in set(fresh))])
        self._guess()

    def advance(self, count: int) -> None:
        """So many cues have their outcome: ask for as many further pictures of the plan (F1)."""
        keys = [self._later.popleft() for _ in range(min(count, len(self._later)))]
        if keys:
            self._ask(keys)
        else:
            self._guess()

    def fit(self, viewer: ViewerNeeds) -> None:
        """The viewer said what it can show (I10); from now on it says what it holds decoded."""
        self._ready = set() if self._ready is None else self._ready
        if isinstance(self._pipe, Fits):
            self._pipe.fit(viewer)

    def ready(self, key: str) -> None:
        """The viewer holds a picture decoded, or cannot decode it."""
        if self._ready is not None:
            self._ready.add(key)
            self._guess()

    def want(self, cue: Cue, *, at_once: bool = False) -> None:
        """A cue was declared: its picture is needed, `at_once` if nobody foresaw it (F2)."""
        self._cues.append(cue)
        key = cue.key
        if self._over and key not in self._settled:
            return self._fail(key, self._over)
        if key in self._settled:
            return
        self._guessed.pop(key, None)
        if key in self._asked:
            if at_once and self._wants is not None:
                self._wants.want([key])  # before what was asked for with it
            return
        if not at_once and len(self._asked) >= LOOK_AHEAD:
            if key not in self._later:
                self._later.append(key)
            return
        if key in self._later:
            self._later.remove(key)
        guessed = list(self._guessed)
        if guessed and self._forgets is not None:
            self._take_back(guessed)
            self._likely.extendleft(reversed(guessed))
        self._ask([key])

    def forget_cues(self) -> None:
        """The turn they belong to is over: its pictures are no longer due, those that have not come not wanted (F4)."""
        self._cues.clear()
        if self._inbox.turn.every is not None:
            return  # its plan is final: a pipe that was told so may have ended, and could give nothing again
        self._later.clear()
        self._likely.clear()
        if self._forgets is not None:
            self._take_back(list(self._asked))

    def _ask(self, keys: list[str]) -> None:
        self._asked.update(dict.fromkeys(keys))
        for key in keys:
            self._guessed.pop(key, None)
        if self._wants is not None and not self._over:
            self._wants.want(tuple(keys), final=self._inbox.turn.every is not None and not self._later)
        if self._describes is not None and self._spawn is not None:
            self._spawn(describe(self._describes, keys, self._inbox, self._aligner.feed_asset))

    def _guess(self) -> None:
        """Ask for what may be needed, once the stream runs and all that is planned has arrived (F3)."""
        if self._spawn is None:
            return
        if self._over or self._later or self._wants is None or any(key not in self._guessed for key in self._asked):
            return
        if self._ready is not None and not self._pictures.keys() <= self._ready:
            return
        keys: list[str] = []
        while self._likely and len(self._guessed) + len(keys) < LIKELY_AHEAD:
            key = self._likely.popleft()
            if key not in self._asked and key not in self._settled:
                keys.append(key)
        if keys:
            self._ask(keys)
            self._guessed.update(dict.fromkeys(keys))

    def _take_back(self, keys: list[str]) -> None:
        if not keys:
            return
        for key in keys:
            self._asked.pop(key, None)
            self._guessed.pop(key, None)
        if self._forgets is not None and not self._over:
            self._forgets.forget(keys)

    def get(self, key: str) -> EncodedImage | None:
        """The bytes of a picture that came."""
        return self._pictures.get(key)

    def close(self) -> None:
        """No picture is asked for any more."""
        self._pictures.close()

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
        self._pictures.put(image)
        self._settle(image.key)
        turn = self._inbox.turn
        if turn.every is not None and turn.every.anchor(image.key) is None:
            turn.every.add(image.key)
            if turn.began:
                self._inbox.cues.extend(turn.every.reach(turn.fed))
        self._inbox.put(lambda now: self._aligner.feed_image(image, now))

    def _settle(self, key: str) -> None:
        self._settled.add(key)
        self._asked.pop(key, None)
        self._guessed.pop(key, None)
        self._guess()

    def _fail(self, key: str, reason: str) -> None:
        self._settle(key)
        self._inbox.put(lambda now: self._aligner.feed_image_failed(key, reason, now))

    def _no_more(self, reason: str, message: str) -> None:
        self._over = reason
        if message:
            self._inbox.put(lambda now: self._aligner.feed_error("image_pipe", message, now))
        for key in {cue.key for cue in self._cues} - self._settled:
            self._fail(key, reason)
        self._inbox.wake()
