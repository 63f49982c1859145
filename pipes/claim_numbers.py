"""Numbers that a sentence says, with their units, in digits and words, English and Chinese. Pure.

N1  "1,299.50", "1.299,50", "forty-nine", "one point six", "two and a half", "a dozen", "3/4", "四十九", "一点六", "半".
N2  Of "49 x 22 cm", "10-12 cm" and "ten to twelve litres" every number has the unit.
N3  "24 euros 50" and "24 euros and 50 cents" are one price, "one metre forty" and "一公斤一百克" one measure, "1.2k
    euros" is 1,200, "1.299 euros" is 1,299, and a number behind a word of price is a price without its money: "it costs
    24".
N4 is in `claim_amounts`, N5 in `claim_idle`.
"""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from multimodal.pipes.claim_amounts import Amount, counted, is_price, often, single, unit_of
from multimodal.pipes.claim_base import Spans, before
from multimodal.pipes.claim_idle import GUARANTEE, HAN_COUNTERS, idle
from multimodal.pipes.claim_words import (
    HAN_DIGITS,
    MEASURES,
    MONEY_OF,
    MULTIPLES,
    ONES,
    OTHERS,
    SCALES,
    SHORT_UNITS,
    TENS,
    UNIT_OF,
)
from multimodal.pipes.fact_words import MONEY
from multimodal.pipes.spoken_numbers import value_of

__all__ = ["Amount", "amounts", "is_price", "unit_of"]


_SAID = "|".join([*ONES, *TENS, *SCALES, "dozen", "half", "quarter"])
_DIGIT_SAID = "|".join([*ONES])
_NUMBER = re.compile(
    r"(?P<fraction>(?<![\w/.])(?:\d+\s)?\d{1,2}[/⁄]\d{1,2}(?![\w/])|(?<!\w)\d*[½¼¾⅓⅔⅛])"
    r"|(?P<digits>(?<![\w.])\d{1,3}(?:[,’' \u00a0\u202f]\d{3})+(?:\.\d+)?(?!\d)"
    r"|(?<![\w.])\d{1,3}(?:\.\d{3})+,\d+|(?<![A-Za-z\d])(?<![A-Z]-)\d+(?:[.,]\d+)*)"
    rf"|(?P<words>\b(?:{_SAID})(?:(?:[\s-]+(?:and[\s-]+)?)(?:{_SAID}))*(?:\s+point(?:\s+(?:{_DIGIT_SAID}))+)?"
    r"(?:\s+and\s+an?\s+(?P<part>half|quarter))?\b)"
    r"|(?P<han>(?<!第)[零〇一二两三四五六七八九十百千万]+(?:点[零〇一二三四五六七八九]+)?|半)",
    re.IGNORECASE,
)
_SIGN_BEFORE = re.compile(r"(US\$|[€$£¥￥]|\b[A-Z]{3})\s?$")
_UNITS_SAID = "|".join(sorted(map(re.escape, {*UNIT_OF, *MONEY_OF}), key=len, reverse=True))
_UNIT_AFTER = re.compile(rf"(?:-?ish|[\s-]odd|\+)?[\s-]{{0,2}}({_UNITS_SAID})(?![A-Za-zÀ-ÖØ-öø-ɏ])", re.IGNORECASE)
_MULTIPLE = re.compile(
    rf"\s?({'|'.join(sorted(MULTIPLES, key=len, reverse=True))})(?![A-Za-zÀ-ÖØ-öø-ɏ])", re.IGNORECASE
)
_PRICE_BEFORE = re.compile(
    r"(?:\b(?:costs?|costing|price(?:d at| is| of|:)?|(?:sells|goes|going|retails|yours|have it|get it) (?:for|at)"
    r"|you pay|we ask)(?: (?:just|only|about|around|roughly|under|over|nearly|almost|exactly|a mere|an?))?\s*"
    r"|(?:售价|价格|标价|定价|卖价|价钱)(?:是|为|只要|仅)?[：:\s]*)$",
    re.IGNORECASE,
)
_PRICE_ENDS = re.compile(
    r"\s*(?:[.,;:!?…)，。；！？]|$|(?:and|or|but|only|today|now|each|for|in|at|plus|per|including|with|here)\b)",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
_MINUS = re.compile(r"(?:^|\s)[-−]$")
_LIST = re.compile(r"\s*(?:x|×|\*|by|to|-|–|—|至|到|乘|~|～)\s*", re.IGNORECASE)
_MORE_MONEY = re.compile(r"\s+(?:and\s+)?", re.IGNORECASE)
_MORE = re.compile(r"\s*(?:and\s+)?", re.IGNORECASE)
_TEN_THOUSANDS = re.compile(r"\s?万")
_A_WORD = re.compile(r"\s+[A-Za-z]")
_PLURAL = re.compile(r"[\s-]+([a-z]{3,}s)\b(?<!ss)", re.IGNORECASE)


def amounts(sentence: str) -> list[Amount]:
    """The numbers of a sentence, in their order (N1-N5)."""
    alone = [*often(sentence), *single(sentence)]
    taken = Spans((each.start, each.end) for each in alone)
    found: list[_Found] = []
    end = 0
    for match in _NUMBER.finditer(sentence):
        amount = None if match.start() < end or taken.touch(*match.span()) else _amount(match, sentence)
        if amount is not None:
            found.append((match, amount))
            end = amount.end
    guaranteed = bool(found) and GUARANTEE.search(sentence) is not None
    kept = [
        counted(each, sentence)
        for match, each in _with_cents(_inherited(found, sentence), sentence)
        if not idle(match, each, sentence, guaranteed)
    ]
    made: list[Amount] = []
    for each in sorted([*kept, *alone], key=lambda each: each.start):
        more = _more(made[-1], each, sentence) if made else None
        if more is None:
            made.append(each)
        else:
            made[-1] = _with_more(made[-1], each, more)
    return made


_Found = tuple[re.Match[str], Amount]


def _amount(match: re.Match[str], sentence: str) -> Amount | None:
    text, (start, end) = match[0], match.span()
    # The thousand of a kilogram is not the number's: 一百二十千克.
    if match["han"] and len(text) > 1 and text.endswith("千") and sentence[end : end + 1] in {"克", "瓦", "米"}:
        text, end = text[:-1], end - 1
    thousands = match["digits"] is not None and _THOUSANDS.fullmatch(text) is not None
    value = Decimal(text.replace(".", "")) if text.count(".") > 1 and thousands else value_of(match, text)
    if value is None:
        return None
    exact = Decimal(1).scaleb(min(0, int(value.as_tuple().exponent)))
    sign = _SIGN_BEFORE.search(sentence[max(0, start - 6) : start])
    code = MONEY_OF.get(sign[1].casefold(), "") if sign else ""
    verb = _PRICE_BEFORE.search(before(sentence, start)) is not None
    if match["digits"]:
        if ten_thousands := _TEN_THOUSANDS.match(sentence, end):
            value, end = value * 10_000, ten_thousands.end()
        elif (many := _MULTIPLE.match(sentence, end)) and (
            len(many[1]) > 5 or code or verb or _is_money(_UNIT_AFTER.match(sentence, many.end()))
        ):
            value, end = value * MULTIPLES[many[1].casefold()], many.end()
    after, unit = _UNIT_AFTER.match(sentence, end), ""
    if after is not None and _is_unit(after, match, sentence):
        unit, end = unit_of(after[1]), after.end()
        if match["han"] and sentence.startswith("半", end):
            value, end = value + OTHERS["half"], end + 1
    if code and sign:
        unit, start = code, start - len(sign[0])
    counts = "" if unit else ((_PLURAL.match(sentence, end) or [""] * 2)[1] or "")
    priced = verb and not unit and not counts and _PRICE_ENDS.match(sentence, end) is not None
    if priced or is_price(unit):
        if thousands and value < 1000:  # no price has three decimals here
            value, exact = value * 1000, Decimal(1)
        if match["digits"] and _MINUS.search(sentence[max(0, start - 2) : start]):
            value, start = -value, start - 1
    return Amount(value, unit, start, end, exact, counts, priced)


def _is_money(after: re.Match[str] | None) -> bool:
    return after is not None and is_price(unit_of(after[1]))


def _is_unit(after: re.Match[str], match: re.Match[str], sentence: str) -> bool:
    said, end = after[1].casefold(), after.end()
    if said in SHORT_UNITS and said != "%":
        return bool(match["digits"]) and (
            said != "in" or not _A_WORD.match(sentence, end) or sentence.startswith(" x ", end)
        )
    if said in {"块", "欧", "度", "刀", "折"} and match["han"]:
        # 两块木板 counts boards; a price in 块 ends there.
        return not "\u4e00" <= sentence[end : end + 1] <= "\u9fff" if said in {"块", "刀"} else True
    return not (said in {"real", "won", "rand", "dong", "lei"} and match["words"])


def _inherited(found: list[_Found], sentence: str) -> list[_Found]:
    """N2."""
    made = list(found)
    for index in range(len(made) - 2, -1, -1):
        (match, this), (_, behind) = made[index], made[index + 1]
        if not this.unit and behind.unit and _LIST.fullmatch(sentence[this.end : behind.start]):
            made[index] = (match, msgspec.structs.replace(this, unit=behind.unit, counts="", priced=False))
    return made


def _with_cents(found: list[_Found], sentence: str) -> list[_Found]:
    """N3."""
    made: list[_Found] = []
    for match, each in found:
        first, last = made[-1] if made else (None, None)
        if (
            first is not None
            and last is not None
            and last.unit in MONEY
            and (each.unit == "cent" or (not each.unit and not each.counts))
            and 0 < each.value < 100
            and _MORE_MONEY.fullmatch(sentence[last.end : each.start])
            and (each.unit == "cent" or "and" not in sentence[last.end : each.start])
        ):
            whole = last.value + each.value / 100
            made[-1] = (first, Amount(whole, last.unit, last.start, each.end, Decimal("0.01")))
        elif first is not None and last is not None and (more := _more(last, each, sentence)):
            made[-1] = (first, _with_more(last, each, more))
        else:
            made.append((match, each))
    return made


def _with_more(last: Amount, each: Amount, more: Decimal) -> Amount:
    return Amount(last.value + more, last.unit, last.start, each.end, Decimal("0.01"))


def _more(last: Amount, each: Amount, sentence: str) -> Decimal | None:
    """What an amount adds to the one before it, in its unit (N3)."""
    measure, factor = MEASURES.get(last.unit, ("", Decimal(1)))
    between = sentence[last.end : each.start]
    if not measure or not _MORE.fullmatch(between):
        return None
    if each.unit:
        smaller, part = MEASURES.get(each.unit, ("", Decimal(1)))
        more = each.value * part / factor
        return more if smaller == measure and part < factor and 0 < more < 1 else None
    if last.unit != "m" or each.counts or each.value != int(each.value) or "and" in between:
        return None
    if sentence[each.start] in HAN_DIGITS:
        counts = between or sentence[each.end : each.end + 1] in HAN_COUNTERS
        return each.value / 10 if not counts and 0 < each.value < 10 else None
    return each.value / 100 if between and 10 <= each.value < 100 else None
