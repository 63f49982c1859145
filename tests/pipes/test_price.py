"""Prices as shops write them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from multimodal.pipes.price import CURRENCIES, parse_price, price_doubt, price_text, uses_decimal_comma


@pytest.mark.parametrize(
    ("text", "price", "currency"),
    [
        ("89.00", "89.00", ""),
        ("1299", "1299", ""),
        ("15.00 EUR", "15.00", "EUR"),
        ("USD 15", "15", "USD"),
        ("€1,299.00", "1299.00", "EUR"),
        ("1.299,00 €", "1299.00", "EUR"),
        ("£ 12,50", "12.50", "GBP"),
        ("$5", "5", ""),
        ("1 299,5", "1299.5", ""),
        ("1\u202f299,50\u00a0€", "1299.50", "EUR"),
        ("CHF 1'299.90", "1299.90", "CHF"),
        ("1,299,000", "1299000", ""),
        ("1.299.000", "1299000", ""),
        ("1,299", "1299", ""),
        ("1.299", "1.299", ""),
        ("12.", "12", ""),
        ("0", "0", ""),
        ("₹1,29,999.00", "129999.00", "INR"),
        ("¥1,299", "1299", ""),
        ("￥１，２９９", "1299", ""),
        ("1.299,- €", "1299", "EUR"),
        ("Fr. 1'299.-", "1299", "CHF"),
        ("1’299.00 CHF", "1299.00", "CHF"),
        ("US$ 5", "5", "USD"),
        ("A$1,299.95", "1299.95", "AUD"),
        ("1 299,00 zł", "1299.00", "PLN"),
        ("R$ 1.299,90", "1299.90", "BRL"),
        ("٣٫٥٠ AED", "3.50", "AED"),
        ("129٬999 IRR", "129999", "IRR"),
        ("from 15.00 EUR", "15.00", "EUR"),
        ("15.00 - 20.00 USD", "15.00", "USD"),
        ("RRP 15", "15", ""),
        ("0.500", "0.500", ""),
        (".50", "0.50", ""),
    ],
)
def test_reads_a_price(text: str, price: str, currency: str) -> None:
    assert parse_price(text) == (Decimal(price), currency)


@pytest.mark.parametrize("text", ["", "on request", "-5.00", "−5.00", "EUR", "NaN", "9" * 19, "4006381333931" * 3])
def test_what_is_no_price(text: str) -> None:
    assert parse_price(text)[0] is None


@pytest.mark.parametrize(("text", "price"), [("1.299", "1299"), ("1,299", "1.299"), ("2,5", "2.5"), ("2.5", "2.5")])
def test_the_doubtful_case_is_read_as_the_column_writes_it(text: str, price: str) -> None:
    assert parse_price(text, decimal_comma=True) == (Decimal(price), "")


def test_a_column_tells_how_it_writes() -> None:
    assert uses_decimal_comma(["1.299", "12,50 €"])
    assert not uses_decimal_comma(["1,299", "12.50", "", "1,299.50"])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (15, "15"),
        (Decimal("15.00"), "15.00"),
        (Decimal("1e2"), "100"),
        (Decimal("1e999999999"), ""),
        (Decimal("1e-999999999"), ""),
        (Decimal("Infinity"), ""),
        (10**30, ""),
    ],
)
def test_a_number_of_a_file_is_written_in_plain_digits(number: int | Decimal, text: str) -> None:
    assert price_text(number) == text


def test_the_currencies_are_codes() -> None:
    assert len(CURRENCIES) > 150
    assert all(len(code) == 3 and code.isupper() for code in CURRENCIES)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("12-15 EUR", "price_range"),
        ("10/12 EUR", "price_range"),
        ("Decimal('1E+99')", "price_range"),
        ("15 EUR / 100 ml", ""),
        ("15 EUR (incl. 19 % VAT)", ""),
        ("$5 per 100 g", ""),
        ("12 – 15 EUR", "price_range"),
        ("from 12 EUR", "price_range"),
        ("ab 12 €", "price_range"),
        ("à partir de 12 €", "price_range"),
        ("~12", "price_range"),
        ("1e3", "bad_price"),
        ("{'amount': 5}", "bad_price"),
        ("15 XYZ", "bad_currency"),
        *((text, "") for text in ("", "12", "12.50 EUR", "1.299,- €", "Fr. 1'299.-", "1 299,00 zł", "RRP 15", "US$ 5")),
        *((text, "") for text in ("₹1,29,999.00", "1\u202f299,50\u00a0€", "15 EUR incl. VAT", "kr 5", "soon")),
    ],
)
def test_what_is_not_one_price_in_one_currency_is_doubted(text: str, reason: str) -> None:
    assert price_doubt(text)[0] == reason
