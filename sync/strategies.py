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
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from multimodal.errors import UsageError
from multimodal.values import LATE_POLICIES, Asset, Cue, EncodedImage, ImageFailure, Token

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from multimodal.stream import MultiModalStream

__all__ = ["Fate", "Tour", "cues", "paces", "pictures", "token_streams", "tours"]

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
    """

    tokens: tuple[str, ...]
    gaps_ms: tuple[int, ...]
    known_end: bool
    end_ms: int
    fates: dict[str, Fate]
    cues: tuple[Cue, ...] | None
    live: tuple[tuple[int, Cue], ...]
    settings: dict[str, Any]

    @property
    def text(self) -> str:
        """The whole narration."""
        return "".join(self.tokens)

    def stream(self) -> MultiModalStream:
        """A fresh stream that will play this tour on the running loop's clock."""
        from multimodal.stream import MultiModalStream

        made: list[MultiModalStream] = []
        cues = None if self.cues is None else list(self.cues)
        made.append(MultiModalStream(self._speak(made), _Pictures(self.fates), cues=cues, **self.settings))
        return made[0]

    async def _speak(self, made: list[MultiModalStream]) -> AsyncIterator[Token]:
        for number, (text, gap_ms) in enumerate(zip(self.tokens, self.gaps_ms, strict=True)):
            if gap_ms:
                await asyncio.sleep(gap_ms / 1000)
            for at, cue in self.live:
                if at == number:
                    made[0].cue(cue.anchor, cue.key, late=cue.late, max_hold=cue.max_hold)
            yield Token(text, last=self.known_end and number == len(self.tokens) - 1)
        await asyncio.sleep(self.end_ms / 1000)


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


def tours(*, max_tokens: int = 24, keys: Sequence[str] = KEYS) -> SearchStrategy[Tour]:
    """Whole tours: any narration at any pace, any pictures, cues planned, declared on the way or every interval.

    Args:
        max_tokens: the longest narration.
        keys: the pictures.

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
            lambda gaps, known, end, fates, plan, settings: Tour(
                tuple(tokens), tuple(gaps), known, end, fates, plan[0], plan[1], settings
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
                }
            ),
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
