"""Numbers that a sentence says, with their units, in digits and words, English and Chinese. Pure.

N1  "1,299.50", "1.299,50", "forty-nine", "one point six", "two and a half", "a dozen", "3/4", "四十九", "一点六", "半".
N2  Of "49 x 22 cm", "10-12 cm" and "ten to twelve litres" every number has the unit.
N3  "24 euros 50" and "24 euros and 50 cents" are one price, "1.2k euros" is 1,200, and a number behind a word of price
    is a price without its money: "it costs 24".
N4  How often is a number with its period: "twice a year", "每年两次". So is a price that comes again, or is no price
    but what is taken off one: "9 euros a month", "9 euros off".
N5  A number that counts nothing is left out: an ordinal, "one of them", "no two", "nine out of ten", "千万别", "一起",
    "twenty-four hours a day", a time of the day.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

import msgspec

from multimodal.pipes.claim_base import Spans, before
from multimodal.pipes.claim_words import (
    BESIDE_HAN,
    BESIDE_THINGS,
    CALENDAR,
    GROUPS,
    HAN_DIGITS,
    HAN_SCALES,
    MEASURES,
    MONEY_OF,
    MULTIPLES,
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
    priced: bool = False
    """Without a unit, but a price."""


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
_UNIT_AFTER = re.compile(rf"(?:-?ish|[\s-]odd|\+)?[\s-]{{0,2}}({_UNITS_SAID})(?![A-Za-z])", re.IGNORECASE)
_MULTIPLE = re.compile(rf"\s?({'|'.join(sorted(MULTIPLES, key=len, reverse=True))})(?![A-Za-z])", re.IGNORECASE)
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
_LIST = re.compile(r"\s*(?:x|×|\*|by|to|-|–|—|至|到|乘|~|～)\s*", re.IGNORECASE)
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
_ORDINAL = re.compile(
    r"\b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|next|one)\s+of\s+"
    r"(?:the\s+|our\s+|these\s+|those\s+|my\s+)?$",
    re.IGNORECASE,
)
_BEGINS = re.compile(r"(?:^|[.,;:!?…]|\b(?:and|or|but|for))\s*$", re.IGNORECASE)
_OF_THEM = re.compile(r"\s+of\s+(?:them|these|those|us|you)\b", re.IGNORECASE)
_TAKES = re.compile(r"\btakes?\s+$", re.IGNORECASE)
_TO = re.compile(r"\s+to\b", re.IGNORECASE)
_OF_SOMETHING = re.compile(r"\s+of\s", re.IGNORECASE)
_SHARE_OF = re.compile(r"\bout\s+of\s+$", re.IGNORECASE)
_INTO = re.compile(r"\bin(?:to)?\s+$", re.IGNORECASE)
_BODY = frozenset({"toes", "fingers", "thumbs", "hands", "eyes", "ears", "arms"})
_OF_THE_BODY = re.compile(rf"[\s-]+(?:{'|'.join(sorted(_BODY))})\b", re.IGNORECASE)
_THESE = re.compile(r"\b(?:the|these|those|all|you|we|us|other|last|next|first|any|every)\s+$", re.IGNORECASE)
_THESE_AFTER = re.compile(r"\s+(?:of|are|were|go|belong|together|in one)\b|\s*(?:[.,;:!?…]|$)", re.IGNORECASE)
_AFTER_IDLE = re.compile(
    r"(?:st|nd|rd|th)\b|-(?:first|second|third|\w+th)\b|\s+or\s+so\b|\s+out\s+of\b|/7\b|:\d"
    r"|\s*(?:o['’]clock|[ap]\.?m\b|in the (?:morning|afternoon|evening))|\s+past\b|\s+times?\b(?!\s+the)"
    r"|\s+more(?:\s+to\b|\s*(?:[.,;:!?]|$))",
    re.IGNORECASE,
)
_OF_THE_CALENDAR = re.compile(
    r"\s+(?:an?|in an?|of the|every|each|to the)\s+(?:minute|hour|day|week|year)\b", re.IGNORECASE
)
_HAN_CALENDAR = re.compile(r"(?:一|每)(?:天|周|年|分钟|小时|个星期)[^，。]{0,2}$")
_TEN_THOUSANDS = re.compile(r"\s?万")
_A_WORD, _A_LETTER, _BY = re.compile(r"\s+[A-Za-z]"), re.compile(r"[A-Za-z]"), re.compile(r"x\s?\d")
_IDLE_BEHIND = (_AFTER_IDLE, _OF_THE_BODY, _BESIDE)
_HAN_COUNTERS = frozenset("个只条把件片块张双对套根颗枚支节本盏台座组层格档步扇挡位色脚腿")
_PLURAL = re.compile(r"[\s-]+([a-z]{3,}s)\b(?<!ss)", re.IGNORECASE)


def unit_of(word: str) -> str:
    """The one spelling of a unit, or a currency's code; "" for a word that is neither."""
    small = unicodedata.normalize("NFKC", word).casefold()
    return UNIT_OF.get(small, "") or MONEY_OF.get(small, "")


def is_price(unit: str) -> bool:
    """Whether a unit is money, be it money a month or money off."""
    money = unit.partition("/")[0]
    return money in MONEY or money in {"cent", "crown", "peso"}


def amounts(sentence: str) -> list[Amount]:
    """The numbers of a sentence, in their order (N1-N5)."""
    often, single = list(_often(sentence)), list(_single(sentence))
    taken = Spans((each.start, each.end) for each in (*often, *single))
    found: list[_Found] = []
    end = 0
    for match in _NUMBER.finditer(sentence):
        amount = None if match.start() < end or taken.touch(*match.span()) else _amount(match, sentence)
        if amount is not None:
            found.append((match, amount))
            end = amount.end
    guaranteed = bool(found) and _GUARANTEE.search(sentence) is not None
    kept = [
        _counted(each, sentence)
        for match, each in _with_cents(_inherited(found, sentence), sentence)
        if not _idle(match, each, sentence, guaranteed)
    ]
    return sorted([*kept, *often, *single], key=lambda each: each.start)


_Found = tuple[re.Match[str], Amount]


def _amount(match: re.Match[str], sentence: str) -> Amount | None:
    text, (start, end) = match[0], match.span()
    # The thousand of a kilogram is not the number's: 一百二十千克.
    if match["han"] and len(text) > 1 and text.endswith("千") and sentence[end : end + 1] in {"克", "瓦", "米"}:
        text, end = text[:-1], end - 1
    value = value_of(match, text)
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
        else:
            made.append((match, each))
    return made


def _counted(amount: Amount, sentence: str) -> Amount:
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


def _single(sentence: str) -> Iterator[Amount]:
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
        alone = unit in SINGLE_AMOUNTS and not ahead.endswith(("half", "quarter", "of", "per"))
        side = MEASURES.get(unit, ("",))[0] == "length" and _A_SIDE.match(sentence, one.end(1)) is not None
        if (alone or side) and len(one[1]) > 2:
            yield Amount(Decimal(1), unit, one.start(), one.end(1))
    for group in _GROUP.finditer(sentence):
        what = (group["what"] or "").casefold()
        beside = what.removesuffix("s") in BESIDE_THINGS or what in _BODY or unit_of(what) in TIMES
        if not beside:
            yield Amount(Decimal(GROUPS[group["number"].casefold()]), "", *group.span("group"), counts=what)


def _idle(match: re.Match[str], amount: Amount, sentence: str, guaranteed: bool) -> bool:
    """N5."""
    said, ahead, end = match[0], before(sentence, amount.start), amount.end
    if _SHARE_OF.search(ahead):
        return True
    if amount.unit:
        if amount.value == 1 and (amount.unit in TIMES or amount.unit in {"person", "piece", "fold"}):
            return not guaranteed
        if amount.unit in TIMES and _OF_SOMETHING.match(sentence, end) and not guaranteed:
            return True  # ninety seconds of silence
        if amount.unit == "piece" and (_BESIDE.match(sentence, end) or _ORDINAL.search(ahead)):
            return True
        known = (amount.value, amount.unit) in CALENDAR
        return known and bool(_OF_THE_CALENDAR.match(sentence, end) or _HAN_CALENDAR.search(ahead))
    if amount.priced:
        return said.casefold() in {"one", "half", "quarter", "一", "半"}
    if _BEFORE_IDLE.search(ahead) or _ORDINAL.search(ahead) or any(each.match(sentence, end) for each in _IDLE_BEHIND):
        return True
    if _OF_THEM.match(sentence, end) and _BEGINS.search(ahead):
        return True
    if match["words"] and not amount.counts and _INTO.search(ahead) and _THESE_AFTER.match(sentence, end):
        return True
    if _THESE.search(ahead) and _THESE_AFTER.match(sentence, end):
        return True
    if _TAKES.search(ahead) and _TO.match(sentence, end):
        return True
    if match["han"]:
        if said in {"半", "万一"} or all(each in HAN_SCALES for each in said):
            return True
        if len(said) == 2 and all(each in HAN_DIGITS for each in said):
            return True  # 三五好友
        return len(said) == 1 and (said == "一" or sentence[end : end + 1] not in _HAN_COUNTERS)
    if match["digits"]:
        return _A_LETTER.match(sentence, end) is not None and not _BY.match(sentence, end)
    small = said.casefold()
    return small in {"one", "zero", *SCALES, "half", "quarter"} or small == "one hundred"
