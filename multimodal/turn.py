"""One turn of a narration on its way into the aligner: its tokens, and the cues that come out of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from multimodal.errors import UsageError
from multimodal.sync.aligner import Aligner
from multimodal.sync.cues import EveryInterval
from multimodal.sync.scanner import Report, Scanned, Scanner
from multimodal.tape import Tape
from multimodal.values import Cue, Place, Token

__all__ = ["Turn"]


class Turn:
    """The tokens of one text pipe that wait to be fed, and whether more will come.

    Args:
        declare: feeds a cue that the turn itself brings, with its anchor on the stream's boundaries.
        every: pictures at every interval; only a stream's first turn has them.
        scanner: reads the tokens for cues; None = they pass as they are.
        script: its explicit cues, with anchors counted from the turn's beginning.
    """

    def __init__(
        self,
        declare: Callable[[Cue, float], None],
        *,
        every: EveryInterval | None = None,
        scanner: Scanner | None = None,
        script: Sequence[Cue] = (),
    ) -> None:
        self.tokens: deque[Token] = deque()
        self.done = False
        self.error = ""
        self.every, self.scanner, self.script = every, scanner, list(script)
        self.tape: Tape | None = None
        # Where it was told from: (the stream's boundary, the token of the turn), once more after each move.
        self._told: list[tuple[int, int]] = [(0, 0)]
        self.reports: list[Report] = []
        self.fed = 0
        self.began = False
        self._next = 0
        # Told by an earlier stream: how many tokens are still to be read in silence, and what became of their cues.
        self._silent = self._floor = 0
        self._settled: frozenset[tuple[int, str]] = frozenset()
        self._tell_cue = declare
        self._ended = False

    @property
    def base(self) -> int:
        """The stream's boundary from which the tokens now being told count."""
        return self._told[-1][0]

    def begin(self, base: int) -> None:
        """Nothing was told yet: the turn begins at this boundary of the stream."""
        self._told = [(base, 0)]

    def resume(self, place: Place) -> list[Cue]:
        """It was told up to a place by an earlier stream; gives the explicit cues that are still to come."""
        if self.every is not None and place.token != place.boundary:
            self.script += self.every.cues()
            self.every = None
        shift = place.boundary - place.token
        self._told, self._silent, self._floor = [(shift, 0)], place.token, place.base
        self._settled = frozenset(place.settled)
        cues = [cue.at(cue.anchor + shift) for cue in self.script]
        return [cue for cue in cues if not self._over(cue)]

    def _over(self, cue: Cue) -> bool:
        """The earlier stream has settled it, or had left its place behind in an earlier epoch."""
        return cue.anchor < self._floor or (cue.anchor, cue.key) in self._settled

    def _declare(self, cue: Cue, now: float) -> None:
        if not self._over(cue):
            self._tell_cue(cue, now)

    def place(self, boundary: int) -> int:
        """The token of the turn that stands, or stood last, at a boundary of the stream.

        Raises:
            UsageError: the boundary belongs to an earlier turn.
        """
        for base, token in reversed(self._told):
            if boundary >= base:
                return token + boundary - base
        raise UsageError(f"boundary {boundary} belongs to an earlier turn; this one began at {self._told[0][0]}")

    def again(self, token: int, scanner: Scanner | None) -> None:
        """Forget what waits; the tape goes on from `token`. Its pictures at every interval become explicit cues."""
        if self.every is not None:
            self.script += self.every.cues()
            self.every = None
        self.tokens.clear()
        self.scanner, self.fed, self.began = scanner, 0, False
        self.done = self._ended = False
        self._next = token

    def moved(self, base: int) -> list[Cue]:
        """It is told again from `base` of the stream: the explicit cues from there on, on the stream's boundaries."""
        self._told.append((base, self._next))
        return [cue.at(base + cue.anchor - self._next) for cue in self.script if cue.anchor >= self._next]

    @property
    def waiting(self) -> bool:
        """Something could be fed: tokens, or the end."""
        return bool(self.tokens) or (self.done and not self._ended)

    def feed(self, aligner: Aligner, now: float) -> None:
        """Feed what waits, as far as the aligner has room; each cue goes before the token that reaches its boundary."""
        every, scanner = self.every, self.scanner
        if every is not None and not self.began:
            self._reach(every, now)
        self.began = True
        while self.tokens and not aligner.paused:
            token = self.tokens.popleft()
            self.fed += 1
            if every is not None:
                self._reach(every, now)
            if scanner is None:
                self._tell(token, aligner, now)
            else:
                self._let_out(scanner.feed(token), aligner, now)
        if self.done and not self.tokens and not self._ended:
            self._ended = True
            if scanner is not None:
                self._let_out(scanner.flush(), aligner, now)
            if self.error:
                aligner.feed_error("text_pipe", self.error, now, fatal=True)
            aligner.feed_eof(now)

    def _reach(self, every: EveryInterval, now: float) -> None:
        for cue in every.reach(self.fed):
            self._declare(cue, now)

    def _let_out(self, scanned: Scanned, aligner: Aligner, now: float) -> None:
        for cue in scanned.cues:
            self._declare(cue.at(self.base + cue.anchor), now)
        for token in scanned.tokens:
            self._tell(token, aligner, now)
        self.reports.extend(scanned.reports)

    def _tell(self, token: Token, aligner: Aligner, now: float) -> None:
        if self._silent:
            self._silent -= 1
        else:
            aligner.feed_token(token, now)
