"""What a sentence claims of a product: prices, numbers with their units, materials, colours, names. Pure.

Numbers are those of `multimodal.pipes.claim_numbers`. Of the rest:

M1  A material or a colour counts wherever it stands, but for words that are something else as often ("felt",
    "orange", "clear"): these count where they stand as a material or colour does: "in mint.", "of solid cherry".
M2  What is not the product's is spared: "a glass of water", "red wine", "out of the blue", "it does not rust".
M3  A name is a brand of the catalogue, who makes it ("made by ..."), where it comes from ("made in ..."), and a code
    ("E27").
M4  What a thing is "made of" is a material, also one that nobody has heard of.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Literal

import msgspec

from multimodal.pipes.claim_numbers import amounts, is_price, unit_of
from multimodal.pipes.claim_words import (
    COLOURS,
    FOODS_FIRST,
    HAN_COLOURS,
    HAN_MATERIALS,
    MATERIALS,
    ORDINARY,
    SPARED,
    VERBS,
)

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
        exact: of a number, one unit of its last digit.
        counts: of a number without a unit, what it counts.
    """

    kind: ClaimKind
    said: str
    start: int
    end: int
    number: Decimal | None = None
    unit: str = ""
    word: str = ""
    exact: Decimal = Decimal(1)
    counts: str = ""


def claims(sentence: str, names: Iterable[str] = ()) -> list[Claim]:
    """The claims of a sentence, in their order.

    Args:
        sentence: as it was said.
        names: words that are names, such as brands: each is a claim where it is said.
    """
    found = [*_numbers(sentence), *_deals(sentence), *_things(sentence), *_han_things(sentence)]
    found += [*_named(sentence, names), *_stuffs(sentence, found)]
    return sorted(found, key=lambda claim: (claim.start, claim.end))


def folded(word: str) -> str:
    """A word in small letters, compatibility forms undone, one of several."""
    small = unicodedata.normalize("NFKC", word).casefold()
    if small.isascii() and len(small) > 3 and small.endswith("s") and not small.endswith(("ss", "us", "is")):
        return small[:-1]
    return small


def _numbers(sentence: str) -> Iterator[Claim]:
    for each in amounts(sentence):
        kind: ClaimKind = "price" if is_price(each.unit) else "number"
        said = sentence[each.start : each.end]
        yield Claim(
            kind, said, each.start, each.end, each.value, each.unit, exact=each.exact, counts=folded(each.counts)
        )


_DEALS = re.compile(
    r"\bhalf[\s-]price\b|\bfree (?:of charge|shipping|delivery)\b|\bon sale\b|\bbuy one,? get one\b"
    r"|半价|免费|包邮|特价",
    re.IGNORECASE,
)


def _deals(sentence: str) -> Iterator[Claim]:
    for match in _DEALS.finditer(sentence):
        yield Claim("price", match[0], *match.span(), word=match[0].casefold())


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_LATIN_THINGS = re.compile(
    rf"(?<![\w-])(?:{_alternatives(w for w in MATERIALS | COLOURS if w.isascii())})(?:s|es)?(?![\w])", re.IGNORECASE
)
_TONES = "soft|pale|deep|dark|light|bright|rich|warm|dusky|burnt|solid|polished|real|pure|genuine|oiled|brushed"
_AS_A_THING = re.compile(rf"\b(?:of|in|from|is|are|(?:{_TONES}))\s+(?:an?\s+)?(?:(?:{_TONES})\s+)?$", re.IGNORECASE)
_AS_ORDINARY = re.compile(rf"\b(?:of|in|from|(?:{_TONES}))\s+(?:(?:{_TONES})\s+)?$", re.IGNORECASE)
_THING_ENDS = re.compile(
    r"(?:-|\s*(?:[.,;:!?…]|$|(?:and|or|with|wood|base|frame|handle|lid|seat|shade|glaze|glass|leather|inside|finish|"
    r"coloured|colored|within|legs?|neck|case|body|plank|block)\b))",
    re.IGNORECASE,
)
_AFTER_AN_ARTICLE = re.compile(r"\b(?:an?|the|your|every|another|some|fresh|ripe|few|of)\s+$", re.IGNORECASE)
_AFTER_A_HELPER = re.compile(
    r"(?:\b(?:to|not|never|will|can|cannot|could|may|might|must|should|don['’]t|won['’]t|doesn['’]t|i|we|you|they|she|he)"
    r"|n['’]t)\s+$",
    re.IGNORECASE,
)
_SPARED = re.compile("|".join(SPARED), re.IGNORECASE)


def _things(sentence: str) -> Iterator[Claim]:
    """M1 and M2."""
    spared = [match.span() for match in _SPARED.finditer(sentence)]
    for match in _LATIN_THINGS.finditer(sentence):
        word = folded(match[0])
        word = word if word in MATERIALS or word in COLOURS else match[0].casefold()
        before, after = sentence[: match.start()], sentence[match.end() :]
        if any(a <= match.start() < b for a, b in spared) or (word == "china" and match[0][0] == "C"):
            continue
        if word in VERBS and _AFTER_A_HELPER.search(before):
            continue
        if word in ORDINARY and not (_AS_ORDINARY.search(before) and _THING_ENDS.match(after)):
            continue
        as_thing = _AS_A_THING.search(before) and _THING_ENDS.match(after)
        if (
            word in FOODS_FIRST
            and not as_thing
            and ((_AFTER_AN_ARTICLE.search(before) and _THING_ENDS.match(after)) or match[0].casefold() != word)
        ):
            continue
        kind: ClaimKind = "material" if word in MATERIALS else "colour"
        yield Claim(kind, match[0], *match.span(), word=word)


_STUFF = re.compile(
    r"\b(?:made|carved|cast|turned|woven|knitted|blown|forged|moulded|molded|hewn|sawn|sewn|upholstered)\s+(?:out\s+)?"
    r"(?:of|from)\s+(?P<stuff>[a-z-]+(?:\s+(?!and\b|with\b|that\b|which\b|by\b|for\b|in\b|on\b|to\b|or\b)[a-z-]+){0,3})",
    re.IGNORECASE,
)
_NO_STUFF = re.compile(
    r"\b(?:scratch|stuff|love|habit|memory|life|these|those|them|it|this|that|here|there)\b", re.IGNORECASE
)


def _stuffs(sentence: str, found: Iterable[Claim]) -> Iterator[Claim]:
    """M4."""
    for match in _STUFF.finditer(sentence):
        start, end = match.span("stuff")
        known = any(claim.start < end and start < claim.end for claim in found if claim.kind in {"material", "colour"})
        if not known and not _NO_STUFF.search(match["stuff"]):
            yield Claim("material", match["stuff"], start, end, word=match["stuff"].casefold())


_HAN_THINGS = re.compile(
    _alternatives(w for w in MATERIALS | COLOURS if not w.isascii() and len(w) > 1)
    + rf"|(?P<wood>[\u4e00-\u9fff](?<![积草树麻土花林原实用是为的块整由和、])木)(?![匠耳瓜讷])"
    rf"|(?P<ware>[骨白青细粗黑](?:瓷|陶))"
    rf"|(?P<made>[{HAN_MATERIALS}])(?=制|质|做的|造的)"
    rf"|(?<=[纯镀])(?P<pure>[{HAN_MATERIALS}])"
    rf"|(?P<tone>[深浅淡亮暗鲜大纯钴天海湖宝靛蔚藏翠墨草嫩橄榄粉锈血子花米乳雪酒玫桃橘]?[{HAN_COLOURS}])(?=色|釉|针|漆|底)"
    rf"|(?P<shade>[深浅淡亮暗鲜钴天海湖宝靛蔚藏翠墨嫩锈血乳雪]+[{HAN_COLOURS}])(?![铜茶酒糖菜])"
    rf"|(?P<is>(?<=是)[{HAN_COLOURS}])(?=的)"
)


def _han_things(sentence: str) -> Iterator[Claim]:
    for match in _HAN_THINGS.finditer(sentence):
        said = match[0]
        coloured = said in COLOURS or bool(match["tone"] or match["shade"] or match["is"])
        yield Claim("colour" if coloured else "material", said, *match.span(), word=said)


_WORKS = "made|designed|built|crafted|produced|manufactured|forged|woven|knitted|thrown|blown|signed|created"
_PROPER = r"(?P<name>[A-ZÀ-Þ][\w'’&.-]*[\w](?:\s+(?:&\s+|of\s+|and\s+)?[A-ZÀ-Þ][\w'’&-]+)*)"
_MAKERS = re.compile(
    rf"\b(?:(?i:{_WORKS})\s+(?:[a-z]+\s+){{0,2}}?(?:by|for|in|at)|(?i:brand|maker|label|manufacturer|designer)"
    r"(?:\s+(?:is|called|named))?[:,]?|(?i:imported|comes?|shipped|straight)\s+from|(?i:a)\s+genuine|(?i:by))\s+(?:the\s+)?"
    + _PROPER
)
_NO_MAKER = re.compile(
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|May|June|July|August|September|October"
    r"|November|December|Christmas|Easter|I$|I['’]"
)
_HAN_MAKERS = re.compile(
    r"(?:由|出自|来自)(?P<by>[\u4e00-\u9fffA-Za-z]{2,8}?)(?:出品|制造|生产|设计|打造)"
    r"|品牌(?:是|为|：|:)\s*(?P<brand>[\u4e00-\u9fffA-Za-z]{2,8})|(?:产自|产于|原产于?)(?P<place>[\u4e00-\u9fff]{2,4})"
)
_CODE = re.compile(r"(?<![\w-])[A-Z]{1,4}-?\d{1,5}[A-Z]?(?![\w-])")


def _named(sentence: str, names: Iterable[str]) -> list[Claim]:
    """M3."""
    found: list[Claim] = []
    for name in names:
        border = (r"(?<!\w)", r"(?!\w)") if name.isascii() else ("", "")
        for match in re.finditer(border[0] + re.escape(name) + border[1], sentence, re.IGNORECASE):
            found.append(Claim("name", match[0], *match.span(), word=folded(name)))
    for pattern in (_MAKERS, _HAN_MAKERS, _CODE):
        for match in pattern.finditer(sentence):
            group = match.lastgroup or 0
            start, end = match.span(group)
            if not _NO_MAKER.match(match[group]) and not any(a.start < end and start < a.end for a in found):
                found.append(Claim("name", match[group], start, end, word=folded(match[group])))
    return found
