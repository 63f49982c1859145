"""Hypothesis strategies for tests of one's own: narrations that hurt, pictures that misbehave, cues, and whole tours.

    from hypothesis import given
    from multimodal.sync.strategies import tours

    @given(tours())
    def test_whatever_comes(sync_clock, tour): ...

Hypothesis is imported when a strategy is asked for: it comes with `pip install 'multimodal-stream[test]'`. Everything
drawn is plain data on whole milliseconds, so that what fails prints as something to paste into a test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from multimodal.errors import UsageError
from multimodal.sync.log import SyncLog
from multimodal.values import LATE_POLICIES, Asset, Cue, EncodedImage, ImageFailure, Token

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from multimodal.stream import MultiModalStream

__all__ = ["Fate", "Tour", "Turn", "cues", "paces", "pictures", "token_streams", "tours", "turns"]

PIECES = (
    *("The ", "kettle ", "boils ", "a ", "litre. ", "Halo ", "don't ", "U.S. ", "3.5 ", "\n\n", "… ", "—"),
    *("水", "壶", "很", "好", "。", "ヤ", "カン", "は ", "주전자가 ", "กา", "น้ำ"),  # without spaces between words
    *("غلاية ", "المياه ", "קומקום ", "\u202b", "\u202c"),  # right to left, and marks of direction
    *("👩\u200d👩\u200d👧", "👩\u200d", "👧🏽", "🇩🇪", "🇩", "\u200d"),  # joined emoji, whole and cut in two
    *("e\u0301", "\u0301", "ﬁ", "ẞ", "İ", "\u00ad"),  # marks apart from their letters, letters that fold oddly
    *("", "", " ", "<b>", "&amp;", "\u2028", "[[", "]]"),  # nothing, and what careless code takes for something
)
"""Tokens that have broken something somewhere."""
BURSTS_MS = (0, 0, 0, 1, 20, 50, 400)
"""Gaps between tokens: mostly several at one instant, then nothing for a while."""
KEYS = "ABCDEF"


class Fate(msgspec.Struct, frozen=True):
    """What becomes of one picture.

    Args:
        kind: ``comes``, ``fails`` or ``never``.
        at_ms: when, in milliseconds from the first pull of the image pipe.
        again_ms: how long after that it comes a second time, against the contract; None = it does not.
        described: its size and alternative text are told before.
        reason: why it fails.
    """

    kind: Literal["comes", "fails", "never"] = "comes"
    at_ms: int = 0
    again_ms: int | None = None
    described: bool = False
    reason: str = "truncated"


class Turn(msgspec.Struct, frozen=True):
    """Another turn, which interrupts the one before.

    Args:
        at_ms: when, in milliseconds from the beginning of the tour; one that comes after its end is left out.
        tokens, gaps_ms: as for a `Tour`.
        cues: with anchors counted from the turn's beginning.
    """

    at_ms: int
    tokens: tuple[str, ...] = ()
    gaps_ms: tuple[int, ...] = ()
    cues: tuple[Cue, ...] = ()


class Tour(msgspec.Struct, frozen=True):
    """A tour as data: what the pipes will do, and how the stream is set.

    Args:
        tokens: the narration.
        gaps_ms: milliseconds before each token.
        known_end: the last token says that it is the last (T6); False = the end comes `end_ms` later.
        end_ms: milliseconds from the last token to the end.
        fates: by key, what becomes of each picture.
        cues: None = every interval.
        live: cues that are declared when the narration has reached a token: (token, cue).
        settings: further arguments of `MultiModalStream`, `sync_interval` included.
        turns: interruptions, in order of time.
    """

    tokens: tuple[str, ...]
    gaps_ms: tuple[int, ...]
    known_end: bool
    end_ms: int
    fates: dict[str, Fate]
    cues: tuple[Cue, ...] | None
    live: tuple[tuple[int, Cue], ...]
    settings: dict[str, Any]
    turns: tuple[Turn, ...] = ()

    @property
    def text(self) -> str:
        """The whole narration, of the turns that interrupt it too."""
        return "".join(chain(self.tokens, *(turn.tokens for turn in self.turns)))

    def stream(self) -> MultiModalStream:
        """A fresh stream that will play this tour on the running loop's clock."""
        from multimodal.stream import MultiModalStream

        made: list[MultiModalStream] = []
        cues = None if self.cues is None else list(self.cues)
        made.append(MultiModalStream(self._speak(made), _Pictures(self.fates), cues=cues, **self.settings))
        return made[0]

    async def play(self, *, limit: float = 1000.0) -> SyncLog:
        """Play it to its end, its interruptions included, and give the log; on a `VirtualClock`, best.

        Args:
            limit: seconds that it may take.

        Raises:
            SyncError: it did not end within `limit`.
        """
        from multimodal.sync.kit import record

        stream = self.stream()
        async with asyncio.TaskGroup() as group:
            interrupting = group.create_task(self._interrupt(stream))
            try:
                return await record(stream, limit=limit)
            finally:
                interrupting.cancel()

    async def _interrupt(self, stream: MultiModalStream) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for turn in self.turns:
            await asyncio.sleep(began + turn.at_ms / 1000 - loop.time())
            with suppress(UsageError):  # the tour has ended before
                stream.say(_told(turn.tokens, turn.gaps_ms), turn.cues)

    async def _speak(self, made: list[MultiModalStream]) -> AsyncIterator[Token]:
        for number, (text, gap_ms) in enumerate(zip(self.tokens, self.gaps_ms, strict=True)):
            if gap_ms:
                await asyncio.sleep(gap_ms / 1000)
            for at, cue in self.live:
                if at == number:
                    made[0].cue(cue.anchor, cue.key, late=cue.late, max_hold=cue.max_hold)
            yield Token(text, last=self.known_end and number == len(self.tokens) - 1)
        await asyncio.sleep(self.end_ms / 1000)


async def _told(tokens: Sequence[str], gaps_ms: Sequence[int]) -> AsyncIterator[str]:
    for text, gap_ms in zip(tokens, gaps_ms, strict=True):
        if gap_ms:
            await asyncio.sleep(gap_ms / 1000)
        yield text


class _Pictures:
    """An image pipe that does to each picture what its fate says."""

    def __init__(self, fates: dict[str, Fate]) -> None:
        self._fates = fates
        events = [(fate.at_ms, key, fate) for key, fate in fates.items() if fate.kind != "never"]
        events += [(at + fate.again_ms, key, fate) for at, key, fate in events if fate.again_ms is not None]
        self._events = sorted(events, key=lambda event: event[0])
        self._began: float | None = None

    def __aiter__(self) -> _Pictures:
        return self

    async def __anext__(self) -> EncodedImage | ImageFailure:
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = loop.time()
        if not self._events:
            raise StopAsyncIteration
        at_ms, key, fate = self._events[0]
        await asyncio.sleep(max(0.0, self._began + at_ms / 1000 - loop.time()))
        del self._events[0]
        if fate.kind == "fails":
            return ImageFailure(key, fate.reason, "as the strategy drew it")
        return EncodedImage(key, b"x", "image/webp", 4, 3, alt=f"picture {key}")

    def keys(self) -> list[str]:
        return list(self._fates)

    async def describe(self, keys: Sequence[str]) -> list[Asset]:
        known = [key for key in keys if key in self._fates and self._fates[key].described]
        return [Asset(key, "", 4, 3, f"picture {key}", "data:,x") for key in known]


# ---- strategies ------------------------------------------------------------------------------------------------------


def token_streams(*, min_size: int = 0, max_size: int = 24) -> SearchStrategy[list[str]]:
    """Narrations as tokens: Chinese, Japanese, Korean, Thai, Arabic, Hebrew, joined emoji whole and cut, empty tokens.

    Args:
        min_size, max_size: how many tokens.

    Raises:
        UsageError: Hypothesis is not installed.
    """
    st = _hypothesis()
    free = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
    token = st.one_of(st.sampled_from(PIECES), st.sampled_from(PIECES), st.sampled_from(PIECES), free)
    stream: SearchStrategy[list[str]] = st.lists(token, min_size=min_size, max_size=max_size)
    return stream


def paces(count: int) -> SearchStrategy[list[int]]:
    """Milliseconds before each of `count` tokens: bursts at one instant, and stalls.

    Raises:
        UsageError: Hypothesis is not installed.
    """
    st = _hypothesis()
    gaps: SearchStrategy[list[int]] = st.lists(st.sampled_from(BURSTS_MS), min_size=count, max_size=count)
    return gaps


def pictures(keys: Sequence[str] = KEYS, *, until_ms: int = 3000) -> SearchStrategy[dict[str, Fate]]:
    """What becomes of each picture: early, late, failed, twice, never; described before its bytes or not.

    Args:
        keys: the pictures.
        until_ms: the latest that one comes.

    Raises:
        UsageError: Hypothesis is not installed.
    """
    st = _hypothesis()
    at = st.one_of(st.just(0), st.integers(0, 60), st.integers(0, until_ms))
    fate = st.builds(
        Fate,
        kind=st.sampled_from(("comes", "comes", "comes", "comes", "fails", "never")),
        at_ms=at,
        again_ms=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 500)),
        described=st.booleans(),
        reason=st.sampled_from(("truncated", "not_found", "too_many_pixels")),
    )
    fates: SearchStrategy[dict[str, Fate]] = st.fixed_dictionaries(dict.fromkeys(keys, fate))
    return fates


def cues(tokens: int, keys: Sequence[str] = KEYS, *, max_size: int = 10) -> SearchStrategy[list[Cue]]:
    """Cues on and beyond a narration of `tokens` tokens, in any order, several on one boundary, each with any policy.

    Raises:
        UsageError: Hypothesis is not installed.
    """
    st = _hypothesis()
    cue = st.builds(
        Cue,
        st.integers(0, tokens + 3),
        st.sampled_from(list(keys)),
        st.one_of(st.none(), st.sampled_from(LATE_POLICIES)),
        st.one_of(st.none(), st.sampled_from((0.0, 0.01, 0.1, 0.25, 0.9))),
    )
    plan: SearchStrategy[list[Cue]] = st.lists(cue, max_size=max_size)
    return plan


def turns(keys: Sequence[str] = KEYS, *, max_size: int = 2, max_tokens: int = 10) -> SearchStrategy[list[Turn]]:
    """Interruptions at any time, two at one instant and in the middle of a hold included.

    Raises:
        UsageError: Hypothesis is not installed.
    """
    st = _hypothesis()

    def around(tokens: list[str]) -> SearchStrategy[Turn]:
        turn: SearchStrategy[Turn] = st.builds(
            lambda at, gaps, plan: Turn(at, tuple(tokens), tuple(gaps), tuple(plan)),
            st.one_of(st.integers(0, 1500), st.sampled_from((0, 20, 50, 400))),
            paces(len(tokens)),
            cues(len(tokens), keys, max_size=4),
        )
        return turn

    drawn = st.lists(token_streams(max_size=max_tokens).flatmap(around), max_size=max_size)
    in_time: SearchStrategy[list[Turn]] = drawn.map(lambda several: sorted(several, key=lambda turn: turn.at_ms))
    return in_time


def tours(*, max_tokens: int = 24, keys: Sequence[str] = KEYS, interrupted: bool = True) -> SearchStrategy[Tour]:
    """Whole tours: any narration at any pace, any pictures, cues planned, declared on the way or every interval.

    Args:
        max_tokens: the longest narration.
        keys: the pictures.
        interrupted: some are interrupted by other turns.

    Raises:
        UsageError: Hypothesis is not installed.
    """
    st = _hypothesis()

    def around(tokens: list[str]) -> SearchStrategy[Tour]:
        planned = cues(len(tokens), keys)
        late = st.lists(st.tuples(st.integers(0, max(0, len(tokens) - 1)), cues(len(tokens), keys, max_size=1)))
        live = late.map(lambda drawn: tuple((at, cue) for at, several in drawn[:4] for cue in several))
        plan = st.one_of(st.tuples(planned.map(tuple), live), st.tuples(planned.map(tuple), live), st.just((None, ())))
        tour: SearchStrategy[Tour] = st.builds(
            lambda gaps, known, end, fates, plan, settings, others: Tour(
                tuple(tokens), tuple(gaps), known, end, fates, plan[0], plan[1], settings, tuple(others)
            ),
            paces(len(tokens)),
            st.booleans(),
            st.sampled_from((0, 0, 30)),
            pictures(keys),
            plan,
            st.fixed_dictionaries(
                {
                    "sync_interval": st.integers(1, 8),
                    "late": st.sampled_from(LATE_POLICIES),
                    "max_hold": st.sampled_from((0.0, 0.05, 0.25, 0.9)),
                    "preroll": st.sampled_from((0.0, 0.1, 1.0)),
                    "swap_wait": st.sampled_from((0.0, 0.1, 1.0)),
                    "min_dwell": st.sampled_from((0.0, 0.0, 0.0, 0.06, 0.5, 4.0)),
                }
            ),
            st.one_of(st.just([]), turns(keys)) if interrupted else st.just([]),
        )
        return tour

    return token_streams(max_size=max_tokens).flatmap(around)


def _hypothesis() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise UsageError(
            "multimodal.sync.strategies needs Hypothesis: install it with `pip install 'multimodal-stream[test]'`"
        ) from error
    return strategies
