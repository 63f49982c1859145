"""The scanner on random narrations, however they are cut, against the oracle; and planted faults to test that test."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from multimodal.sync import matcher as matcher_module
from multimodal.sync.folding import folded
from multimodal.sync.markers import MarkerFilter
from multimodal.sync.matcher import Matcher
from multimodal.sync.scanner import Repeat, Scanner
from multimodal.values import Cue, Product
from tests.sync.scanning import expected, places, product, scan, seen

CATALOGUE = [
    product("air", "Air", "AirOne"),
    product("max", "Air Max", "Max"),
    product("maxair", "Max Air"),
    product("cafe", "Café"),
    product("kettle", "光环水壶", "水壶"),
    product("ring", "光环"),
    product("band", "バンド"),
    product("ha", "ハ"),
    product("cup", "كوب", "كوب شاي"),
    product("chair", "เก้าอี้", "เก้า"),
    product("pot", "주전자"),
]
NAMES = [name for each in CATALOGUE for name in (each.title, *each.aliases)]
FRAGMENTS = [
    *NAMES,
    *(
        "AIR",
        "ａｉｒ",
        "ﾊﾞﾝﾄﾞ",
        "ﾊ",
        "cafe",
        "cafe\u0301",
        "الكوب",
        "وال",
        "لل",
        "كُوب",
        "A",
        "ir",
        "Ma",
        "x",
        "y",
        "s",
        "水",
        "อี้",
    ),
    *(
        "はな",
        "很好",
        "это",
        "的",
        " ",
        " ",
        "  ",
        "\n",
        ", ",
        ".",
        "'",
        "-",
        "\u200b",
        "\u0301",
        "\u3099",
        "é",
        "は",
        "주",
    ),
    *(
        "[",
        "[[",
        "]]",
        "]",
        "|",
        "[[show:",
        "[[show",
        ":",
        "show:",
        "[[Show:air]]",
        "[[show:air]]",
        "[[show:max|hold]]",
    ),
    *(
        "[[show:cup|skip]]",
        "[[show:ring | placeholder ]]",
        "[[show:nil]]",
        "[[show:air|what]]",
        "[[show:air]",
        "x" * 70,
    ),
]


@st.composite
def narrations(draw: st.DrawFn) -> tuple[list[str], list[Product]]:
    text = "".join(draw(st.lists(st.sampled_from(FRAGMENTS), max_size=12)))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=len(text) + 2)))
    tokens = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    products = draw(st.lists(st.sampled_from(CATALOGUE), unique_by=lambda each: each.id, max_size=len(CATALOGUE)))
    return tokens, products


def agrees(run: tuple[list[str], list[Product]], repeat: Repeat, lead: int, last: bool) -> bool:
    tokens, products = run
    shown, cues = expected(tokens, products, repeat=repeat, lead=lead)
    done = scan(Scanner(products, markers=True, repeat=repeat, lead=lead), tokens, last=last)
    assert [token.text for token in done.tokens] == shown
    assert [(c.anchor, c.key, c.late) for c in done.cues] == cues
    assert all(cue.product and cue.key == f"{cue.product}-hero" for cue in done.cues)
    return True


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(narrations(), st.sampled_from(["first", "every"]), st.integers(0, 4), st.booleans())
def test_any_narration_however_cut(run: tuple[list[str], list[Product]], repeat: Repeat, lead: int, last: bool) -> None:
    assert agrees(run, repeat, lead, last)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join), st.data())
def test_two_ways_to_cut_one_text(text: str, data: st.DataObject) -> None:
    """No token reaches over a place where a cue stands: then every cut gives the same places and the same text."""
    whole = scan(Scanner(CATALOGUE, markers=True), list(text))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=len(text))))
    ways = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    other = scan(Scanner(CATALOGUE, markers=True), ways)
    assert seen(other) == seen(whole)
    assert [cue.key for cue in other.cues] == [cue.key for cue in whole.cues]
    assert all(b >= a for (a, _), (b, _) in zip(places(whole), places(other), strict=True))
    assert [(r.kind, r.text, r.char) for r in other.reports] == [(r.kind, r.text, r.char) for r in whole.reports]


class ForgetsAtTokenBorders(Matcher):
    def feed(self, text: str) -> list[matcher_module.Mention]:
        self._walks = []
        return super().feed(text)


class FirstNameEndsTheWalk(Matcher):
    """Shortest instead of longest."""

    def _step(self, plain: str, kind: int, start: int, *, inner: bool = False) -> None:
        super()._step(plain, kind, start, inner=inner)
        for walk in self._walks:
            if walk[2]:
                walk[1] = matcher_module._DEAD


class NoBorders(Matcher):
    def _step(self, plain: str, kind: int, start: int, *, inner: bool = False) -> None:
        self._glued = False
        super()._step(plain, kind, start, inner=inner)


class SaysNothingIsOpen(Matcher):
    @property
    def open_end(self) -> int | None:
        return None


class ForgetsWhatBeganMeanwhile(Matcher):
    def _step(self, plain: str, kind: int, start: int, *, inner: bool = False) -> None:
        before = len(self._found)
        super()._step(plain, kind, start, inner=inner)
        if len(self._found) > before:
            self._walks = []


class MarksAsTheyCome(Matcher):
    def _mark(self, plain: str, position: int) -> None:
        self._end = position


class LosesWhatItHeld(MarkerFilter):
    def _give_back(self, start: int) -> None:
        self._forget()


class PrintsTheBroken(MarkerFilter):
    def _break(self, why: str, *, too_long: bool = False) -> None:
        self._give_back(0)


class SaysNothingIsHeld(MarkerFilter):
    @property
    def opened_in(self) -> int | None:
        return None


class MarkerMovedByLead(Scanner):
    def _place(self, anchor: int, char: int, rank: int, cue: Cue) -> None:
        moved = max(anchor - self._lead, 1) if rank == 1 and anchor else anchor
        super()._place(moved, char, rank, msgspec.structs.replace(cue, anchor=moved))


class LeadBeforeTheFirstWord(Scanner):
    def _moved(self, anchor: int, start: int) -> int:
        return max(anchor - self._lead, 0)


class CountsTwice(Scanner):
    def _mention(self, mention: matcher_module.Mention) -> None:
        self._placed.clear()
        super()._mention(mention)


MATCHERS = [
    ForgetsAtTokenBorders,
    FirstNameEndsTheWalk,
    NoBorders,
    SaysNothingIsOpen,
    ForgetsWhatBeganMeanwhile,
    MarksAsTheyCome,
]
FILTERS = [LosesWhatItHeld, PrintsTheBroken, SaysNothingIsHeld]
SCANNERS = [MarkerMovedByLead, LeadBeforeTheFirstWord, CountsTwice]


@pytest.mark.parametrize("fault", [*MATCHERS, *FILTERS, *SCANNERS])
def test_a_planted_fault_is_found(fault: type, monkeypatch: pytest.MonkeyPatch) -> None:
    made: type = Scanner
    if issubclass(fault, Matcher):
        monkeypatch.setattr("multimodal.sync.scanner.Matcher", fault)
    elif issubclass(fault, MarkerFilter):
        monkeypatch.setattr("multimodal.sync.scanner.MarkerFilter", fault)
    else:
        made = fault

    def fails(run: tuple[list[str], list[Product]], lead: int) -> bool:
        monkeypatch.setattr(f"{__name__}.Scanner", made)
        try:
            return not agrees(run, "first", lead, False)
        except (AssertionError, StopIteration, IndexError):
            return True

    # Found is enough: making the example small would take most of the time.
    search = settings(
        max_examples=4000,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    try:
        find(st.tuples(narrations(), st.integers(0, 2)), lambda each: fails(*each), settings=search)
    except NoSuchExample:
        pytest.fail(f"{fault.__name__} passes every example")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=6, unique_by=folded),
    st.lists(
        st.one_of(st.text(max_size=4), st.integers(0, 5), st.sampled_from([" ", "[[show:p0]]", "[["])), max_size=12
    ),
    st.data(),
)
def test_any_characters_at_all(names: list[str], parts: list[str | int], data: st.DataObject) -> None:
    """Of arbitrary names and text only this is asked: nothing is lost, and no cut makes a difference."""
    products = [product(f"p{number}", name) for number, name in enumerate(names)]
    text = "".join(part if isinstance(part, str) else names[part % len(names)] for part in parts)
    whole = scan(Scanner(products, markers=True), list(text))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    other = scan(
        Scanner(products, markers=True), [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    )
    assert seen(other) == seen(whole)
    assert [cue.key for cue in other.cues] == [cue.key for cue in whole.cues]
    assert [(r.kind, r.text, r.char) for r in other.reports] == [(r.kind, r.text, r.char) for r in whole.reports]
    if "[[s" not in text.lower():
        assert seen(whole) == text
