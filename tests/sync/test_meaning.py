"""Pictures by meaning: one product holds a passage, and what embeds is checked."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from multimodal.errors import UsageError
from multimodal.sync.meaning import LastWords, Meaning
from multimodal.sync.scanner import Repeat, Scanner
from multimodal.values import Cue, Product, ProductImage
from tests.sync.scanning import scan

TOPICS = ({"boil", "water", "steam", "kettle"}, {"drink", "coffee", "handle", "mug"}, {"light", "shade", "lamp"})


def embed(text: str) -> list[float]:
    """One number for each topic: how many of its words are said. A constant keeps words of no topic apart."""
    words = re.findall(r"\w+", text.lower())
    return [float(sum(word in topic for word in words)) for topic in TOPICS] + [0.6]


def made(sku: str, title: str, description: str) -> Product:
    return Product(sku, title, description=description, images=(ProductImage(f"{sku}-hero", "x"),))


PRODUCTS = [
    made("kettle", "Halo", "boil water steam kettle"),
    made("mug", "Tide", "drink coffee handle mug"),
    made("lamp", "Dusk", "light shade lamp"),
]


def cues(
    text: str, *, lead: int = 0, repeat: Repeat = "first", explicit: Sequence[Cue] = (), threshold: float = 0.8
) -> list[tuple[int, str]]:
    scanner = Scanner(PRODUCTS, meaning=Meaning(PRODUCTS, embed, threshold=threshold), lead=lead, repeat=repeat)
    for cue in explicit:
        scanner.explicit(cue)
    return [(cue.anchor, cue.key) for cue in scan(scanner, re.findall(r"\S+\s*", text)).cues]


def test_s4_words_about_a_product_bring_its_picture() -> None:
    assert cues("So let us boil some water first, then drink it with a good handle here.") == [
        (4, "kettle-hero"),
        (11, "mug-hero"),
    ]


def test_s4_a_passage_that_wavers_changes_its_picture_once() -> None:
    text = "boil water boil coffee water boil drink boil water steam boil coffee steam "
    assert cues(text, repeat="every") == [(1, "kettle-hero")]


def test_s4_under_every_a_passage_that_returns_shows_again() -> None:
    text = "boil water steam and so on and so on and so on boil water steam"
    assert cues(text, repeat="every") == [(1, "kettle-hero"), (13, "kettle-hero")]
    assert cues(text) == [(1, "kettle-hero")]


def test_s4_a_mention_holds_the_passage_too() -> None:
    assert cues("the Halo will boil water fast") == [(2, "kettle-hero")]
    assert cues("the Halo will boil water fast", repeat="every") == [(2, "kettle-hero")]
    assert cues("the Halo and a mug to drink coffee by its handle", repeat="every") == [
        (2, "kettle-hero"),
        (7, "mug-hero"),
    ]


def test_s4_an_explicit_cue_goes_before() -> None:
    assert cues("boil water steam, drink the coffee by its handle", explicit=[Cue(0, "kettle-hero")]) == [
        (7, "mug-hero")
    ]


@pytest.mark.parametrize(("lead", "anchor"), [(0, 6), (1, 5), (2, 4)])
def test_s4_lead_brings_it_earlier(lead: int, anchor: int) -> None:
    assert cues("this one here you know will boil water", lead=lead) == [(anchor + 1, "kettle-hero")]


def test_a_higher_threshold_needs_more_words() -> None:
    assert cues("boil some water and steam", threshold=0.95) == [(3, "kettle-hero")]
    assert cues("nothing of it at all") == []


def test_without_products_nothing_is_about_anything() -> None:
    assert Meaning([], embed).about("boil water", None) is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"threshold": 0}, "threshold=0"),
        ({"threshold": 1.1}, "threshold=1.1"),
        ({"margin": -1}, "margin=-1"),
        ({"words": 0}, "words=0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Meaning(PRODUCTS, embed, **settings)  # type: ignore[arg-type]


def test_vectors_of_other_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="different lengths for the products"):
        Meaning(PRODUCTS, lambda text: [1.0] * len(text))
    meaning = Meaning(PRODUCTS, lambda text: embed(text) if "." in text else [1.0])
    with pytest.raises(UsageError, match="gave 1 numbers for 'boil' and 4"):
        meaning.about("boil", None)


def test_a_vector_of_zeros_is_about_nothing() -> None:
    assert Meaning(PRODUCTS, lambda text: [0.0, 0.0]).about("boil", None) is None


def test_the_last_words_of_a_text_that_comes_in_pieces() -> None:
    words = LastWords(3)
    words.feed("The quick bro")
    assert (words.text, words.fresh) == ("The quick", True)
    words.fresh = False
    words.feed("wn")
    assert not words.fresh
    words.feed(", fox\u0301es 茶壶 ")
    assert words.text == "fox\u0301es 茶 壶"
    assert words.start == len("The quick brown, ")
    words.finish()
    assert words.text == "fox\u0301es 茶 壶"


def test_s5_an_embed_that_fails_is_reported_and_the_narration_goes_on() -> None:
    def failing(text: str) -> list[float]:
        if "drink" in text:
            raise RuntimeError("out of memory")
        return embed(text)

    done = scan(
        Scanner(PRODUCTS, meaning=Meaning(PRODUCTS[:1], failing)), ["boil ", "water ", "and drink ", "the ", "Tide"]
    )
    assert len(done.tokens) == 5
    assert [cue.key for cue in done.cues] == ["kettle-hero", "mug-hero"]
    report = done.reports[0]
    assert (report.kind, report.token, report.text) == ("embed_failed", 2, "boil water and drink")
    assert report.detail.endswith("RuntimeError: out of memory")
