"""Materials and colours that a sentence claims of a product. Pure.

M1  A material or a colour counts wherever it stands, but for words that are something else as often ("felt",
    "orange", "clear"): these count where they stand as a material or colour does: "in mint.", "of solid cherry".
    A hyphen parts words as a space does: "cast-iron", "bottle-green".
M2  What is not the product's is spared: "a glass of water", "red wine", "out of the blue", "it does not rust",
    "Mr. Brown", "lead-free".
M4  What a thing is "made of" is a material, also one that nobody has heard of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from multimodal.pipes.claim_base import Claim, ClaimKind, Spans, alternatives, before, folded
from multimodal.pipes.claim_words import (
    COLOURS,
    FOODS_FIRST,
    HAN_COLOURS,
    HAN_MATERIALS,
    MATERIALS,
    NOUNS_FIRST,
    ORDINARY,
    SPARED,
    VERBS,
)

__all__ = ["things"]

_LATIN_THINGS = re.compile(
    rf"(?<!\w)(?<!non-)(?:{alternatives(w for w in MATERIALS | COLOURS if w.isascii())})(?:s|es)?(?!\w|-free\b)",
    re.IGNORECASE,
)
_TONES = "soft|pale|deep|dark|light|bright|rich|warm|dusky|burnt|solid|polished|real|pure|genuine|oiled|brushed"
_AS_A_THING = re.compile(rf"\b(?:of|in|from|is|are|(?:{_TONES}))\s+(?:an?\s+)?(?:(?:{_TONES})\s+)?$", re.IGNORECASE)
_AS_ORDINARY = re.compile(rf"\b(?:of|in|from|(?:{_TONES}))\s+(?:(?:{_TONES})\s+)?$", re.IGNORECASE)
_IS = re.compile(r"\b(?:is|are)\s+$", re.IGNORECASE)
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
_AFTER_A_TITLE = re.compile(r"\b(?:mr|mrs|ms|miss|mister|dr|sir|lady|lord|aunt|uncle|professor)\.?\s+$", re.IGNORECASE)
_SPARED = re.compile("|".join(SPARED), re.IGNORECASE)


def things(sentence: str) -> list[Claim]:
    """The materials and colours of a sentence (M1, M2, M4)."""
    found = [*_latin(sentence), *_han(sentence)]
    return [*found, *_stuffs(sentence, Spans((claim.start, claim.end) for claim in found))]


def _latin(sentence: str) -> Iterator[Claim]:
    spared = Spans(match.span() for match in _SPARED.finditer(sentence))
    for match in _LATIN_THINGS.finditer(sentence):
        said, (start, end) = match[0], match.span()
        word, ahead = folded(said), before(sentence, start)
        if spared.touch(start, start + 1) or (word == "china" and said[0] == "C"):
            continue
        if (word in VERBS and _AFTER_A_HELPER.search(ahead)) or (said[0].isupper() and _AFTER_A_TITLE.search(ahead)):
            continue
        ends = _THING_ENDS.match(sentence, end) is not None
        as_ordinary = _AS_ORDINARY.search(ahead) or (word in NOUNS_FIRST and _IS.search(ahead))
        if word in ORDINARY and not (ends and as_ordinary):
            continue
        if word in FOODS_FIRST and not (ends and _AS_A_THING.search(ahead)):
            several = said.casefold() != word
            if several or (ends and _AFTER_AN_ARTICLE.search(ahead)):
                continue
        kind: ClaimKind = "material" if word in MATERIALS else "colour"
        yield Claim(kind, said, start, end, word=word)


_STUFFS = r"[A-Za-zÀ-ÖØ-öø-ɏ][A-Za-zÀ-ÖØ-öø-ɏ\d'’-]*"
_STUFF = re.compile(
    r"\b(?:made|carved|cast|turned|woven|knitted|blown|forged|moulded|molded|hewn|sawn|sewn|upholstered)\s+(?:out\s+)?"
    rf"(?:of|from)\s+(?P<stuff>{_STUFFS}(?:\s+(?!and\b|with\b|that\b|which\b|by\b|for\b|in\b|on\b|to\b|or\b){_STUFFS}){{0,3}})",
    re.IGNORECASE,
)
_NO_STUFF = re.compile(
    r"\b(?:scratch|stuff|love|habit|memory|life|these|those|them|it|this|that|here|there)\b", re.IGNORECASE
)


def _stuffs(sentence: str, known: Spans) -> Iterator[Claim]:
    """M4."""
    for match in _STUFF.finditer(sentence):
        start, end = match.span("stuff")
        if not known.touch(start, end) and not _NO_STUFF.search(match["stuff"]):
            yield Claim("material", match["stuff"], start, end, word=" ".join(map(folded, match["stuff"].split())))


_HAN_THINGS = re.compile(
    alternatives(w for w in MATERIALS | COLOURS if not w.isascii() and len(w) > 1)
    + rf"|(?P<wood>[\u4e00-\u9fff](?<![积草树麻土花林原实用是为的块整由和、])木)(?![匠耳瓜讷])"
    rf"|(?P<ware>[骨白青细粗黑](?:瓷|陶))"
    rf"|(?P<pure>[纯镀][{HAN_MATERIALS}])"
    rf"|(?P<made>[{HAN_MATERIALS}])(?=制|质|做的|造的)"
    rf"|(?P<tone>[深浅淡亮暗鲜大纯钴天海湖宝靛蔚藏翠墨草嫩橄榄粉锈血子花米乳雪酒玫桃橘]?[{HAN_COLOURS}])(?=色|釉|针|漆|底)"
    rf"|(?P<shade>[深浅淡亮暗鲜钴天海湖宝靛蔚藏翠墨嫩锈血乳雪]{{1,3}}[{HAN_COLOURS}])(?![铜茶酒糖菜])"
    rf"|(?P<is>(?<=是)[{HAN_COLOURS}])(?=的)"
)


def _han(sentence: str) -> Iterator[Claim]:
    for match in _HAN_THINGS.finditer(sentence):
        said = match[0]
        coloured = said in COLOURS or bool(match["tone"] or match["shade"] or match["is"])
        yield Claim("colour" if coloured else "material", said, *match.span(), word=said)
