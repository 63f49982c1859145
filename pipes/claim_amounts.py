"""Numbers with what they count, and those that no number says. Pure.

N4  How often is a number with its period: "twice a year", "每年两次". So is a price that comes again, or is no price
    but what is taken off one: "9 euros a month", "9 euros off".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

import msgspec

from multimodal.pipes.claim_base import before
from multimodal.pipes.claim_words import (
    BESIDE_THINGS,
    BODY,
    GROUPS,
    MEASURES,
    MONEY_OF,
    OTHERS,
    SINGLE_AMOUNTS,
    TIMES,
    UNIT_OF,
)
from multimodal.pipes.fact_words import MONEY
from multimodal.pipes.spoken_numbers import han, spoken

__all__ = ["Amount", "counted", "is_price", "often", "single", "unit_of"]


class Amount(msgspec.Struct, frozen=True):
    """A number and its unit ("" = none), from `start` to `end`; `exact`: one unit of its last digit, for rounding."""

    value: Decimal
    unit: str
    start: int
    end: int
    exact: Decimal = Decimal(1)
    counts: str = ""
    """What it counts, where no unit does: the plural behind it, as in "four legs"."""
    priced: bool = False
    """Without a unit, but a price."""


_AGAIN = re.compile(
    r"\s*(?:(?:/|(?:an?|per|each|every)\s)\s*(day|week|month|year)\b(?!['’])|(daily|weekly|monthly|yearly)\b"
    r"|(?:/|每|一个?)(天|日|周|月|年))",
    re.IGNORECASE,
)
_HAN_AGAIN = re.compile(r"每个?(天|日|周|月|年)[^，。；！？\d]{0,4}$")
_TAKEN_OFF = re.compile(r"\s*(?:(?:off|cheaper|less|discount|rebate)\b|(?:的)?(?:优惠|折扣|减免))", re.IGNORECASE)
_TAKEN_BEFORE = re.compile(
    r"\b(?:saves?|saving|savings of|discount of|rebate of)\s+$|(?:立减|便宜了?|省下?)\s*$", re.IGNORECASE
)
_HALF = re.compile(r"\b(half|quarter)\s+(?:an?|of an?)\s+(\w+)", re.IGNORECASE)
_A_UNIT = re.compile(r"(?<![\w-])(?:an?|one)\s+(?:full\s+|whole\s+)?([a-z]+)\b(\s+and\s+a\s+half\b)?", re.IGNORECASE)
_A_SIDE = re.compile(
    r"\s+(?:tall|high|long|wide|deep|thick|broad|across|in (?:height|length|width|depth|diameter))\b", re.IGNORECASE
)
_GROUP = re.compile(
    r"\b(?:has|have|had|with|includes?|including|comes? as|sold as)\s+(?:just\s+|only\s+)?"
    rf"(?P<group>(?:an?|one)\s+(?P<number>{'|'.join(GROUPS)})\b(?:\s+of(?=\s+(?P<what>[a-z]{{1,30}}))\b)?)",
    re.IGNORECASE,
)
_NOTE = re.compile(r"\ba\s+(fiver|tenner)\b", re.IGNORECASE)
_OFTEN = re.compile(
    r"\b(once|twice|(?<![\w-])(?P<count>[\w-]{1,40})\s+times)\s+(?:an?|per|each|every|in an?)\s+(day|week|month|year)\b"
    r"|每(?P<period>年|个?月|周|天|日)[^，。；]{0,6}?(?P<han>[一二两三四五六七八九十\d]+)次",
    re.IGNORECASE,
)
_TIMES_SAID = {"once": Decimal(1), "twice": Decimal(2)}
_PERIODS = {"年": "year", "月": "month", "个月": "month", "周": "week", "天": "day", "日": "day"} | {
    "yearly": "year",
    "monthly": "month",
    "weekly": "week",
    "daily": "day",
}


def unit_of(word: str) -> str:
    """The one spelling of a unit, or a currency's code; "" for a word that is neither."""
    small = unicodedata.normalize("NFKC", word).casefold()
    return UNIT_OF.get(small, "") or MONEY_OF.get(small, "")


def is_price(unit: str) -> bool:
    """Whether a unit is money, be it money a month or money off."""
    money = unit.partition("/")[0]
    return money in MONEY or money in {"cent", "crown", "peso"}


def counted(amount: Amount, sentence: str) -> Amount:
    """A price with its period, or as what is taken off one (N4)."""
    if not is_price(amount.unit):
        return amount
    start, end = amount.start, amount.end
    if again := _AGAIN.match(sentence, end):
        said, end = again[1] or again[2] or again[3], again.end()
        per = _PERIODS.get(said.casefold(), said.casefold())
    elif _TAKEN_OFF.match(sentence, end) or _TAKEN_BEFORE.search(before(sentence, start)):
        per = "off"
    elif again := _HAN_AGAIN.search(sentence[max(0, start - 8) : start]):
        per, start = _PERIODS[again[1]], start - len(again[0])
    else:
        return amount
    return msgspec.structs.replace(amount, unit=f"{amount.unit}/{per}", start=start, end=end)


def often(sentence: str) -> Iterator[Amount]:
    """How often (N4)."""
    for match in _OFTEN.finditer(sentence):
        if match["han"]:
            said, period = match["han"], _PERIODS.get(match["period"], "")
            value: Decimal | None = Decimal(said) if said.isdigit() else han(said)
        else:
            period, said = match[3].casefold(), (match["count"] or match[1]).casefold()
            value = Decimal(said) if said.isdigit() else _TIMES_SAID.get(said) or spoken(said)
        if value is not None:
            yield Amount(value, f"/{period}", *match.span())


def single(sentence: str) -> Iterator[Amount]:
    """Numbers that no number says: half a litre, a litre and a half, a foot tall, a pair of handles."""
    for half in _HALF.finditer(sentence):
        unit = unit_of(half[2])
        if unit and not is_price(unit):
            yield Amount(OTHERS[half[1].casefold()], unit, *half.span(), Decimal("0.1"))
    for one in _A_UNIT.finditer(sentence):
        unit, more = unit_of(one[1]), OTHERS["half"] if one[2] else Decimal(0)
        if more and unit:
            yield Amount(1 + more, unit, *one.span(), Decimal("0.1"))
            continue
        ahead = sentence[max(0, one.start() - 16) : one.start()].rstrip().casefold()
        if ahead.endswith(("half", "quarter")):
            continue
        alone = unit in SINGLE_AMOUNTS and not ahead.endswith(("of", "per"))
        side = MEASURES.get(unit, ("",))[0] == "length" and _A_SIDE.match(sentence, one.end(1)) is not None
        if (alone or side) and len(one[1]) > 2:
            yield Amount(Decimal(1), unit, one.start(), one.end(1))
    for note in _NOTE.finditer(sentence):
        yield Amount(Decimal(5 if note[1][0] in "fF" else 10), "", *note.span(), priced=True)
    for group in _GROUP.finditer(sentence):
        what = (group["what"] or "").casefold()
        beside = what.removesuffix("s") in BESIDE_THINGS or what in BODY or unit_of(what) in TIMES
        if not beside:
            yield Amount(Decimal(GROUPS[group["number"].casefold()]), "", *group.span("group"), counts=what)
