"""Numbers that a sentence says, with their units, in digits and words, English and Chinese. Pure.

N1  "1,299.50", "1.299,50", "forty-nine", "one point six", "two and a half", "a dozen", "3/4", "四十九", "一点六", "半".
N2  Of "49 x 22 cm", "10-12 cm" and "ten to twelve litres" every number has the unit.
N3  "24 euros 50" and "24 euros and 50 cents" are one price.
N4  How often is a number with its period: "twice a year", "每年两次".
N5  A number that counts nothing is left out: an ordinal, "one of them", "no two", "nine out of ten", "千万别", "一起",
    "twenty-four hours a day", a time of the day.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

import msgspec

from multimodal.pipes.claim_words import (
    BESIDE_HAN,
    BESIDE_THINGS,
    CALENDAR,
    HAN_DIGITS,
    HAN_SCALES,
    MONEY_OF,
    ONES,
    OTHERS,
    SCALES,
    SHORT_UNITS,
    SINGLE_AMOUNTS,
    TENS,
    TIMES,
    UNIT_OF,
)
from multimodal.pipes.fact_words import MONEY
from multimodal.pipes.spoken_numbers import han, spoken, value_of

__all__ = ["Amount", "amounts", "is_price", "unit_of"]


class Amount(msgspec.Struct, frozen=True):
    """A number and its unit ("" = none), from `start` to `end`; `exact`: one unit of its last digit, for rounding."""

    value: Decimal
    unit: str
    start: int
    end: int
    exact: Decimal = Decimal(1)
    counts: str = ""
    """What it counts, where no unit does: the plural behind it, as in "four legs"."""


_SAID = "|".join([*ONES, *TENS, *SCALES, "dozen", "half", "quarter"])
_DIGIT_SAID = "|".join([*ONES])
_NUMBER = re.compile(
    r"(?P<fraction>(?<![\w/.])(?:\d+\s)?\d{1,2}[/⁄]\d{1,2}(?![\w/])|(?<!\w)\d*[½¼¾⅓⅔⅛])"
    r"|(?P<digits>(?<![\w.])\d{1,3}(?:[,’' \u00a0\u202f]\d{3})+(?:\.\d+)?(?!\d)"
    r"|(?<![\w.])\d{1,3}(?:\.\d{3})+,\d+|(?<![A-Za-z\d])\d+(?:[.,]\d+)*)"
    rf"|(?P<words>\b(?:{_SAID})(?:(?:[\s-]+(?:and[\s-]+)?)(?:{_SAID}))*(?:\s+point(?:\s+(?:{_DIGIT_SAID}))+)?"
    r"(?:\s+and\s+an?\s+(?P<part>half|quarter))?\b)"
    r"|(?P<han>(?<!第)[零〇一二两三四五六七八九十百千万]+(?:点[零〇一二三四五六七八九]+)?|半)",
    re.IGNORECASE,
)
_SIGN_BEFORE = re.compile(r"(US\$|[€$£¥￥]|\b[A-Z]{3})\s?$")
_UNITS_SAID = "|".join(sorted(map(re.escape, {*UNIT_OF, *MONEY_OF}), key=len, reverse=True))
_UNIT_AFTER = re.compile(rf"[\s-]{{0,2}}({_UNITS_SAID})(?![A-Za-z])", re.IGNORECASE)
_HALF = re.compile(r"\b(half|quarter)\s+(?:an?|of an?)\s+(\w+)", re.IGNORECASE)
_A_UNIT = re.compile(r"(?<![\w-])(?:an?|one)\s+(?:full\s+|whole\s+)?([a-z]+)\b(\s+and\s+a\s+half\b)?", re.IGNORECASE)
_OFTEN = re.compile(
    r"\b(once|twice|(?P<count>[\w-]+)\s+times)\s+(?:an?|per|each|every|in an?)\s+(day|week|month|year)\b"
    r"|每(?P<period>年|个?月|周|天|日)[^，。；]{0,6}?(?P<han>[一二两三四五六七八九十\d]+)次",
    re.IGNORECASE,
)
_TIMES_SAID = {"once": Decimal(1), "twice": Decimal(2)}
_PERIODS = {"年": "year", "月": "month", "个月": "month", "周": "week", "天": "day", "日": "day"}
_LIST = re.compile(r"\s*(?:x|×|\*|by|to|or|-|–|—|至|到|乘|~|～)\s*", re.IGNORECASE)
_MORE_MONEY = re.compile(r"\s+(?:and\s+)?", re.IGNORECASE)
_GUARANTEE = re.compile(r"\b(?:guarantee|warranty|guaranteed)|质保|保修|保证", re.IGNORECASE)

_BEFORE_IDLE = re.compile(
    r"\b(?:no|number|step|part|stop|chapter|cloud|item|past|one or|an?\s+\w+\s+or"
    r"|(?:child|boy|girl|man|woman)\s+of)\s+$|\d:$",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    rf"[\s-]+(?:[a-z]+\s+)?(?:{'|'.join(BESIDE_THINGS)})(?:s|es)?\b|[片个只杯块颗朵本枝]?(?:{'|'.join(BESIDE_HAN)})",
    re.IGNORECASE,
)
_OF_SOMETHING = re.compile(r"\s+of\s", re.IGNORECASE)
_SHARE_OF = re.compile(r"\bout\s+of\s+$", re.IGNORECASE)
_INTO = re.compile(r"\bin(?:to)?\s+$", re.IGNORECASE)
_OF_THE_BODY = re.compile(r"[\s-]+(?:toes|fingers|thumbs|hands|eyes|ears|arms)\b", re.IGNORECASE)
_THESE = re.compile(r"\b(?:the|these|those|all|you|we|us|other|last|next|first|any|every)\s+$", re.IGNORECASE)
_THESE_AFTER = re.compile(r"\s+(?:of|are|were|go|belong|together|in one)\b|\s*(?:[.,;:!?…]|$)", re.IGNORECASE)
_AFTER_IDLE = re.compile(
    r"(?:st|nd|rd|th)\b|-(?:first|second|third|\w+th)\b|\s+or\s+so\b|\s+out\s+of\b|/7\b|:\d"
    r"|\s*(?:o['’]clock|[ap]\.?m\b|in the (?:morning|afternoon|evening))|\s+past\b|\s+times?\b(?!\s+the)",
    re.IGNORECASE,
)
_OF_THE_CALENDAR = re.compile(
    r"\s+(?:an?|in an?|of the|every|each|to the)\s+(?:minute|hour|day|week|year)\b", re.IGNORECASE
)
_HAN_CALENDAR = re.compile(r"(?:一|每)(?:天|周|年|分钟|小时|个星期)[^，。]{0,2}$")
_HAN_COUNTERS = frozenset("个只条把件片块张双对套根颗枚支节本盏台座组层格档步扇挡位色脚腿")
_PLURAL = re.compile(r"[\s-]+([a-z]{3,}s)\b(?<!ss)", re.IGNORECASE)


def unit_of(word: str) -> str:
    """The one spelling of a unit, or a currency's code; "" for a word that is neither."""
    small = unicodedata.normalize("NFKC", word).casefold()
    return UNIT_OF.get(small, "") or MONEY_OF.get(small, "")


def is_price(unit: str) -> bool:
    """Whether a unit is money."""
    return unit in MONEY or unit in {"cent", "crown", "peso"}


def amounts(sentence: str) -> list[Amount]:
    """The numbers of a sentence, in their order (N1-N5)."""
    often = list(_often(sentence))
    taken = [(each.start, each.end) for each in often]
    halves = list(_halves(sentence))
    taken += [(each.start, each.end) for each in halves]
    found: list[tuple[re.Match[str], Amount]] = []
    end = 0
    for match in _NUMBER.finditer(sentence):
        inside = match.start() < end or any(start <= match.start() < stop for start, stop in taken)
        amount = None if inside else _amount(match, sentence)
        if amount is not None:
            found.append((match, amount))
            end = amount.end
    plain = _with_cents([amount for _, amount in _inherited(found, sentence)], sentence)
    matches = {match.start(): match for match, _ in found}
    kept = [each for each in plain if not _idle(matches.get(_number_at(each, matches)), each, sentence)]
    return sorted([*kept, *often, *halves], key=lambda each: each.start)


def _number_at(amount: Amount, matches: dict[int, re.Match[str]]) -> int:
    return next((start for start in sorted(matches) if amount.start <= start < amount.end), -1)


def _amount(match: re.Match[str], sentence: str) -> Amount | None:
    text, (start, end) = match[0], match.span()
    # The thousand of a kilogram is not the number's: 一百二十千克.
    if match["han"] and len(text) > 1 and text.endswith("千") and sentence[end : end + 1] in {"克", "瓦", "米"}:
        text, end = text[:-1], end - 1
    value = value_of(match, text)
    if value is None:
        return None
    if match["digits"] and (ten_thousands := re.match(r"\s?万", sentence[end:])):
        value, end = value * 10_000, end + ten_thousands.end()
    exact = Decimal(1).scaleb(min(0, int(value.as_tuple().exponent)))
    after, unit = _UNIT_AFTER.match(sentence, end), ""
    if after is not None and _is_unit(after, match, sentence):
        unit, end = unit_of(after[1]), after.end()
        if match["han"] and sentence.startswith("半", end):
            value, end = value + OTHERS["half"], end + 1
    sign = _SIGN_BEFORE.search(sentence[:start])
    code = MONEY_OF.get(sign[1].casefold(), "") if sign else ""
    if code and sign:
        unit, start = code, sign.start()
    counts = "" if unit else ((_PLURAL.match(sentence, end) or [""] * 2)[1] or "")
    return Amount(value, unit, start, end, exact, counts)


def _is_unit(after: re.Match[str], match: re.Match[str], sentence: str) -> bool:
    said = after[1].casefold()
    if said in SHORT_UNITS and said != "%":
        rest = sentence[after.end() :]
        return bool(match["digits"]) and (said != "in" or not re.match(r"\s+[A-Za-z]", rest) or rest.startswith(" x "))
    if said in {"块", "欧", "度", "刀", "折"} and match["han"]:
        # 两块木板 counts boards; a price in 块 ends there.
        return not re.match(r"[\u4e00-\u9fff]", sentence[after.end() :]) if said in {"块", "刀"} else True
    return not (said in {"real", "won", "rand", "dong", "lei"} and match["words"])


def _inherited(found: list[tuple[re.Match[str], Amount]], sentence: str) -> list[tuple[re.Match[str], Amount]]:
    """N2."""
    made = list(found)
    for index in range(len(made) - 2, -1, -1):
        (match, this), (_, behind) = made[index], made[index + 1]
        if not this.unit and behind.unit and _LIST.fullmatch(sentence[this.end : behind.start]):
            made[index] = (match, msgspec.structs.replace(this, unit=behind.unit, counts=""))
    return made


def _with_cents(found: list[Amount], sentence: str) -> list[Amount]:
    """N3."""
    made: list[Amount] = []
    for each in found:
        last = made[-1] if made else None
        if (
            last is not None
            and last.unit in MONEY
            and (each.unit == "cent" or (not each.unit and not each.counts))
            and 0 < each.value < 100
            and _MORE_MONEY.fullmatch(sentence[last.end : each.start])
            and (each.unit == "cent" or "and" not in sentence[last.end : each.start])
        ):
            whole = last.value + each.value / 100
            made[-1] = Amount(whole, last.unit, last.start, each.end, Decimal("0.01"))
        else:
            made.append(each)
    return made


def _often(sentence: str) -> Iterator[Amount]:
    """N4."""
    for match in _OFTEN.finditer(sentence):
        if match["han"]:
            said, period = match["han"], _PERIODS.get(match["period"], "")
            value: Decimal | None = Decimal(said) if said.isdigit() else han(said)
        else:
            period, said = match[3].casefold(), (match["count"] or match[1]).casefold()
            value = Decimal(said) if said.isdigit() else _TIMES_SAID.get(said) or spoken(said)
        if value is not None:
            yield Amount(value, f"/{period}", *match.span())


def _halves(sentence: str) -> Iterator[Amount]:
    for half in _HALF.finditer(sentence):
        unit = unit_of(half[2])
        if unit and not is_price(unit):
            yield Amount(OTHERS[half[1].casefold()], unit, *half.span(), Decimal("0.1"))
    for one in _A_UNIT.finditer(sentence):
        unit, more = unit_of(one[1]), OTHERS["half"] if one[2] else Decimal(0)
        if more and unit:
            yield Amount(1 + more, unit, *one.span(), Decimal("0.1"))
            continue
        before = sentence[: one.start()].rstrip().casefold()
        if unit in SINGLE_AMOUNTS and not before.endswith(("half", "quarter", "of", "per")) and len(one[1]) > 2:
            yield Amount(Decimal(1), unit, one.start(), one.end(1))


def _idle(match: re.Match[str] | None, amount: Amount, sentence: str) -> bool:
    """N5."""
    if match is None:
        return False
    said, before, after = match[0], sentence[: amount.start], sentence[amount.end :]
    if _SHARE_OF.search(before):
        return True
    if amount.unit:
        if amount.value == 1 and (amount.unit in TIMES or amount.unit in {"person", "piece", "fold"}):
            return _GUARANTEE.search(sentence) is None
        if amount.unit in TIMES and _OF_SOMETHING.match(after) and _GUARANTEE.search(sentence) is None:
            return True  # ninety seconds of silence
        if amount.unit == "piece" and _BESIDE.match(after):
            return True
        known = (amount.value, amount.unit) in CALENDAR
        return known and bool(_OF_THE_CALENDAR.match(after) or _HAN_CALENDAR.search(before))
    if _BEFORE_IDLE.search(before) or _AFTER_IDLE.match(after) or _OF_THE_BODY.match(after) or _BESIDE.match(after):
        return True
    if match["words"] and not amount.counts and _INTO.search(before) and _THESE_AFTER.match(after):
        return True
    if _THESE.search(before) and _THESE_AFTER.match(after):
        return True
    if match["han"]:
        if said in {"半", "万一"} or all(each in HAN_SCALES for each in said):
            return True
        if len(said) == 2 and all(each in HAN_DIGITS for each in said):
            return True  # 三五好友
        return len(said) == 1 and (said == "一" or after[:1] not in _HAN_COUNTERS)
    if match["digits"]:
        return bool(re.match(r"[A-Za-z]", after)) and not re.match(r"x\s?\d", after)
    small = said.casefold()
    return small in {"one", "zero", *SCALES, "half", "quarter"} or small == "one hundred"
