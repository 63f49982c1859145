"""What stands around a claim and says how it is meant. Pure.

C1  A comparison: "under fifty euros" is true of 49, "over a litre" of 1.2, "nearly two days" of 45 hours. A limit is
    none: "it carries up to 120 kg" says what the sheet has to say.
C2  What is denied: "49 euros, not 59", "it is not made of plastic". It is true where the sheet does not say it.
C3  A share: "80 % wool", "pure wool" (all of it), "mostly wool" (more than half).
C4  A side: "20 cm high" is no width.
C5  Several of one: "two of them are 36 euros".
"""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from multimodal.pipes.claim_base import Bound, Claim, before
from multimodal.pipes.claim_words import HAN_DIGITS, HAN_SCALES, MEASURES, ONES, SCALES, TENS
from multimodal.pipes.spoken_numbers import han, spoken

__all__ = ["in_context", "side_of"]

_COMPARED: dict[Bound, tuple[str, str]] = {
    "under": (
        r"under|below|(?<!no )(?<!not )(?:less|fewer) than|(?:cheaper|lighter|shorter|smaller|narrower) than",
        "不到|不足|低于|少于|不满",
    ),
    "over": (
        r"over|above|(?<!no )(?<!not )more than|upwards of|(?:heavier|taller|longer|larger|wider) than",
        "(?<!不)超过|多于|不止",
    ),
    "near": ("nearly|almost|close to|approaching|just about", "将近|接近|差不多"),
}
_BOUNDS: dict[Bound, re.Pattern[str]] = {
    bound: re.compile(rf"(?:\b(?:{latin})(?:\s+an?)?|(?:{chinese}))\s*$", re.IGNORECASE)
    for bound, (latin, chinese) in _COMPARED.items()
}
_MAY_COMPARE = re.compile(
    rf"(?:{'|'.join(f'{latin}|{chinese}' for latin, chinese in _COMPARED.values())})(?:\s+an?)?\s*$", re.IGNORECASE
)

_DENIED = re.compile(
    r"(?:(?<!why )\b(?:not|never|no|nor|neither|without|rather than|instead of|free of)"
    r"|(?:is|are|was|were|do|does|did|has|have)n['’]t)"
    r"(?:\s+(?:made|built|woven|come|contain|have|use|be|in|of|from|out|any|an?|the|with|for))*\s+$"
    r"|(?:不是|并非|而非|不含|没有|不用|无)(?:由|用|含)?$",
    re.IGNORECASE,
)

_NUMBER = "|".join([*ONES, *TENS, *SCALES])
_HAN = "".join([*HAN_DIGITS, *HAN_SCALES])
_SHARE = (
    rf"(?:(?P<digits>\d+(?:[.,]\d+)?)|(?P<words>(?:{_NUMBER})(?:[\s-]+(?:and\s+)?(?:{_NUMBER}))*))\s?(?:%|per\s?cent\b)"
    rf"|百分之(?P<han>[{_HAN}]{{1,4}})|(?P<tenths>[{''.join(HAN_DIGITS)}])成"
)
_SHARE_BEFORE = re.compile(
    rf"(?:{_SHARE}|(?P<all>\b(?:pure|purely|all|entirely|solely|nothing but)|[纯全]|完全)"
    r"|(?P<most>\b(?:mostly|mainly|chiefly|predominantly|largely)|主要))"
    r"(?:[\s-]+(?:pure|of|made|from|fine|soft|the|best)\b)*[\s-]*(?:[是为由用的纯]{0,2})$",
    re.IGNORECASE,
)
_SHARE_BEHIND = re.compile(rf"\s?[:：(（]?\s?(?:{_SHARE})", re.IGNORECASE)
_PERCENT = re.compile(r"%|per\s?cent|百分之|成")

_SIDES = {
    "height": "tall high height 高 高度",
    "width": "wide broad width 宽 宽度",
    "length": "long length 长 长度",
    "depth": "deep depth 深 深度",
    "thickness": "thick thickness 厚 厚度",
    "diameter": "across diameter 直径",
}
_SIDE_OF = {word: side for side, words in _SIDES.items() for word in words.split()}
_LATIN_SIDES = "|".join(word for word in _SIDE_OF if word.isascii())
_HAN_SIDES = "|".join(sorted((word for word in _SIDE_OF if not word.isascii()), key=len, reverse=True))
_SIDE_BEHIND = re.compile(rf"[\s-]+(?:in\s+)?(?P<side>{_LATIN_SIDES})\b|(?P<han>{_HAN_SIDES})(?!{_HAN_SIDES})")
_SIDE_BEFORE = re.compile(
    r"(?:\b(?P<side>height|width|length|depth|thickness|diameter)(?:\s+(?:is|of))?:?\s+(?:(?:just|about|only)\s+)?"
    rf"|(?P<han>{_HAN_SIDES})(?:是|为|约|有|达)?[：:\s]*)$",
    re.IGNORECASE,
)

_OF_THEM = re.compile(
    rf"\b(?P<count>{'|'.join(ONES)}|\d{{1,2}})\s+of\s+(?:them|these|those)\b[^.;!?\d]{{0,24}}$", re.IGNORECASE
)


def in_context(claim: Claim, sentence: str) -> Claim:
    """A claim with what is said around it (C1-C5)."""
    ahead = before(sentence, claim.start)
    denied = claim.kind != "stock" and _DENIED.search(ahead) is not None
    if claim.number is None:
        share, most = _share(claim, sentence, ahead)
        if not denied and share is None:
            return claim
        return msgspec.structs.replace(claim, denied=denied, share=share, bound="over" if most else "")
    bound: Bound = ""
    if _MAY_COMPARE.search(ahead):
        for each, pattern in _BOUNDS.items():
            if pattern.search(ahead):
                bound = each
                break
    several = _OF_THEM.search(ahead) if claim.kind == "price" else None
    times = Decimal(1) if several is None else _count(several["count"])
    side = ""
    if claim.unit in MEASURES and MEASURES[claim.unit][0] == "length":
        behind, front = _SIDE_BEHIND.match(sentence, claim.end), _SIDE_BEFORE.search(ahead)
        found = front if front is not None and (front["han"] or behind is None) else behind
        side = side_of((found["side"] or found["han"]) if found is not None else "")
    if not (denied or bound or side or times != 1):
        return claim
    return msgspec.structs.replace(claim, denied=denied, bound=bound, side=side, times=times)


def side_of(word: str) -> str:
    """The side that a word names; "" = none."""
    return _SIDE_OF.get(word.casefold(), "")


def _share(claim: Claim, sentence: str, ahead: str) -> tuple[Decimal | None, bool]:
    """The share of a material in percent, and whether it is said to be more than that (C3)."""
    if claim.kind != "material":
        return None, False
    found = _SHARE_BEFORE.search(ahead)
    if found is not None and found["most"]:
        return Decimal(50), True
    if found is not None and found["all"]:
        return Decimal(100), False
    behind = _SHARE_BEHIND.match(sentence, claim.end)
    # "Wool 80 %, cotton 20 %": where the first share stands behind its material, so do the others.
    if behind is not None and (found is None or _PERCENT.search(sentence[: claim.start]) is None):
        found = behind
    if found is None:
        return None, False
    if found["digits"]:
        return Decimal(found["digits"].replace(",", ".")), False
    if found["words"]:
        return spoken(found["words"]), False
    return (han(found["han"]) if found["han"] else Decimal(10 * HAN_DIGITS[found["tenths"]])), False


def _count(said: str) -> Decimal:
    return Decimal(said) if said.isdigit() else Decimal(ONES[said.casefold()])
