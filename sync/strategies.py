"""Hypothesis strategies for tests of one's own: narrations that hurt, pictures that misbehave, cues, and whole tours.

    from hypothesis import given
    from multimodal.sync.strategies import tours

    @given(tours())
    def test_whatever_comes(sync_clock, tour): ...

Hypothesis is imported when a strategy is asked for: it comes with `pip install 'multimodal-stream[test]'`. Everything
drawn is plain data on whole milliseconds, so that what fails prints as something to paste into a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from multimodal.errors import UsageError
from multimodal.sync.drawn import Fate, Tour, Turn
from multimodal.values import LATE_POLICIES, Cue, Product, ProductImage

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "SHOP",
    "Fate",
    "Tour",
    "Turn",
    "concept",
    "cues",
    "named_tours",
    "paces",
    "pictures",
    "token_streams",
    "tours",
    "turns",
]

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
CONCEPTS = (("boils", "kettle", "halo"), ("mini",), ("很好", "水壶"), ("3.5", "mug"))


SHOP = tuple(
    Product(key, title, aliases, images=(ProductImage(key, f"{key}.jpg"),))
    for key, title, aliases in (
        ("A", "Halo Kettle", ("Halo",)),
        ("B", "Halo Kettle Mini", ()),
        ("C", "水壶", ()),
        ("D", "Moss Mug", ("モスマグ",)),
    )
)
"""Products of which one is named inside another's name, and in scripts without spaces."""


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


def concept(text: str) -> list[float]:
    """An embedding small enough to reason about: how often `text` speaks of boiling, smallness, praise, and mugs."""
    folded = text.casefold()
    return [float(sum(folded.count(word) for word in words)) for words in CONCEPTS]


def named_tours(*, max_pieces: int = 12, meaning: bool = False) -> SearchStrategy[Tour]:
    """Tours whose cues are in the narration: products named, and ``[[show:sku]]`` markers, cut into tokens anywhere.

    Args:
        max_pieces: how many words, names and markers.
        meaning: words about a product are a cue too, by `concept`.

    Raises:
        UsageError: Hypothesis is not installed.
    """
    st = _hypothesis()
    names = st.sampled_from([name for product in SHOP for name in (product.title, *product.aliases)])
    marker = st.builds(
        "[[show:{}{}]]".format, st.sampled_from(("A", "B", "C", "D", "nobody")), st.sampled_from(("", "|hold", "|skip"))
    )
    piece = st.one_of(st.sampled_from(("It", "boils,", "很好。", "and 3.5 l", "it's", "\n")), names, marker)
    text = st.lists(st.builds(str.__add__, piece, st.sampled_from((" ", " ", ""))), max_size=max_pieces).map("".join)

    def around(text: str) -> SearchStrategy[Tour]:
        cuts = st.sets(st.integers(1, max(1, len(text) - 1)), max_size=30)
        tokens = cuts.map(lambda at: tuple(text[a:b] for a, b in pairwise([0, *sorted(at), len(text)]) if a < b))
        tour: SearchStrategy[Tour] = tokens.flatmap(
            lambda tokens: st.builds(
                lambda gaps, known, fates, settings: Tour(
                    tokens, tuple(gaps), known, 0, fates, None, (), settings, (), SHOP
                ),
                paces(len(tokens)),
                st.booleans(),
                pictures([product.id for product in SHOP]),
                st.fixed_dictionaries(
                    {
                        "sync_interval": st.integers(1, 5),
                        "late": st.sampled_from(LATE_POLICIES),
                        "max_hold": st.sampled_from((0.0, 0.25)),
                        "mentions": st.just(True),
                        "markers": st.just(True),
                        "repeat": st.sampled_from(("first", "every")),
                        "lead": st.integers(0, 3),
                        "embed": st.just(concept if meaning else None),
                    }
                ),
            )
        )
        return tour

    tours: SearchStrategy[Tour] = text.flatmap(around)
    return tours


def _hypothesis() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise UsageError(
            "multimodal.sync.strategies needs Hypothesis: install it with `pip install 'multimodal-stream[test]'`"
        ) from error
    return strategies
