"""What a sentence claims of a product: prices, numbers with their units, materials, colours, names. Pure.

Numbers are read in digits and in words, in English and Chinese: "1,299.50", "forty-nine", "a dozen", "四十九".
What is no claim is left alone: "one of them", "a second look", "both", "first".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Literal

import msgspec

from multimodal.pipes.fact_words import COLOUR_WORDS, MATERIAL_WORDS, MONEY

__all__ = ["Claim", "claims", "folded", "unit_of"]

ClaimKind = Literal["price", "number", "material", "colour", "name"]


class Claim(msgspec.Struct, frozen=True):
    """One claim.

    Args:
        kind: what sort.
        said: the words.
        start, end: where they stand, in code points of the sentence.
        number: of a price or a number.
        unit: its unit in one spelling, or the currency's code; "" = none was said.
        word: of a material, a colour or a name: in small letters, one of it.
    """

    kind: ClaimKind
    said: str
    start: int
    end: int
    number: Decimal | None = None
    unit: str = ""
    word: str = ""


_UNITS_SAID = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_ONES = {word: value for value, word in enumerate(_UNITS_SAID.split())}
_TENS_SAID = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * value for value, word in enumerate(_TENS_SAID.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6}
_OTHERS = {"dozen": Decimal(12), "half": Decimal("0.5"), "quarter": Decimal("0.25")}
_HAN_DIGITS = dict(zip("零一二三四五六七八九", range(10), strict=True)) | {"两": 2, "〇": 0}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000}

_UNITS = {
    "mm": "mm millimetre millimetres millimeter millimeters 毫米",
    "cm": "cm centimetre centimetres centimeter centimeters 厘米 公分",
    "m": "m metre metres meter meters 米",
    "km": "km kilometre kilometres kilometer kilometers 公里 千米",
    "in": "in inch inches 英寸 寸",
    "ft": "ft foot feet 英尺",
    "ml": "ml millilitre millilitres milliliter milliliters 毫升",
    "cl": "cl centilitre centilitres",
    "l": "l litre litres liter liters 升 公升",
    "g": "g gram grams gramme grammes 克",
    "kg": "kg kilo kilos kilogram kilograms 千克 公斤",
    "oz": "oz ounce ounces 盎司",
    "lb": "lb lbs 磅",
    "s": "s sec second seconds 秒",
    "min": "min minute minutes 分钟",
    "h": "h hr hour hours 小时",
    "day": "day days 天",
    "year": "year years 年",
    "w": "w watt watts 瓦",
    "kw": "kw kilowatt kilowatts 千瓦",
    "v": "v volt volts 伏",
    "mah": "mah 毫安时",
    "%": "% percent per-cent 百分",
    "°c": "°c degrees degree 度 摄氏度",
    "person": "person persons people 人",
    "piece": "piece pieces pcs 件 片 块",
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_MONEY_OF = {name.casefold(): code for code, (one, many, han) in MONEY.items() for name in (one, many, han, code)} | {
    "€": "EUR",
    "$": "USD",
    "£": "GBP",
    "¥": "CNY",
    "￥": "CNY",
    "元": "CNY",
    "块钱": "CNY",
    "人民币": "CNY",
    "us$": "USD",
    "bucks": "USD",
    "quid": "GBP",
    "cents": "cent",
    "cent": "cent",
}
_WORD_NUMBER = "|".join([*_ONES, *_TENS, *_SCALES, *_OTHERS])
_NUMBER = re.compile(
    r"(?P<digits>(?<![\w.])\d{1,3}(?:[,’' \u00a0\u202f]\d{3})+(?:\.\d+)?(?!\d)|(?<![A-Za-z\d])\d+(?:[.,]\d+)*)"
    rf"|(?P<words>\b(?:{_WORD_NUMBER})(?:(?:[\s-]+(?:and[\s-]+)?)(?:{_WORD_NUMBER}))*\b)"
    r"|(?P<han>(?<!第)[零〇一二两三四五六七八九十百千万]+(?:点[零〇一二三四五六七八九]+)?)",
    re.IGNORECASE,
)
_SIGN_BEFORE = re.compile(r"(US\$|[€$£¥￥]|\b[A-Z]{3})\s?$")
_UNIT_AFTER = re.compile(
    r"\s?-?(?:(" + "|".join(sorted(map(re.escape, {*_UNIT_OF, *_MONEY_OF}), key=len, reverse=True)) + r"))(?![A-Za-z])",
    re.IGNORECASE,
)
_HALF = re.compile(r"\b(half|quarter)\s+(?:an?|of an?)\s+(\w+)", re.IGNORECASE)
_IDLE_ONE = re.compile(r"^(one|一)$", re.IGNORECASE)
_HAN_IDLE = re.compile("起|样|些|直|定|般|旦|同|切|边|种|下|会儿|者|侧|用")
_NO_MATERIAL = re.compile(
    r"\b(?:a|the|of|your|every|second|full)\s+glass(?:es)?\s+(?:of)\b|\bgold(?:en)? (?:standard|hour)\b"
)


def claims(sentence: str, names: Iterable[str] = ()) -> list[Claim]:
    """The claims of a sentence, in their order.

    Args:
        sentence: as it was said.
        names: words that are names, such as brands: each is a claim where it is said.
    """
    found = [*_numbers(sentence), *_things(sentence), *_named(sentence, names)]
    return sorted(found, key=lambda claim: (claim.start, claim.end))


def folded(word: str) -> str:
    """A word in small letters, compatibility forms undone, one of several."""
    small = unicodedata.normalize("NFKC", word).casefold()
    if small.isascii() and len(small) > 3 and small.endswith("s") and not small.endswith(("ss", "us", "is")):
        return small[:-1]
    return small


def unit_of(word: str) -> str:
    """The one spelling of a unit, or a currency's code; "" for a word that is neither."""
    small = unicodedata.normalize("NFKC", word).casefold()
    return _UNIT_OF.get(small, "") or _MONEY_OF.get(small, "")


def _numbers(sentence: str) -> list[Claim]:
    found: list[Claim] = []
    for match in _NUMBER.finditer(sentence):
        value = _value(match)
        if value is None:
            continue
        start, end = match.span()
        sign = _SIGN_BEFORE.search(sentence[:start])
        after = _UNIT_AFTER.match(sentence, end)
        unit = ""
        if after is not None:
            unit, end = unit_of(after[1]), after.end()
        code = _MONEY_OF.get(sign[1].casefold(), "") if sign else ""
        if code:
            unit, start = code, start - len(sign[0]) if sign else start
        if not unit and _idle(match, sentence):
            continue
        kind: ClaimKind = "price" if unit in MONEY or unit == "cent" else "number"
        found.append(Claim(kind, sentence[start:end], start, end, value, unit))
    for half in _HALF.finditer(sentence):
        unit = unit_of(half[2])
        if unit:
            found.append(Claim("number", half[0], *half.span(), _OTHERS[half[1].casefold()], unit))
    return found


def _idle(match: re.Match[str], sentence: str) -> bool:
    """A number word that counts nothing: "one of them", "一起", "hundreds"."""
    said = match[0]
    if match["han"] and len(said) == 1:
        return said in "一十百千万" or _HAN_IDLE.match(sentence[match.end() :]) is not None
    return bool(_IDLE_ONE.match(said)) or said.casefold() in {*_SCALES, "half", "quarter"}


def _value(match: re.Match[str]) -> Decimal | None:
    if match["digits"]:
        text = re.sub(r"(?<=\d)[,’' \u00a0\u202f](?=\d{3}(?:\D|$))", "", match["digits"])
        try:
            return Decimal(text.replace(",", ".")) if text.count(".") + text.count(",") <= 1 else None
        except InvalidOperation:
            return None
    return _spoken(match["words"]) if match["words"] else _han(match["han"])


def _spoken(words: str) -> Decimal | None:
    total, part = Decimal(0), Decimal(0)
    seen = False
    for word in re.split(r"[\s-]+", words.casefold()):
        if word in _ONES or word in _TENS:
            part += Decimal(_ONES.get(word, _TENS.get(word, 0)))
        elif word == "hundred":
            part = (part or Decimal(1)) * 100
        elif word in _SCALES:
            total, part = total + (part or Decimal(1)) * _SCALES[word], Decimal(0)
        elif word in _OTHERS:
            part = (part or Decimal(1)) * _OTHERS[word]
        else:
            continue
        seen = True
    return total + part if seen else None


def _han(text: str) -> Decimal | None:
    whole, _, fraction = text.partition("点")
    if not any(scale in whole for scale in _HAN_SCALES):
        digits = "".join(str(_HAN_DIGITS[each]) for each in whole)
        value = Decimal(digits) if digits else Decimal(0)
    else:
        value = _han_scaled(whole)
    if fraction:
        value += Decimal("0." + "".join(str(_HAN_DIGITS[each]) for each in fraction))
    return value


def _han_scaled(text: str) -> Decimal:
    total, section, digit = 0, 0, 0
    for each in text:
        if each in _HAN_DIGITS:
            digit = _HAN_DIGITS[each]
        elif each == "万":
            total, section, digit = (total + section + digit) * 10_000, 0, 0
        else:
            section += (digit or 1) * _HAN_SCALES[each]
            digit = 0
    return Decimal(total + section + digit)


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_LATIN_THINGS = re.compile(
    rf"(?<![\w-])(?:{_alternatives(w for w in MATERIAL_WORDS | COLOUR_WORDS if w.isascii())})(?:s|es)?(?![\w])",
    re.IGNORECASE,
)
_HAN_THINGS = re.compile(_alternatives(w for w in MATERIAL_WORDS | COLOUR_WORDS if not w.isascii() and len(w) > 1))
_ORDINARY = frozenset(
    {"clear", "natural", "down", "lime", "cherry", "sand", "felt", "tin", "wire", "rose", "gel", "ash"}
)
"""Words that say something else as often: a claim only where a sheet of the catalogue has them for a value."""


def _things(sentence: str) -> list[Claim]:
    found: list[Claim] = []
    spared = [match.span() for match in _NO_MATERIAL.finditer(sentence.casefold())]
    for pattern in (_LATIN_THINGS, _HAN_THINGS):
        for match in pattern.finditer(sentence):
            word = folded(match[0])
            if word in _ORDINARY or any(a <= match.start() < b for a, b in spared):
                continue
            kind: ClaimKind = (
                "material" if match[0].casefold() in MATERIAL_WORDS or word in MATERIAL_WORDS else "colour"
            )
            found.append(Claim(kind, match[0], *match.span(), word=word))
    return found


def _named(sentence: str, names: Iterable[str]) -> list[Claim]:
    found: list[Claim] = []
    for name in names:
        border = (r"(?<!\w)", r"(?!\w)") if name.isascii() else ("", "")
        for match in re.finditer(border[0] + re.escape(name) + border[1], sentence, re.IGNORECASE):
            found.append(Claim("name", match[0], *match.span(), word=folded(name)))
    return found
