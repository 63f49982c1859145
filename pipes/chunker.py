"""Tokens that come one by one leave in chunks that end on meaning. Pure; `now` is an argument, in seconds.

C1. The first token with content leaves at once, whatever the size, and takes with it what came before it. What opens
    with a hesitation ("um", "嗯") has no content yet: it goes with the first word that has, or when its time is up.
    Another word that opens ("Well") leaves at once; if it turns out a filler, what follows it leaves at once, too. So
    the first content never comes later than it would without the lane.
C2. Every token leaves once, as it came, in its order; tokens are never split, joined or dropped. Only the lane is set.
C3. A chunk ends where meaning does (`boundaries`): behind a paragraph or list item once it is a quarter full, behind a
    sentence once it is half full, behind a clause once it is three quarters full. At a cap it ends at the last such
    place behind its first quarter, else between two words.
C4. Caps: `size` tokens (and `max_chars` characters), and `max_wait` seconds from a token's coming, `filler_wait` for a
    token of the low lane. No token waits longer than that.
C5. What gives way at a cap, in this order: words may be cut at either cap. Numbers, addresses and abbreviations (B2)
    may wait PATIENCE times as long; they are cut then, and where one alone is longer than `size`. Grapheme clusters
    and cue markers (B1) are never cut: a marker passes both caps.
C6. A filler word, if its score is above 1 - `priority_threshold`, is on the low lane, with the comma behind it. It
    waits for what follows, and ends no chunk while something better can. So 0 turns the lane off, and a higher
    threshold puts more words on it. It is never removed and never overtaken.
C7. A word is judged when its end is known (F1); a token that has to leave before is on the main lane.
C8. Nothing of the low lane stays behind at a sync mark for being there: with `sync_interval` n, tokens that only their
    lane keeps back leave when the boundary k * n behind them has come.
C9. New settings hold from the next border between two chunks on; what is held meets them then.

With size 1 and threshold 0 every token leaves at once.
"""

from __future__ import annotations

import math
from typing import Any

import regex

from multimodal.errors import UsageError
from multimodal.pipes.boundaries import CLAUSE, INSIDE, MARKER, NEVER, PARAGRAPH, SENTENCE, UNIT, WORD, Boundaries
from multimodal.pipes.chunk_settings import ChunkSettings, ChunkStats
from multimodal.pipes.fillers import FillerScorer
from multimodal.pipes.lanes import LOW, MAIN, OPEN, Lanes
from multimodal.values import Token

__all__ = ["PATIENCE", "Chunker"]

PATIENCE = 4
"""How many times `max_wait` a number or an address may wait for its end: a price of six tokens from a model that makes
five a second takes 1.2 s, three times the default `max_wait`."""
_ALL = -2
"""Every border is to be looked at, not only the one that became known."""
FILLERS_AHEAD = 16
"""Low tokens that may wait behind one another: more come from a model that has lost its way."""


_SAYS = regex.compile(r"[^\s\p{P}]")
"""What is content behind a filler: the comma there goes with the filler."""


class Chunker:
    """Holds the tokens of one answer until a chunk is complete (C1-C9).

    Feed tokens, take what each call gives, call again at `next_timer`.

    Args:
        size, priority_threshold, max_wait, filler_wait, sync_interval, max_chars: as in `ChunkSettings`.

    Raises:
        UsageError: a value out of its range.
    """

    def __init__(
        self,
        size: int = 32,
        *,
        priority_threshold: float = 0.3,
        max_wait: float = 0.4,
        filler_wait: float | None = None,
        sync_interval: int | None = None,
        max_chars: int | None = None,
    ) -> None:
        self.stats = ChunkStats()
        self._boundaries = Boundaries()
        self._lanes: Lanes | None = None
        self._tokens: list[Token] = []
        self._arrived: list[float] = []
        self._ends: list[int] = []  # characters up to a token's end
        self._ranks: list[int] = []  # of the border behind a token; that of the last text is not known yet
        self._marks: list[int] = []  # MAIN, LOW or OPEN (not judged yet)
        self._chars = self._out_chars = self._count = 0
        self._mark = 0  # the last boundary on which a sync mark stands
        self._last_text = -1  # the last held token that has text
        self._last_main = -1  # the last held token that is on the main lane for certain
        self._due = math.inf  # when the first of the held tokens has to leave
        self._now = -math.inf
        self._content = False  # the first content is out
        self._guessed = False  # it was not judged when it left
        self._reopened = 0  # and was none: where the filler ended
        self._ended_on = NEVER  # the rank of the last border at which tokens left
        self._pending: ChunkSettings | None = None
        self.settings = ChunkSettings(size, priority_threshold, max_wait, filler_wait, sync_interval, max_chars)
        self._apply(self.settings)

    @property
    def held(self) -> int:
        """Tokens that are held now."""
        return len(self._tokens)

    def configure(self, **changes: Any) -> None:
        """Other settings, by name, from the next border between two chunks on (C9).

        Raises:
            UsageError: an unknown name, or a value out of its range; then nothing changes.
        """
        known = ChunkSettings.__struct_fields__
        if odd := sorted(set(changes) - set(known)):
            raise UsageError(f"configure({', '.join(odd)}=...) is unknown; there are {', '.join(known)}")
        values = {name: getattr(self._pending or self.settings, name) for name in known} | changes
        self._pending = ChunkSettings(**values)
        if not self._tokens:
            self._apply(self._pending)

    def feed(self, token: Token, now: float) -> list[Token]:
        """The next token; gives what leaves now, all of it at one instant."""
        text = token.text
        tokens, ranks = self._tokens, self._ranks
        self._now = now
        self._count += 1
        if text:
            rank = self._boundaries.feed(text)
            # Tokens without text stand at the same place of the text.
            for place in range(max(0, self._last_text), len(tokens)):
                ranks[place] = rank
            self._chars += len(text)
            self._last_text = len(tokens)
        if self._interval and self._count % self._interval == 0:
            self._mark = self._count
        tokens.append(token)
        ranks.append(UNIT)
        self._arrived.append(now)
        self._ends.append(self._chars)
        if self._lanes is None:
            self._marks.append(MAIN)
            self._last_main = len(tokens) - 1
        else:
            self._marks.append(OPEN)
            if self._lanes.feed(text, tokens, self._ends, self._marks):
                self._see_lanes()
            if self._lanes.left_early:
                # What opened was a filler after all, up to here.
                self._reopened = self._lanes.left_early
                self._content = self._content and not self._guessed
        due = now + self._wait
        if due < self._due:
            self._due = due
        if len(tokens) > self.stats.held_high:
            self.stats.held_high = len(tokens)
        if token.last:
            return self.flush()
        if self._one_by_one:
            return self._left(self._release(len(tokens)))
        return self._let_go()

    def next_timer(self) -> float | None:
        """When `handle_timer` is to be called, if nothing is fed before."""
        if not self._tokens:
            return None
        if self._due > self._now:
            return self._due
        # What is overdue stands in a unit or a marker that goes on (C5).
        patience = self._arrived[0] + self._patience(0)
        waits = patience > self._now and any(self._rank(cut) > NEVER for cut in range(1, len(self._tokens) + 1))
        return patience if waits else None

    def handle_timer(self, now: float) -> list[Token]:
        """The time of `next_timer` has come; gives what has to leave."""
        self._now = max(now, self._now)
        return self._let_go() if self._tokens else []

    def flush(self) -> list[Token]:
        """The text is complete, or breaks off: everything leaves."""
        if self._lanes is not None and self._lanes.flush(self._tokens, self._ends, self._marks):
            self._see_lanes()
        return self._left(self._release(len(self._tokens))) if self._tokens else []

    # ---- what leaves -------------------------------------------------------------------------------------------------

    def _let_go(self) -> list[Token]:
        out: list[Token] = []
        fresh = self._last_text - 1  # the border that became known with the last text stands behind this token
        while self._tokens and (cut := self._cut(fresh)):
            settings = self.settings
            out += self._release(cut)
            # Of what is left only the caps can still say something, unless they changed with this border.
            fresh = -1 if self.settings is settings else _ALL
        return self._left(out)

    def _left(self, out: list[Token]) -> list[Token]:
        """What leaves at one instant is one chunk."""
        if out:
            self.stats.chunks += 1
            self.stats.on_meaning += self._ended_on >= CLAUSE
        return out

    def _cut(self, fresh: int) -> int:
        """How many of the held tokens leave now; 0 = none."""
        tokens, last_main = self._tokens, self._last_main
        count = len(tokens)
        if not self._content and (cut := self._first_content()):
            return cut
        if self._lanes is not None and (cut := self._at_mark()):
            return cut
        full = last_main + 1 >= self._size or count >= self._size + FILLERS_AHEAD
        if self._max_chars and self._ends[last_main] - self._out_chars >= self._max_chars and last_main >= 0:
            full = True
        if full and (cut := self._at_cap()):
            return cut
        if fresh == _ALL and self._content:
            for place in reversed(range(count - 1)):
                if self._ends_here(place):
                    return place + 1
        elif fresh >= 0 and self._content and self._ranks[fresh] >= CLAUSE and self._ends_here(fresh):
            return fresh + 1
        return self._overdue() if self._due <= self._now else 0

    def _first_content(self) -> int:
        """C1."""
        cut = self._last_main + 1
        # A word that is not judged yet is content, unless it is a hesitation so far.
        if self._last_text >= cut and not self._hesitates() and self._marks[self._last_text] == OPEN:
            cut = self._last_text + 1
        return cut if cut and self._says(cut) and self._rank(cut) != NEVER else 0

    def _says(self, cut: int) -> bool:
        """Whether there is content in the first tokens: no white space, marker or filler."""
        spared = (LOW, OPEN) if self._hesitates() else (LOW,)
        pairs = zip(self._tokens[:cut], self._marks, strict=False)
        text = "".join([token.text for token, mark in pairs if mark not in spared])
        if "[" in text:
            text = MARKER.sub("", text)
        if self._reopened:
            return _SAYS.search(text, max(0, self._reopened - self._out_chars)) is not None
        return bool(text) and not text.isspace()

    def _hesitates(self) -> bool:
        return self._lanes is not None and self._lanes.hesitates(self._tokens, self._ends)

    def _at_mark(self) -> int:
        """C8."""
        before = self._mark - (self._count - len(self._tokens))
        if before <= 0 or self._marks[0] == MAIN or MAIN in self._marks[:before]:
            return 0
        if self._marks[before - 1] == OPEN and not self._hesitates():
            return 0
        return before if self._rank(before) != NEVER else 0

    def _ends_here(self, place: int) -> bool:
        """C3: whether a chunk that is not full ends behind a token."""
        rank = self._rank(place + 1)
        if rank < CLAUSE:
            return False
        filled = (place + 1) / self._size
        if self._max_chars:
            filled = max(filled, (self._ends[place] - self._out_chars) / self._max_chars)
        return filled >= (0.25 if rank == PARAGRAPH else 0.5 if rank == SENTENCE else 0.75)

    def _at_cap(self) -> int:
        """C3, C5: the chunk is full."""
        ahead = next((place for place, mark in enumerate(self._marks) if mark != LOW), 0)
        most = min(len(self._tokens), ahead + self._size)
        if self._max_chars:
            while most > 1 and self._ends[most - 1] - self._out_chars > self._max_chars:
                most -= 1
        quarter = -(-most // 4)
        return self._best(quarter, most, WORD) or self._best(1, most, UNIT) or self._soonest(most + 1, UNIT)

    def _overdue(self) -> int:
        """C4, C5: somebody's time is up."""
        now, soft, hard = self._now, 0, 0
        for place, arrived in enumerate(self._arrived):
            wait = self._filler_wait if self._marks[place] == LOW else self._wait
            if arrived + wait <= now:
                soft = place + 1
            if arrived + self._patience(place) <= now:
                hard = place + 1
        count = len(self._tokens)
        cut = self._best(soft, count, INSIDE) or self._best(1, soft - 1, INSIDE) if soft else 0
        if not cut and hard:
            cut = self._best(hard, count, UNIT) or self._best(1, hard - 1, UNIT)
        if not cut and not soft:
            self._set_due()  # a token that was judged since has more time
        return cut

    def _patience(self, place: int) -> float:
        """Seconds that a token may wait in a unit that goes on (C5)."""
        return max(PATIENCE * self._wait, self._filler_wait if self._marks[place] == LOW else 0.0)

    def _best(self, first: int, last: int, least: int) -> int:
        """The best cut of `first` to `last` tokens: the last one behind meaning, else between words, else any."""
        best, found = least - 1, 0
        for cut in range(last, first - 1, -1):
            rank = min(self._rank(cut), CLAUSE)
            if rank > best:
                best, found = rank, cut
                if rank == CLAUSE:
                    break
        return found

    def _soonest(self, first: int, least: int) -> int:
        """The first cut that is allowed at all, from `first` tokens on."""
        return next((cut for cut in range(first, len(self._tokens) + 1) if self._rank(cut) >= least), 0)

    def _rank(self, cut: int) -> int:
        """The rank of the border behind `cut` tokens; behind a filler no chunk ends gladly (C6)."""
        place = cut - 1
        rank = self._boundaries.tail() if place >= self._last_text else self._ranks[place]
        return INSIDE if rank > INSIDE and self._marks[place] != MAIN else rank

    def _release(self, cut: int) -> list[Token]:
        tokens, marks, stats = self._tokens, self._marks, self.stats
        self._ended_on = self._boundaries.tail() if cut > self._last_text else self._ranks[cut - 1]
        if not self._content and self._says(cut):
            self._content = True
            judged = self._lanes is None or cut <= self._last_main + 1
            self._guessed = not judged and self._lanes is not None and self._lanes.alone(tokens, self._ends)
        elif self._guessed and not (self._lanes and self._lanes.within) and self._says(cut):
            self._guessed = False
        out = tokens[:cut]
        if self._lanes is not None:
            for place in range(cut):
                if marks[place] == LOW:
                    token = out[place]
                    out[place] = Token(token.text, token.last, "low")
                    stats.low += 1
        self._out_chars = self._ends[cut - 1]
        for values in (tokens, marks, self._arrived, self._ends, self._ranks):
            del values[:cut]
        self._last_text = max(-1, self._last_text - cut)
        self._last_main = max(-1, self._last_main - cut)
        if self._lanes is not None:
            self._lanes.left(cut, self._out_chars)
        if self._pending is not None:
            self._apply(self._pending)
        else:
            self._set_due()
        return out

    # ---- settings and times ------------------------------------------------------------------------------------------

    def _see_lanes(self) -> None:
        """Some tokens were judged."""
        marks = self._marks
        place = len(marks) - 1
        while place >= 0 and marks[place] != MAIN:
            place -= 1
        self._last_main = place
        self._set_due()

    def _set_due(self) -> None:
        """When the first of the held tokens has to leave: the first of the main lane, or the first at all."""
        due = math.inf
        for arrived, mark in zip(self._arrived, self._marks, strict=True):
            if mark != LOW:
                due = min(due, arrived + self._wait)
                break
            due = min(due, arrived + self._filler_wait)
        self._due = due

    def _apply(self, settings: ChunkSettings) -> None:
        self.settings, self._pending = settings, None
        self._size, self._wait, self._max_chars = settings.size, settings.max_wait, settings.max_chars
        self._filler_wait = 2 * settings.max_wait if settings.filler_wait is None else settings.filler_wait
        self._interval = settings.sync_interval
        if settings.priority_threshold == 0:
            self._lanes = None
            self._marks = [MAIN] * len(self._tokens)
        elif self._lanes is None:
            self._lanes = Lanes(FillerScorer(self._boundaries.context), settings.priority_threshold, self._chars)
            self._lanes.skip(len(self._tokens))
        else:
            self._lanes.threshold = settings.priority_threshold
        self._one_by_one = settings.size == 1 and self._lanes is None
        self._see_lanes()
