"""Prices as shops write them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from multimodal.pipes.price import parse_price, uses_decimal_comma


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
    ],
)
def test_reads_a_price(text: str, price: str, currency: str) -> None:
    assert parse_price(text) == (Decimal(price), currency)


@pytest.mark.parametrize("text", ["", "on request", "-5.00", "EUR", "NaN"])
def test_what_is_no_price(text: str) -> None:
    assert parse_price(text)[0] is None


@pytest.mark.parametrize(("text", "price"), [("1.299", "1299"), ("1,299", "1.299"), ("2,5", "2.5"), ("2.5", "2.5")])
def test_the_doubtful_case_is_read_as_the_column_writes_it(text: str, price: str) -> None:
    assert parse_price(text, decimal_comma=True) == (Decimal(price), "")


def test_a_column_tells_how_it_writes() -> None:
    assert uses_decimal_comma(["1.299", "12,50 €"])
    assert not uses_decimal_comma(["1,299", "12.50", "", "1,299.50"])
