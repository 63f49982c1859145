"""Numbers that count nothing. Pure.

N5  A number that counts nothing is left out: an ordinal, "one of them", "no two", "nine out of ten", "千万别", "一起",
    "twenty-four hours a day", a time of the day, "it takes two to tango".
"""

from __future__ import annotations

import re

from multimodal.pipes.claim_amounts import Amount
from multimodal.pipes.claim_base import before
from multimodal.pipes.claim_words import (
    BESIDE_HAN,
    BESIDE_THINGS,
    BODY,
    CALENDAR,
    HAN_DIGITS,
    HAN_SCALES,
    SCALES,
    TIMES,
)

__all__ = ["GUARANTEE", "HAN_COUNTERS", "idle"]

GUARANTEE = re.compile(r"\b(?:guarantee|warranty|guaranteed)|质保|保修|保证", re.IGNORECASE)

_BEFORE_IDLE = re.compile(
    r"\b(?:count(?:s|ing|ed)?\s+(?:down\s+)?(?:to|from)|no|number"
    r"|step|part|stop|chapter|cloud|item|past|one or|an?\s+\w+\s+or"
    r"|(?:child|boy|girl|man|woman)\s+of)\s+$|\d:$",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    rf"[\s-]+(?:[a-z]+\s+)?(?:{'|'.join(BESIDE_THINGS)})(?:s|es)?\b|[片个只杯块颗朵本枝]?(?:{'|'.join(BESIDE_HAN)})(?![杯壶碗盘碟瓶架挡垫具匙勺机盒罐筒])",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    r"\b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|next|one)\s+of\s+"
    r"(?:the\s+|our\s+|these\s+|those\s+|my\s+)?$",
    re.IGNORECASE,
)
_BEGINS = re.compile(r"(?:^|[.,;:!?…]|\b(?:and|or|but|for|so|then))\s*$", re.IGNORECASE)
_OF_THEM = re.compile(r"\s+of\s+(?:them|these|those|us|you)\b", re.IGNORECASE)
_TAKES = re.compile(r"\btakes?\s+$", re.IGNORECASE)
_TO = re.compile(r"\s+to\b", re.IGNORECASE)
_OF_SOMETHING = re.compile(r"\s+of\s", re.IGNORECASE)
_SHARE_OF = re.compile(r"\bout\s+of\s+$", re.IGNORECASE)
_INTO = re.compile(r"\bin(?:to)?\s+$", re.IGNORECASE)
_OF_THE_BODY = re.compile(rf"[\s-]+(?:{'|'.join(sorted(BODY))})\b", re.IGNORECASE)
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
_A_LETTER, _BY = re.compile(r"[A-Za-zÀ-ÖØ-öø-ɏ]"), re.compile(r"x\s?\d")
_IDLE_BEHIND = (_AFTER_IDLE, _OF_THE_BODY, _BESIDE)
HAN_COUNTERS = frozenset("个只条把件片块张双对套根颗枚支节本盏台座组层格档步扇挡位色脚腿")


def idle(match: re.Match[str], amount: Amount, sentence: str, guaranteed: bool) -> bool:
    """Whether a number counts nothing (N5).

    Args:
        match: how it was found.
        amount: what it is.
        sentence: in which it stands.
        guaranteed: the sentence speaks of a guarantee: its times count.
    """
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
        return len(said) == 1 and (said == "一" or sentence[end : end + 1] not in HAN_COUNTERS)
    if match["digits"]:
        return _A_LETTER.match(sentence, end) is not None and not _BY.match(sentence, end)
    small = said.casefold()
    return small in {"one", "zero", *SCALES, "half", "quarter"} or small == "one hundred"
