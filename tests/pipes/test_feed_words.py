"""The words of catalogues: HTML, availability, currencies, moments, lists of pictures."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.pipes.feed_words import AVAILABILITIES, availability, currency_code, moment, plain, sources, within


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("plain", "plain"),
        ("a  b\nc", "a  b\nc"),
        ("<p>One</p><p>Two</p>", "One Two"),
        ("<script>alert('x')</script>Mug", "Mug"),
        ("Mug<SCRIPT src=x>a < b</SCRIPT >s", "Mug s"),
        ("<style>p{color:red}</style><p>Mug</p><!-- no --> <template><p>x</p></template>", "Mug"),
        ("Mug <script>never closed", "Mug"),
        ("Mug <!-- never closed", "Mug"),
        ("<?php echo 1 ?>Mug", "Mug"),
        ("5 < 6 &lt; 7 > 2", "5 < 6 < 7 > 2"),
        ("&lt;script&gt;shown, not run&lt;/script&gt;", "<script>shown, not run</script>"),
        ("a\x00b\x1b[31m\u202ec", "ab[31mc"),
        ("<img src=x onerror=alert(1)>Mug", "Mug"),
    ],
)
def test_plain_text_of_what_may_be_html(words: str, read: str) -> None:
    assert plain(words) == read


@pytest.mark.parametrize("part", ["<!--", "<script>", "<style", "<", "&", "<a ", "</", "<!-- -->", "<b><i>"])
def test_hostile_html_takes_no_longer_than_its_length_allows(part: str) -> None:
    began = time.process_time()
    plain(part * (400_000 // len(part)))
    assert time.process_time() - began < 20  # a quadratic reader would take hours


@given(st.text())
def test_plain_text_never_holds_a_control_character(words: str) -> None:
    assert not any(ord(letter) < 32 and letter not in "\t\n\r" for letter in plain(words))


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("", ""),
        ("in_stock", "in_stock"),
        ("In Stock", "in_stock"),
        ("https://schema.org/InStock", "in_stock"),
        ("http://schema.org/OutOfStock/", None),
        ("schema:SoldOut", "sold_out"),
        ("LimitedAvailability", "limited"),
        ("BackOrder", "backorder"),
        ("on backorder", "backorder"),
        ("pre-order", "preorder"),
        ("available for order", "in_stock"),
        ("Made To Order", "made_to_order"),
        ("0", "out_of_stock"),
        ("next Tuesday", None),
    ],
)
def test_words_for_whether_it_is_there(words: str, read: str | None) -> None:
    assert availability(words) == read


def test_every_word_of_schema_org_is_known() -> None:
    written = (
        "BackOrder Discontinued InStock InStoreOnly LimitedAvailability MadeToOrder OnlineOnly OutOfStock PreOrder"
        " PreSale Reserved SoldOut"
    )
    assert {availability(f"https://schema.org/{word}") for word in written.split()} == AVAILABILITIES


def test_currencies_are_those_of_iso_4217() -> None:
    assert [currency_code(words) for words in ("", "EUR", "usd", "XXX", "EURO", "€")] == [
        "",
        "EUR",
        "USD",
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("2026-06-01", datetime(2026, 6, 1, tzinfo=UTC)),
        ("2026-06-01T10:00+0100", datetime(2026, 6, 1, 10, tzinfo=timezone(timedelta(hours=1)))),
        ("2026-06-01T10:00:00Z", datetime(2026, 6, 1, 10, tzinfo=UTC)),
        ("", None),
        ("soon", None),
    ],
)
def test_moments(words: str, read: datetime | None) -> None:
    assert moment(words) == read


def test_a_span_of_time_may_be_open() -> None:
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert within("", "", now)
    assert within("2026-06-01", "2026-06-01", now)
    assert not within("2026-06-02", "", now)
    assert not within("", "2026-05-31", now)
    assert not within("", "2026-06-01T11:00", now)


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("", []),
        ("a.jpg, b.jpg", ["a.jpg", "b.jpg"]),
        ("a.jpg|b,c.jpg", ["a.jpg", "b,c.jpg"]),
        ("https://x/w_1,h_2/a.jpg, https://x/b.jpg", ["https://x/w_1,h_2/a.jpg", "https://x/b.jpg"]),
        ("//x/a.jpg", ["https://x/a.jpg"]),
    ],
)
def test_the_pictures_that_a_cell_names(cell: str, found: list[str]) -> None:
    assert sources(cell) == found
