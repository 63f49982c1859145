"""Cues out of the narration: where they stand, what is held meanwhile, and what is said of the rest."""

from __future__ import annotations

from itertools import combinations

import pytest

from multimodal.errors import UsageError
from multimodal.sync.matcher import ProductNames
from multimodal.sync.scanner import Report, Scanned, Scanner
from multimodal.values import Cue, Product, Token
from tests.sync.scanning import places, product, scan, seen

KETTLE, MUG = product("kettle", "Halo Kettle", "the Halo"), product("mug", "Tide Mug")
AIR, AIR_MAX = product("air", "Air"), product("airmax", "Air Max")
BARE = Product("bare", "Bare Bowl")


def cues(done: Scanned) -> list[tuple[int, str, str | None]]:
    return [(cue.anchor, cue.key, cue.late) for cue in done.cues]


def kinds(done: Scanned) -> list[tuple[str, str]]:
    return [(report.kind, report.text) for report in done.reports]


def test_s1_a_mention_is_tied_to_the_boundary_behind_its_last_token() -> None:
    done = scan(Scanner([KETTLE, MUG]), ["Meet our ", "Halo ", "Kettle, ", "then a ", "Tide Mug."])
    assert cues(done) == [(3, "kettle-hero", None), (5, "mug-hero", None)]
    assert [cue.product for cue in done.cues] == ["kettle", "mug"]


def test_a_name_within_one_token_and_one_that_ends_the_text() -> None:
    assert cues(scan(Scanner([KETTLE, MUG]), ["a Tide Mug and the Halo Kettle"])) == [
        (1, "mug-hero", None),
        (1, "kettle-hero", None),
    ]


@pytest.mark.parametrize(
    ("lead", "anchor"),
    [(0, 5), (1, 4), (2, 3), (3, 3), (9, 3)],
)
def test_s1_lead_moves_back_to_the_first_word_of_the_mention(lead: int, anchor: int) -> None:
    tokens = ["Here ", "is ", "the ", "Halo ", "Kettle ", "with ", "its ", "Tide Mug ", "of ", "clay."]
    scanner = Scanner([product("kettle", "the Halo Kettle"), MUG], lead=lead)
    done = scan(scanner, tokens)
    assert [cue.anchor for cue in done.cues] == [anchor, 8], "a mention of one token stays with its word"


@pytest.mark.parametrize("lead", [0, 1, 2, 5])
def test_s1_lead_delays_all_text_by_as_many_tokens(lead: int) -> None:
    scanner = Scanner([MUG], lead=lead)
    out = [len(scanner.feed(Token(f"word{number} ")).tokens) for number in range(8)]
    assert out == [0] * min(lead, 8) + [1] * max(8 - lead, 0)
    assert len(scanner.flush().tokens) == lead


def test_text_is_held_only_where_a_name_may_have_ended() -> None:
    scanner = Scanner([AIR, AIR_MAX])
    steps = [scanner.feed(Token(text)) for text in ["the ", "Air", " Ma", "x", ". ", "Air", "! "]]
    assert [[token.text for token in step.tokens] for step in steps] == [
        ["the "],
        [],
        [],
        [],
        ["Air", " Ma", "x", ". "],
        [],
        ["Air", "! "],
    ]
    assert [cues(step) for step in steps if step.cues] == [[(4, "airmax-hero", None)], [(6, "air-hero", None)]]


def test_s6_a_token_that_says_what_it_is_about_gives_no_other_product_a_cue() -> None:
    names = [product("it", "It"), product("price", "The Price"), AIR]
    told = [
        ("Air ", ""),
        ("It", "price"),
        (" is The", "price"),
        (" Price.", "price"),
        (" The price", "it"),
        (" of It.", "it"),
    ]
    for lead in (0, 2):
        scanner = Scanner(names, lead=lead)
        steps = [scanner.feed(Token(text, about=about)) for text, about in told] + [scanner.flush()]
        found = [cue.product for step in steps for cue in step.cues]
        assert found == ["price", "it"]
        assert [token.about for step in steps for token in step.tokens] == [about for _, about in told]
        reports = [(each.kind, each.text) for step in steps for each in step.reports]
        assert reports == [("never_named", "air")], "what counts for nothing is not named again, either"


def test_s6_markers_and_meaning_keep_to_it_too() -> None:
    scanner = Scanner([KETTLE, MUG], markers=True)
    steps = [scanner.feed(Token("[[show:mug]]Tea [[show:kettle]]time", about="kettle")), scanner.flush()]
    assert [cue.product for step in steps for cue in step.cues] == ["kettle"]
    assert [each.kind for step in steps for each in step.reports] == ["other_product", "never_named"]
    assert "".join(token.text for step in steps for token in step.tokens) == "Tea time"


def test_a_token_that_was_held_keeps_its_lane() -> None:
    scanner = Scanner([AIR])
    assert scanner.feed(Token("um, ", lane="low")).tokens == (Token("um, ", lane="low"),)
    assert not scanner.feed(Token("Air", lane="low")).tokens
    assert scanner.feed(Token(" is")).tokens == [Token("Air", lane="low"), Token(" is")]


def test_the_last_token_lets_everything_out() -> None:
    scanner = Scanner([AIR], lead=3)
    scanner.feed(Token("the "))
    done = scanner.feed(Token("Air", last=True))
    assert done.tokens == [Token("the "), Token("Air", last=True)]
    assert cues(done) == [(2, "air-hero", None)]
    assert scanner.flush() == Scanned()
    with pytest.raises(UsageError, match="after the end"):
        scanner.feed(Token("more"))


def test_a_token_that_says_nothing_to_the_scanner_is_the_same_object() -> None:
    token = Token("word ")
    assert Scanner([AIR], markers=True).feed(token).tokens[0] is token


def test_s2_a_marker_is_tied_to_the_token_in_which_it_begins() -> None:
    tokens = ["This ", "one[[sh", "ow:mug|ho", "ld]] is", " ", "[[show:kettle]]", " good"]
    done = scan(Scanner([KETTLE, MUG], markers=True), tokens)
    assert cues(done) == [(2, "mug-hero", "hold"), (6, "kettle-hero", None)]
    assert [token.text for token in done.tokens] == ["This ", "one", "", " is", " ", "", " good"]


def test_s2_a_marker_before_any_text_stands_at_0() -> None:
    assert cues(scan(Scanner([MUG], markers=True), ["[[show", ":mug]]Hello ", "you"])) == [(0, "mug-hero", None)]
    assert cues(scan(Scanner([MUG], markers=True), ["Hello ", "[[show:mug]]you"])) == [(2, "mug-hero", None)]


def test_s2_lead_leaves_a_marker_where_it_is() -> None:
    done = scan(
        Scanner([MUG, KETTLE], markers=True, lead=2), ["a ", "b ", "[[show:mug]]c ", "d ", "e ", "the ", "Halo."]
    )
    assert cues(done) == [(3, "mug-hero", None), (6, "kettle-hero", None)]


def test_a_name_goes_on_across_a_marker() -> None:
    done = scan(Scanner([KETTLE, MUG], markers=True), ["Halo ", "[[show:mug]]", "Kettle."])
    assert cues(done) == [(2, "mug-hero", None), (3, "kettle-hero", None)]
    assert seen(done) == "Halo Kettle."


def test_without_markers_they_are_text() -> None:
    done = scan(Scanner([MUG]), ["[[show:", "mug]]"])
    assert (seen(done), done.cues) == ("[[show:mug]]", [])


def test_without_mentions_names_are_text() -> None:
    done = scan(Scanner([MUG], mentions=False, markers=True), ["Tide ", "Mug", "[[show:mug|skip]]"])
    assert cues(done) == [(3, "mug-hero", "skip")]


def test_s3_first_gives_one_cue_and_reports_the_rest() -> None:
    done = scan(Scanner([AIR, MUG]), ["Air ", "and ", "Air ", "and Air."])
    assert cues(done) == [(1, "air-hero", None)]
    assert kinds(done) == [("repeated", "air"), ("never_named", "mug")]
    assert "named 2 more times" in done.reports[0].detail


def test_s3_every_gives_each_mention_its_cue() -> None:
    done = scan(Scanner([AIR], repeat="every"), ["Air ", "and ", "Air ", "and Air."])
    assert [cue.anchor for cue in done.cues] == [1, 3, 4]
    assert done.reports == []


def test_s3_a_name_inside_another_is_not_named() -> None:
    done = scan(Scanner([AIR, AIR_MAX]), ["Air ", "Max ", "is ", "here."])
    assert cues(done) == [(2, "airmax-hero", None)]
    assert kinds(done) == [("never_named", "air")]


@pytest.mark.parametrize("repeat", ["first", "every"])
@pytest.mark.parametrize(
    "tokens", [["the ", "Air[[show:air|hold]] ", "flies"], ["the ", "Air", "[[show:air|hold]]", " flies"]]
)
def test_s3_a_marker_that_touches_the_mention_takes_its_place(tokens: list[str], repeat: str) -> None:
    done = scan(Scanner([AIR], markers=True, repeat=repeat), tokens)  # type: ignore[arg-type]
    assert [(cue.key, cue.late) for cue in done.cues] == [("air-hero", "hold")]
    assert places(done)[0][0] in (7, 8)


def test_s3_a_marker_elsewhere_counts_under_first_and_not_under_every() -> None:
    tokens = ["[[show:air]]This ", "is ", "Air."]
    assert cues(scan(Scanner([AIR], markers=True), tokens)) == [(0, "air-hero", None)]
    assert len(scan(Scanner([AIR], markers=True, repeat="every"), tokens).cues) == 2
    later = ["Air ", "it ", "is.[[show:air]]"]
    assert cues(scan(Scanner([AIR], markers=True), later)) == [(1, "air-hero", None), (3, "air-hero", None)]


@pytest.mark.parametrize(("repeat", "anchors"), [("first", []), ("every", [4])])
def test_s3_an_explicit_cue_takes_the_place_of_mentions(repeat: str, anchors: list[int]) -> None:
    scanner = Scanner([AIR, BARE], repeat=repeat)  # type: ignore[arg-type]
    scanner.explicit(Cue(1, "air-hero"))
    scanner.explicit(Cue(0, "other", product="bare"))
    scanner.explicit(Cue(0, "of no product"))
    done = scan(scanner, ["Air ", "and ", "then ", "Air."])
    assert [cue.anchor for cue in done.cues] == anchors
    assert "never_named" not in dict(kinds(done))


def test_s5_what_is_wrong_with_markers_is_reported_and_taken_out() -> None:
    tokens = ["a [[show:nil]]b ", "[[show:mug|later]]c ", "[[show:mug", " d ", "[[show:]]e"]
    done = scan(Scanner([MUG], markers=True), tokens)
    assert seen(done) == "a b c  d e"
    assert done.cues == []
    assert kinds(done) == [
        ("unknown_product", "[[show:nil]]"),
        ("unknown_policy", "[[show:mug|later]]"),
        ("broken_marker", "[[show:mug"),
        ("unknown_product", "[[show:]]"),
        ("never_named", "mug"),
    ]
    assert [(report.token, report.char) for report in done.reports[:3]] == [(0, 2), (1, 4), (2, 6)]
    assert done.reports[1].detail == (
        "'[[show:mug|later]]': 'later' is none of placeholder, hold, skip; the marker was taken out"
    )


def test_a_product_without_pictures_has_its_own_id_for_a_key() -> None:
    assert cues(scan(Scanner([BARE]), ["a bare bowl"])) == [(1, "bare", None)]


def test_names_prepared_once_serve_many_narrations() -> None:
    names = ProductNames([AIR])
    for _ in range(2):
        assert len(scan(Scanner(names), ["Air ", "is"]).cues) == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"lead": -1}, "lead=-1"), ({"lead": 1.5}, "lead=1.5"), ({"repeat": "some"}, "repeat='some' is unknown")],
)
def test_wrong_settings_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Scanner([AIR], **settings)  # type: ignore[arg-type]


SAMPLES = [
    "Look: the Halo Kettle[[show:mug|hold]], a Tide Mug [[show:nil]]too",
    "A [[show:kettle] is [[x]] and [[show:mug|no]] Tide  MUG[[sho",
    "这款[[show:water|skip]]光环水壶很好，ﾊﾞﾝﾄﾞ[[show:band]]。",
    "هذا الكوب[[show:cup]] والشاي",
    "ดูเก้าอี้[[show:chair|placeholder]]ตัวนี้",
]
CATALOGUE = [
    *(KETTLE, MUG),
    product("water", "光环水壶"),
    product("band", "バンド"),
    product("cup", "كوب"),
    product("chair", "เก้าอี้"),
]


def whole(text: str) -> tuple[str, list[tuple[int, str]], list[Report]]:
    """By characters: what one token for each gives, which is the finest there is."""
    done = scan(Scanner(CATALOGUE, markers=True), list(text))
    return seen(done), places(done), list(done.reports)


@pytest.mark.parametrize("text", SAMPLES)
def test_cut_at_every_position_and_every_pair_nothing_changes(text: str) -> None:
    shown, at, reports = whole(text)
    assert "show:" not in shown
    assert "]]" not in shown.replace("[[x]]", "")
    for a, b in combinations(range(len(text) + 1), 2):
        pieces = [*list(text[:a]), text[a:b], *list(text[b:])]
        done = scan(Scanner(CATALOGUE, markers=True), pieces)
        assert seen(done) == shown
        assert [cue.key for cue in done.cues] == [key for _, key in sorted(at, key=lambda place: place[0])]
        # A cue inside the one long token is tied to its end; all others stand exactly where they stood.
        ends = [0]
        for token in done.tokens:
            ends.append(ends[-1] + len(token.text))
        long_start, long_end = ends[a], ends[a + 1]
        for (place, key), (exact, expected_key) in zip(places(done), at, strict=True):
            assert key == expected_key
            assert place == exact or (place == long_end and long_start <= exact <= long_end)
        assert [(r.kind, r.text, r.char) for r in done.reports] == [(r.kind, r.text, r.char) for r in reports]
