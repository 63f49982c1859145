"""The contract: when a picture may appear between the words. Pure and deterministic; `now` is an argument (R8).

Feed items, then drain `events()`, then call again at `next_timer()`. Boundary k lies after k tokens; an anchor is a
boundary; sync marks stand at 0, at every `sync_interval`-th boundary and at the end n, each once.

R1   Text leaves in the order it came, unchanged, and is never dropped: one event per token, or per run of tokens of
     one lane released by one call; it never reaches over a mark.
R2   A mark emits `sync`, then the outcome of every unsettled cue with anchor <= mark, by (anchor, declared); then text
     goes on. So a picture never comes before its anchor and at most `sync_interval - 1` tokens after it.
R3   Each cue has exactly one outcome, Reveal or CueMissed. Anchor > n: `beyond_end`. Declared after its mark passed:
     out at the next mark with `declared_late`; after the end mark: `too_late`.
R4   A picture is ready when it was fed; with exactly one acking viewer, when that viewer said so. Not ready at its
     turn: `placeholder` reveals a preview, `hold` makes the text and the mark's later cues wait until the mark's
     emission + `max_hold`, `skip` misses it (`late`).
R4b  Each preview gets exactly one Swap. The end waits at most `swap_wait` for open ones.
R5   No hold ends early unless its picture is ready or failed.
R6   Nothing follows StreamEnd.   R7   `seq` has no gaps, `pts_ms` never falls.
R8   The same sequence of (item, now) gives the same log.
R9   `interrupt` drops what has not left, settles every open cue and preview (`interrupted`) and raises the epoch;
     nothing of an older epoch comes out again. Marks then count from the boundary where the new epoch began.
R10  A reveal within `min_dwell` of the current picture takes the first mark after it (outside R2's bound, `deferred`);
     cues of one mark never crowd each other. At the end all come out on the end mark, in order.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from multimodal.errors import UsageError
from multimodal.events import (
    VERSION,
    AnyEvent,
    AssetReserved,
    CueMissed,
    ErrorRaised,
    Interrupted,
    ProductBrief,
    Reveal,
    StreamEnd,
    StreamStart,
    Swap,
    SyncMark,
    Text,
)
from multimodal.values import LATE_POLICIES, Asset, Cue, EncodedImage, LatePolicy, Place, Token, check_seconds
from multimodal.wire import Bye, ClientMessage, Hello, Ready

__all__ = ["Aligner", "Snapshot"]


class Snapshot(msgspec.Struct, frozen=True):
    """Where a stream stands: counts of tokens and cues, the last mark (-1 = none), the picture last revealed."""

    tokens_in: int
    tokens_out: int
    mark: int
    cues_open: int
    swaps_open: int
    current: str
    ended: bool


class _Declared(msgspec.Struct, order=True):
    """A cue as declared; ordered by (anchor, number), the order in which R2 settles."""

    anchor: int
    number: int
    cue: Cue
    late: bool


class Aligner:
    """Places pictures between tokens.

    Args:
        sync_interval: tokens between two sync marks, at least 1.
        late: what a cue without its own policy does when its picture is not ready at its turn.
        max_hold: seconds after its mark's emission that a ``hold`` waits.
        min_dwell: seconds that a picture stays before another mark's picture takes its place (R10).
        swap_wait: seconds after the end mark's last outcome that the end waits for open swaps.
        high_water: held tokens from which `paused` asks the shell to stop pulling; it asks again below half.
        sid: the stream's id, put on every event.
        products, formats, token_unit, narrator: told to the viewer in the first event.
        place: where an earlier stream stood, which this one goes on: its numbers go on, and the first event is the
            interruption that it was (R9); None = it begins.

    Raises:
        UsageError: an argument out of range; later, an item fed out of order (a token after the end, `now` going back).
    """

    def __init__(
        self,
        sync_interval: int = 3,
        *,
        late: LatePolicy = "placeholder",
        max_hold: float = 0.25,
        min_dwell: float = 0.0,
        swap_wait: float = 1.0,
        high_water: int = 256,
        sid: str = "",
        products: Sequence[ProductBrief] = (),
        formats: Sequence[str] = (),
        token_unit: str = "token",
        narrator: str = "",
        place: Place | None = None,
    ) -> None:
        if not isinstance(sync_interval, int) or isinstance(sync_interval, bool) or sync_interval < 1:
            raise UsageError(f"sync_interval={sync_interval!r} must be a whole number of tokens, at least 1")
        if late not in LATE_POLICIES:
            raise UsageError(f"late={late!r} is unknown; use one of {', '.join(LATE_POLICIES)}")
        for name, value in (("max_hold", max_hold), ("min_dwell", min_dwell), ("swap_wait", swap_wait)):
            check_seconds(name, value)
        self._late: LatePolicy = late
        self._interval, self._max_hold = sync_interval, max_hold
        self._swap_wait, self._high_water, self._min_dwell = swap_wait, high_water, min_dwell
        self._start = (sync_interval, tuple(products), tuple(formats), token_unit, late, min_dwell, narrator)
        self._sid, self._epoch, self._base = sid, 0, 0
        self._place = place
        self._out: list[AnyEvent] = []
        self._seq = 0
        self._began: float | None = None
        self._now = 0.0
        self._pts_ms = 0.0
        # text
        self._held: deque[Token] = deque()
        self._tokens_in = self._tokens_out = self._chars_out = 0
        self._eof = False
        self._reason = "complete"
        if place is not None:
            self._sid, self._epoch, self._seq = place.sid, place.epoch + 1, place.seq + 1
            self._tokens_in = self._tokens_out = self._base = place.boundary
            self._chars_out, self._pts_ms = place.char, place.pts_ms
        # cues: waiting for their mark (a heap), due on the open mark (sorted), and previews without their swap
        self._waiting: list[_Declared] = []
        self._due: list[_Declared] = []
        self._swaps: dict[str, list[_Declared]] = {}
        self._declared: list[Cue] = []
        self._mark = -1
        self._mark_at = 0.0
        self._hold_until: float | None = None
        self._end_at: float | None = None
        self._ending = self._ended = False
        # pictures
        self._assets: dict[str, Asset] = {}
        self._images: set[str] = set()
        self._decoded: set[str] = set()
        self._failed: dict[str, str] = {}
        self._asked: set[str] = set()
        self._viewers = 0
        self._current = ""
        self._current_until = 0.0
        self._current_home = -1

    # ---- what comes in -------------------------------------------------------------------------------------------

    def feed_token(self, token: Token, now: float) -> None:
        """The next token of the narration."""
        if self._eof:
            raise UsageError("a token after the end of the text; feed_eof is the last word of a text pipe")
        self._enter(now)
        self._tokens_in += 1
        self._held.append(token)
        if self._hold_until is None:
            self._flow()

    def feed_eof(self, now: float) -> None:
        """The text is complete. Twice is once."""
        self._enter(now)
        if not self._eof:
            self._eof = True
            self._flow()

    def feed_error(self, code: str, message: str, now: float, *, fatal: bool = False) -> None:
        """Tell the viewer of a failure; `fatal` = the text broke off, so the end's reason will be ``error``."""
        self._enter(now)
        if self._ended:
            return
        if fatal:
            self._reason = "error"
        self._emit(ErrorRaised, code, message)

    def feed_cue(self, cue: Cue, now: float) -> int:
        """Tie a picture to a boundary; gives the cue's number.

        Raises:
            UsageError: the stream has ended, so that no outcome could be told (R3, R6).
        """
        self._enter(now)
        if self._ended:
            raise UsageError(f"cue for {cue.key!r} at {cue.anchor}: the stream has ended")
        number = len(self._declared)
        self._declared.append(cue)
        self._asked.add(cue.key)
        own_mark = self._home(cue.anchor)
        if self._eof:
            own_mark = min(own_mark, max(self._tokens_in, cue.anchor))
        holding = self._hold_until is not None
        # A mark that a hold keeps open has not passed: a cue of that very mark is still in time.
        passed = cue.anchor < self._base or (own_mark < self._mark if holding else own_mark <= self._mark)
        declared = _Declared(cue.anchor, number, cue, passed)
        if self._end_at is not None:
            self._miss(declared, "beyond_end" if cue.anchor > self._tokens_out else "too_late")
        elif holding and cue.anchor <= self._mark:
            insort(self._due, declared)
            self._flow()
        else:
            heapq.heappush(self._waiting, declared)
        return number

    def feed_asset(self, asset: Asset, now: float) -> None:
        """What is known of a picture before its bytes; told to the viewer at once."""
        self._enter(now)
        if not self._ended:
            self._reserve(asset)

    def feed_image(self, image: EncodedImage, now: float) -> None:
        """A picture's bytes are there. Its `asset` goes out first, or again with its variants."""
        self._enter(now)
        if self._ended:
            return
        self._reserve(image.asset())
        self._images.add(image.key)
        self._failed.pop(image.key, None)
        self._reconsider((image.key,))

    def feed_image_failed(self, key: str, reason: str, now: float) -> None:
        """A picture will not come: its cues are missed with `reason` at their marks (R3), its previews are settled."""
        self._enter(now)
        if not self._ended and key not in self._images:
            self._fail(key, reason)

    def feed_ack(self, ack: ClientMessage, now: float) -> None:
        """What a viewer said. `Hello` and `Bye` count acking viewers, `Ready` makes a picture ready (R4)."""
        self._enter(now)
        if self._ended:
            return
        if isinstance(ack, Ready):
            if ack.key not in self._images:
                return
            if ack.ok:
                self._decoded.add(ack.key)
                self._reconsider((ack.key,))
            elif self._viewers == 1 and ack.key not in self._decoded:
                self._fail(ack.key, ack.reason or "decode")
        elif isinstance(ack, Hello | Bye):
            self._viewers = max(0, self._viewers + (1 if isinstance(ack, Hello) else -1))
            self._reconsider(tuple(self._swaps))

    def interrupt(self, now: float) -> int:
        """Stop here (R9); gives the new epoch. What follows is a new turn, or `feed_eof` to end the stream.

        Raises:
            UsageError: the stream has ended.
        """
        self._enter(now)
        if self._ended:
            raise UsageError("interrupt: the stream has ended")
        self._held.clear()
        self._tokens_in = self._tokens_out
        for declared in (*self._due, *sorted(self._waiting)):
            self._miss(declared, "interrupted")
        self._due, self._waiting = [], []
        for key in tuple(self._swaps):
            self._swap(key, "interrupted")
        self._hold_until = self._end_at = None
        self._eof = self._ending = False
        self._reason = "complete"
        self._mark, self._base = -1, self._tokens_out
        self._current_until, self._current_home = 0.0, -1
        self._epoch += 1
        self._emit(Interrupted)
        return self._epoch

    def handle_timer(self, now: float) -> None:
        """The time of `next_timer` has come: an overdue hold or the wait for open swaps ends."""
        self._enter(now)
        if self._hold_until is not None and now >= self._hold_until:
            self._flow()
        if self._end_at is not None and not self._ended and now >= self._end_at:
            for key in tuple(self._swaps):
                self._swap(key, "swap_wait")
            self._end()

    # ---- what comes out ------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """When `handle_timer` is to be called, if nothing else happens before."""
        if self._hold_until is not None:
            return self._hold_until
        return None if self._ended else self._end_at

    def events(self) -> list[AnyEvent]:
        """What was emitted since the last call: one bundle when drained after all items of one `now`."""
        out, self._out = self._out, []
        return out

    @property
    def paused(self) -> bool:
        """Held tokens stand above the high water mark: stop pulling text."""
        return len(self._held) >= self._high_water

    @property
    def plan(self) -> dict[int, Cue]:
        """The cues declared so far by number, the stream's own settings filled in where a cue left them open."""
        return {number: self.filled_in(cue) for number, cue in enumerate(self._declared)}

    def filled_in(self, cue: Cue) -> Cue:
        """A cue with the stream's own settings where it left them open."""
        hold = self._max_hold if cue.max_hold is None else cue.max_hold
        return Cue(cue.anchor, cue.key, cue.late or self._late, hold, cue.product)

    @property
    def ended(self) -> bool:
        """StreamEnd was emitted (R6)."""
        return self._ended

    def unready(self, keys: Iterable[str]) -> list[str]:
        """Those of `keys` that are neither ready nor failed: what a preroll waits for."""
        return [key for key in keys if not self._ready(key) and key not in self._failed]

    def snapshot(self) -> Snapshot:
        """Where the stream stands."""
        open_cues = len(self._waiting) + len(self._due)
        open_swaps = sum(map(len, self._swaps.values()))
        return Snapshot(
            self._tokens_in, self._tokens_out, self._mark, open_cues, open_swaps, self._current, self._ended
        )

    # ---- the rules -----------------------------------------------------------------------------------------------

    def _enter(self, now: float) -> None:
        if self._began is None:
            self._began = self._now = now
            if self._place is None:
                self._emit(StreamStart, *self._start)
            else:
                self._began -= self._place.pts_ms / 1000
                self._emit(Interrupted, True)
        elif now < self._now:
            raise UsageError(f"now={now} lies before {self._now}; feed the aligner from one monotonic clock")
        elif now > self._now:
            self._now = now
            self._pts_ms = round((now - self._began) * 1000, 3)

    def _flow(self) -> None:
        """Let out what may leave: marks, their cues, text up to the next mark, until a hold or the end (R1, R2)."""
        held = self._held
        if self._mark < 0 and (held or self._eof):
            self._open_mark()
        elif self._hold_until is not None:
            self._settle()
        while held and self._hold_until is None:
            run = min(len(held), self._interval - (self._tokens_out - self._base) % self._interval)
            token = held.popleft()
            text, lane = token.text, token.lane
            if run > 1:
                run, text = self._join(text, lane, run)
            first = self._tokens_out
            self._tokens_out += run
            self._chars_out += len(text)
            self._emit(Text, first, run, text, lane)
            if (self._tokens_out - self._base) % self._interval == 0:
                self._open_mark()
        if self._eof and not held and self._hold_until is None and self._end_at is None:
            self._close()

    def _join(self, text: str, lane: str, run: int) -> tuple[int, str]:
        """Up to `run` tokens of one lane as one text, the first of which is out of the queue: (how many, text)."""
        held, parts = self._held, [text]
        while len(parts) < run and held[0].lane == lane:
            parts.append(held.popleft().text)
        return len(parts), "".join(parts)

    def _open_mark(self) -> None:
        mark = self._tokens_out
        self._mark, self._mark_at = mark, self._now
        waiting, due = self._waiting, self._due
        while waiting and waiting[0].anchor <= mark:
            insort(due, heapq.heappop(waiting))  # beside cues that R10 deferred to here
        self._emit(SyncMark, mark, self._chars_out, len(due))
        if due:
            self._settle()

    def _settle(self) -> None:
        """Give the open mark's cues their outcomes in order; stop at one whose hold has time left (R2-R5)."""
        due, self._due = self._due, []
        self._hold_until = None
        for place, declared in enumerate(due):
            cue = declared.cue
            policy = cue.late or self._late
            if cue.key in self._failed:
                self._miss(declared, self._failed[cue.key])
            elif not self._right_product(cue):
                self._miss(declared, "wrong_product")
            elif self._crowds(declared):
                self._due.append(declared)
            elif self._ready(cue.key):
                self._reveal(declared, preview=False)
            elif policy == "skip":
                self._miss(declared, "late")
            else:
                wait = 0.0 if policy != "hold" else self._max_hold if cue.max_hold is None else cue.max_hold
                if wait and self._now < self._mark_at + wait:
                    self._hold_until = self._mark_at + wait
                    self._due += due[place:]
                    return
                self._reveal(declared, preview=True)
                self._swaps.setdefault(cue.key, []).append(declared)

    def _home(self, anchor: int) -> int:
        """The mark that a cue belongs to: the first at or after its anchor."""
        return self._base - (self._base - anchor) // self._interval * self._interval

    def _crowds(self, declared: _Declared) -> bool:
        """Whether a reveal now would cut the current picture's dwell short (R10)."""
        if self._ending or self._mark_at >= self._current_until:
            return False
        return self._home(declared.anchor) != self._current_home

    def _close(self) -> None:
        """All text is out: the end mark where none stands yet, the cues that are left, the wait for swaps (R3, R4b)."""
        self._ending = True
        if self._mark != self._tokens_out:
            self._open_mark()
        elif self._due:
            self._settle()
        if self._hold_until is not None:
            return
        while self._waiting:
            declared = heapq.heappop(self._waiting)
            self._miss(declared, "beyond_end" if declared.anchor > self._tokens_out else "too_late")
        self._end_at = self._now + self._swap_wait
        if not self._swaps:
            self._end()

    def _end(self) -> None:
        gone = self._asked | self._failed.keys()
        self._emit(StreamEnd, self._reason, tuple(key for key in self._assets if key not in gone))
        self._ended = True

    def _ready(self, key: str) -> bool:
        return key in (self._decoded if self._viewers == 1 else self._images)

    def _right_product(self, cue: Cue) -> bool:
        """Identity before completeness: a picture of another product is not shown with these words."""
        asset = self._assets.get(cue.key)
        return not (asset and cue.product and asset.product) or asset.product == cue.product

    def _reconsider(self, keys: Sequence[str]) -> None:
        """Something about these pictures changed: swap what can be, then see whether a hold ends."""
        for key in keys:
            if key in self._swaps and self._ready(key):
                self._swap(key)
        if self._hold_until is not None:
            self._flow()
        elif self._end_at is not None and not self._swaps and not self._ended:
            self._end()

    def _fail(self, key: str, reason: str) -> None:
        self._failed[key] = reason
        self._decoded.discard(key)
        if key in self._swaps:
            self._swap(key, reason)
        self._reconsider(())

    def _swap(self, key: str, reason: str = "") -> None:
        for declared in self._swaps.pop(key):
            why = reason if reason or self._right_product(declared.cue) else "wrong_product"
            self._emit(Swap, declared.number, key, not why, why)

    def _reserve(self, asset: Asset) -> None:
        known = self._assets.get(asset.key)
        # A description that comes after the bytes knows less than they do.
        if known == asset or (known and known.variants and not asset.variants):
            return
        self._assets[asset.key] = asset
        self._emit(AssetReserved, *(getattr(asset, name) for name in asset.__struct_fields__))

    def _reveal(self, declared: _Declared, *, preview: bool) -> None:
        cue = declared.cue
        asset = self._assets.get(cue.key)
        product = asset.product if asset else cue.product
        home = self._home(cue.anchor)
        if self._min_dwell and home != self._current_home:
            self._current_until = self._now + self._min_dwell
        self._current, self._current_home = cue.key, home
        deferred = not declared.late and self._mark > home
        self._emit(Reveal, declared.number, cue.key, product, cue.anchor, self._mark, preview, declared.late, deferred)

    def _miss(self, declared: _Declared, reason: str) -> None:
        cue = declared.cue
        asset = self._assets.get(cue.key)
        product = cue.product or (asset.product if asset else "")
        self._emit(CueMissed, declared.number, cue.key, declared.anchor, reason, product)

    def _emit(self, kind: type[AnyEvent], *fields: object) -> None:
        self._out.append(
            kind(VERSION, self._sid, self._epoch, self._seq, self._pts_ms, self._tokens_out, *fields)  # type: ignore[arg-type]
        )
        self._seq += 1
