"""Prices as shops write them: exact numbers out of grouping marks, decimal commas and currency signs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

__all__ = ["parse_price", "uses_decimal_comma"]

_NUMBER = re.compile(r"-?\d[\d.,'’\s]*")
_CODE = re.compile(r"(?<![A-Za-z])[A-Z]{3}(?![A-Za-z])")
_SIGNS = {"€": "EUR", "£": "GBP"}  # the signs of one currency only: $ and ¥ are those of many
_CENTS_AFTER_COMMA = re.compile(r",\d{1,2}\D*$")


def uses_decimal_comma(texts: Iterable[str]) -> bool:
    """Whether a column of prices writes the decimal comma: told by the first that has one or two digits after it."""
    return any(_CENTS_AFTER_COMMA.search(text) for text in texts)


def parse_price(text: str, *, decimal_comma: bool = False) -> tuple[Decimal | None, str]:
    """The price and its ISO 4217 code ("" = not said) in a text such as `1.299,00 €`, `EUR 15`, `1,299.00`.

    Args:
        text: what the shop wrote.
        decimal_comma: how to read the one doubtful case, a single mark before three digits (`1.299`).

    Returns:
        (None, code) where there is no number, or one below 0.
    """
    code = _CODE.search(text)
    currency = code.group() if code else next((iso for sign, iso in _SIGNS.items() if sign in text), "")
    found = _NUMBER.search(text)
    if found is None or found.group().startswith("-"):
        return None, currency
    digits = re.sub(r"[\s'’]", "", found.group()).rstrip(".,")
    point = _decimal_mark(digits, decimal_comma)
    whole, _, cents = digits.rpartition(point) if point else (digits, "", "")
    whole = re.sub(r"[.,]", "", whole)
    return Decimal(f"{whole or 0}.{cents}" if cents else whole), currency


def _decimal_mark(digits: str, decimal_comma: bool) -> str:
    """Which of the marks in the number is the decimal one ("" = none: they group)."""
    marks: list[str] = re.findall(r"[.,]", digits)
    if not marks:
        return ""
    last = marks[-1]
    if len(set(marks)) == 2:
        return last
    if len(marks) > 1:
        return ""
    if len(digits.rpartition(last)[2]) != 3:
        return last
    return last if last == ("," if decimal_comma else ".") else ""
