"""What a number is worth that was found in a sentence, in digits or in words. Pure."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from multimodal.pipes.claim_words import HAN_DIGITS, HAN_SCALES, ONES, OTHERS, SCALES, TENS

__all__ = ["han", "spoken", "value_of"]

_FRACTIONS = {"½": "0.5", "¼": "0.25", "¾": "0.75", "⅓": "0.333", "⅔": "0.667", "⅛": "0.125"}


def value_of(match: re.Match[str], text: str) -> Decimal | None:
    if match["digits"]:
        return _digits(text)
    if match["fraction"]:
        return _fraction(text)
    if match["han"]:
        return OTHERS["half"] if text == "半" else han(text)
    value = spoken(re.sub(r"\s+and\s+an?\s+(?:half|quarter)$", "", text, flags=re.IGNORECASE))
    part = match["part"]
    return value + OTHERS[part.casefold()] if value is not None and part else value


def _digits(text: str) -> Decimal | None:
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", text):
        text = text.replace(".", "").replace(",", ".")
    text = re.sub(r"(?<=\d)[,’' \u00a0\u202f](?=\d{3}(?:\D|$))", "", text)
    try:
        return Decimal(text.replace(",", ".")) if text.count(".") + text.count(",") <= 1 else None
    except InvalidOperation:
        return None


def _fraction(text: str) -> Decimal | None:
    if text[-1] in _FRACTIONS:
        return Decimal(text[:-1] or 0) + Decimal(_FRACTIONS[text[-1]])
    whole, _, part = text.rpartition(" ")
    above, below = re.split("[/⁄]", part)
    # 24/7 and 3/2 are no parts of anything.
    return Decimal(whole or 0) + Decimal(above) / Decimal(below) if int(above) < int(below) else None


def spoken(words: str) -> Decimal | None:
    whole, _, fraction = re.sub(r"[\s-]+", " ", words.casefold()).partition(" point ")
    total, part = Decimal(0), Decimal(0)
    seen = False
    for word in whole.split():
        if word in ONES or word in TENS:
            part += Decimal(ONES.get(word, TENS.get(word, 0)))
        elif word == "hundred":
            part = (part or Decimal(1)) * 100
        elif word in SCALES:
            total, part = total + (part or Decimal(1)) * SCALES[word], Decimal(0)
        elif word in OTHERS:
            part = (part or Decimal(1)) * OTHERS[word]
        else:
            continue
        seen = True
    if not seen:
        return None
    behind = "".join(str(ONES[word]) for word in fraction.split() if word in ONES)
    return total + part + (Decimal("0." + behind) if behind else 0)


def han(text: str) -> Decimal:
    whole, _, fraction = text.partition("点")
    if not any(scale in whole for scale in HAN_SCALES):
        digits = "".join(str(HAN_DIGITS[each]) for each in whole)
        value = Decimal(digits) if digits else Decimal(0)
    else:
        value = _scaled(whole)
    if fraction:
        value += Decimal("0." + "".join(str(HAN_DIGITS[each]) for each in fraction))
    return value


def _scaled(text: str) -> Decimal:
    total, section, digit = 0, 0, 0
    for each in text:
        if each in HAN_DIGITS:
            digit = HAN_DIGITS[each]
        elif each == "万":
            total, section, digit = (total + section + digit) * 10_000, 0, 0
        else:
            section += (digit or 1) * HAN_SCALES[each]
            digit = 0
    return Decimal(total + section + digit)
