"""The words of catalogues, made one: plain text out of HTML, availability and currency out of many spellings. Pure."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from multimodal.pipes.price import CURRENCIES, price_text

__all__ = [
    "AVAILABILITIES",
    "availability",
    "clean",
    "currency_code",
    "items",
    "moment",
    "plain",
    "source",
    "sources",
    "text",
    "within",
    "wordless",
]

AVAILABILITIES = frozenset(
    re.findall(
        r"\w+",
        "in_stock out_of_stock preorder presale backorder discontinued limited in_store_only online_only "
        "sold_out made_to_order reserved ",
    )
)
"""schema.org's ItemAvailability, in the spelling that Google's product feeds use."""

_AVAILABILITIES = {
    **{word.replace("_", ""): word for word in AVAILABILITIES},
    **dict.fromkeys(("available", "availablefororder", "instock", "yes", "true", "1"), "in_stock"),
    **dict.fromkeys(("unavailable", "notavailable", "notinstock", "no", "false", "0"), "out_of_stock"),
    "limitedavailability": "limited",
    "lowstock": "limited",
    "onbackorder": "backorder",
    "onpreorder": "preorder",
}

_TAG = re.compile(r"</?[a-z!?][^<>]*>", re.IGNORECASE)
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|del|em|font|i|ins|mark|s|small|span|strong|sub|sup|u)(?:\s[^<>]*)?>", re.IGNORECASE
)
_UNSEEN = re.compile(r"<!--|<(script|style|template|noscript|iframe|svg|title)\b[^<>]*>", re.IGNORECASE)
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and marks that would turn round the text that comes after."""


def plain(words: str) -> str:
    """What a person reads of a text that may be HTML: shop systems export everything so.

    Inline tags part no words; a lone `<` is no tag; scripts, styles and comments are dropped with their content.
    """
    if "<" in words:
        words = _TAG.sub(" ", _INLINE_TAG.sub("", _seen(words)))
        words = " ".join(html.unescape(words).split())
    elif "&" in words:
        words = " ".join(html.unescape(words).split())
    return clean(words)


def wordless(written: str, words: str) -> str:
    """What is wrong with a title of which no words are left; "" = nothing."""
    if words or not written.strip():
        return ""
    return f"its title {written[:60]!r} is markup without a word that could be read out"


def clean(words: str) -> str:
    """Without what no page or terminal should be given: control characters, halves of letters, turning marks."""
    return words if words.isprintable() else _UNSAFE.sub("", words).strip()


def _seen(words: str) -> str:
    # By hand and not by one expression: its time must grow with the text only, however many tags are never closed.
    kept, place = [], 0
    folded = ""
    while found := _UNSEEN.search(words, place):
        kept.append(words[place : found.start()])
        name = found.group(1)
        if name is None:
            end, length = words.find("-->", found.end()), 3
        else:
            folded = folded or words.lower()
            end = folded.find(f"</{name.lower()}", found.end())
            end, length = (folded.find(">", end), 1) if end >= 0 else (-1, 0)
        if end < 0:
            return "".join(kept)
        kept.append(" ")
        place = end + length
    return "".join(kept) + words[place:]


def text(value: Any) -> str:
    """A value of a JSON file as text: a number too, and what JSON-LD wraps as ``{"@value": ...}``."""
    if isinstance(value, str):
        value = value.strip()
        return value if value.isprintable() else clean(value)
    if isinstance(value, list):
        return next(filter(None, map(text, value)), "")
    if isinstance(value, dict):
        return text(value.get("@value"))
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return ""
    return price_text(Decimal(repr(value)) if isinstance(value, float) else value)


def items(value: Any) -> list[Any]:
    """A list, the one thing that stands where a list may be, or nothing."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def sources(cell: str) -> list[str]:
    """The pictures that a cell names, parted by ``|`` or a comma; a comma inside a URL parts nothing."""
    if "|" in cell:
        parts = cell.split("|")
    elif cell.startswith(("http://", "https://", "//")):
        parts = re.split(r",\s*(?=https?://|//)", cell)
    else:
        parts = cell.split(",")
    return [source(part) for part in parts if part.strip()]


def source(written: str) -> str:
    """A picture's address; one without a scheme, as shops write it into pages, goes by https."""
    written = clean(written.strip())
    return f"https:{written}" if written.startswith("//") else written


def availability(words: str) -> str | None:
    """One of `AVAILABILITIES`; "" for no words, None for words that are none of them."""
    if not words or words in AVAILABILITIES:
        return words
    bare = re.sub(r"[\W_]", "", words.rpartition("/")[2].rpartition(":")[2].casefold())
    return _AVAILABILITIES.get(bare)


def currency_code(words: str) -> str | None:
    """An ISO 4217 code; "" for no words, None for words that are no such code."""
    code = words.upper()
    return code if not code or code in CURRENCIES else None


def moment(words: str) -> datetime | None:
    """A date or an instant in ISO 8601, as UTC where it names no zone; None for no or unreadable words."""
    try:
        found = datetime.fromisoformat(words.strip())
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def within(begins: str, ends: str, now: datetime) -> bool:
    """Whether `now` lies in a span of time; an end that is not given is open, one that is a day lasts that day."""
    first, last = moment(begins), moment(ends)
    if last is not None and len(ends.strip()) <= len("2026-01-31"):
        last = last.replace(hour=23, minute=59, second=59)
    return (first is None or first <= now) and (last is None or now <= last)
