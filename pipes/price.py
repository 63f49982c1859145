"""Prices as shops write them: exact numbers out of grouping marks, decimal commas and currency signs. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal

__all__ = ["CURRENCIES", "parse_price", "price_doubt", "price_text", "uses_decimal_comma"]

CURRENCIES = frozenset(
    re.findall(
        "[A-Z]{3}",
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD "
        "CAD CDF CHF CLF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP "
        "GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD "
        "KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK "
        "NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD "
        "SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF "
        "XCD XCG XOF XPF YER ZAR ZMW ZWG ",
    )
)
"""ISO 4217's codes of money in use, and of the few that left it lately; no metals, funds or tests."""

_NUMBER = re.compile(r"(?<!\d)-?[.,]?\d(?:[\d.,'’]|\s(?=\d{3}(?!\d)))*")
_CODE = re.compile(r"(?<![A-Za-z])[A-Z]{3}(?![A-Za-z])")
# Longest first, as A$ holds a $. A bare $, ¥ or kr is that of many currencies, and tells none.
_SIGNS = {
    "US$": "USD",
    "CA$": "CAD",
    "AU$": "AUD",
    "NZ$": "NZD",
    "HK$": "HKD",
    "NT$": "TWD",
    "MX$": "MXN",
    "A$": "AUD",
    "C$": "CAD",
    "R$": "BRL",
    "S$": "SGD",
    "Fr.": "CHF",
    "zł": "PLN",
    "Kč": "CZK",
    "лв": "BGN",
    "€": "EUR",
    "£": "GBP",
    "₹": "INR",
    "₩": "KRW",
    "₽": "RUB",
    "₺": "TRY",
    "₫": "VND",
    "₪": "ILS",
    "₴": "UAH",
    "฿": "THB",
    "₦": "NGN",
    "₱": "PHP",
    "₸": "KZT",
    "₾": "GEL",
    "₼": "AZN",
    "₡": "CRC",
    "₲": "PYG",
    "円": "JPY",
}
_CENTS_AFTER_COMMA = re.compile(r",\d{1,2}\D*$")
_MARKS = str.maketrans({"٫": ".", "٬": "'", "，": ",", "．": ".", "、": ",", "−": "-"})
_BARE = re.compile(r"[\d.,]*")
_ASIDE = re.compile(r"\s*(?:/|\bper\b|\bpro\b).*$|[(\[][^)\]]*[)\]]", re.IGNORECASE)
_RANGE = re.compile(
    r"\b(?:from|starting|starts|up to|as low as|ab|bis|von|à partir|a partir|dès|vanaf|desde|da|från|fra|od)\b"
    r"|[<>≥≤~≈]",
    re.IGNORECASE,
)
"""How shops write that a price is the lowest of several, the highest, or no more than about right."""
_GLUED = re.compile(r"\d[A-Za-z]+\d")
_NO_MONEY = frozenset({"RRP", "UVP", "SRP", "PVP", "VAT", "MWS", "TTC", "TVA", "IVA", "NET", "INC", "TAX", "GST"})
"""Words of three capitals that stand beside a price and are no currency."""
_DIGITS = 18
"""A price of more digits is a barcode or an attack."""


def uses_decimal_comma(texts: Iterable[str]) -> bool:
    """Whether a column of prices writes the decimal comma: told by the first that has one or two digits after it."""
    return any(_CENTS_AFTER_COMMA.search(text) for text in texts)


def parse_price(text: str, *, decimal_comma: bool = False) -> tuple[Decimal | None, str]:
    """The price and its ISO 4217 code ("" = not said) in a text such as `1.299,00 €`, `EUR 15`, `₹1,29,999.00`.

    Args:
        text: what the shop wrote.
        decimal_comma: how to read the one doubtful case, a single mark before three digits (`1.299`).

    Returns:
        (None, code) where there is no number, or one below 0 or of more than 18 digits.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_MARKS))
    currency = _currency(text)
    found = _NUMBER.search(text)
    if found is None or found.group().startswith("-"):
        return None, currency
    digits = re.sub(r"[\s'’]", "", found.group())
    if digits.endswith((".", ",")):  # as in 1.299,-: what ends it parts cents that are not written
        whole, cents = digits, ""
    else:
        point = _decimal_mark(digits, decimal_comma)
        whole, _, cents = digits.rpartition(point) if point else (digits, "", "")
    whole = re.sub(r"[.,]", "", whole)
    if len(whole) + len(cents) > _DIGITS:
        return None, currency
    return Decimal(f"{whole or 0}.{cents}" if cents else whole), currency


def price_doubt(text: str) -> tuple[str, str]:
    """Why a text is not one price in one currency, though it holds a number: a reason and a sentence; "" = it is.

    Args:
        text: what the shop wrote.

    Returns:
        ``price_range`` for several numbers or words such as *from*, ``bad_price`` for an exponent or a structure,
        ``bad_currency`` for a code that ISO 4217 does not have; else two empty texts.
    """
    if _BARE.fullmatch(text):
        return "", ""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_MARKS))
    if _GLUED.search(text) or any(mark in text for mark in "{}[]"):
        return "bad_price", f"{text!r} is no price; write it as a plain number"
    # What follows a slash or stands in brackets tells of the unit or the tax, and is no second price.
    paid = _ASIDE.sub("", text)
    if _BARE.fullmatch(paid.strip()) or not _NUMBER.search(paid):
        paid = text  # "10/12 EUR", "EUR (15)": it was no aside
    if _RANGE.search(paid) or len(_NUMBER.findall(paid)) > 1:
        return "price_range", f"{text!r} is not one price; write the one that is paid"
    if not _currency(text):
        unknown = next((code for code in _CODE.findall(text) if code not in _NO_MONEY), "")
        if unknown:
            return "bad_currency", f"{text!r}: {unknown} is no currency of ISO 4217"
    return "", ""


def price_text(number: int | Decimal) -> str:
    """A number of a JSON file as plain digits; "" for one that no price has, so that no exponent becomes a gigabyte."""
    if isinstance(number, int):
        return str(number) if abs(number) < 10**_DIGITS else ""
    exact = number
    if (
        not exact.is_finite()
        or (exact and abs(exact.adjusted()) > _DIGITS)
        or len(exact.as_tuple().digits) > 2 * _DIGITS
    ):
        return ""
    return format(exact, "f")


def _currency(text: str) -> str:
    if _BARE.fullmatch(text):
        return ""
    code = next((code for code in _CODE.findall(text) if code in CURRENCIES), "")
    return code or next((iso for sign, iso in _SIGNS.items() if sign in text), "")


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
    if len(digits.rpartition(last)[2]) != 3 or digits.startswith((last, f"0{last}")):
        return last
    return last if last == ("," if decimal_comma else ".") else ""
