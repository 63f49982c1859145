"""How the local narrator words what it is asked: what its model is trained to say, and what it should have said. Pure.

W1. One plan has one wording: what varies is in the prompt, so that a small model has nothing to guess.
W2. Nothing is said of a product but its facts, each in the catalogue's own letters.
"""

from __future__ import annotations

import re
from functools import cache

from multimodal.pipes.narrator_openings import (
    CLOSINGS,
    FROM_FORMS,
    GREETINGS,
    OPENINGS,
    PRICE_FORMS,
    TAILS,
    Opening,
)
from multimodal.pipes.narrator_plan import MANNERS, Plan, Said, grammar
from multimodal.pipes.planner_base import filled, neat, stopped
from multimodal.pipes.planner_en import English
from multimodal.pipes.planner_en_words import FORMS, SIDES, VERBS

__all__ = ["closed", "greeted", "opening_of", "spoken"]

_FORMS = {**PRICE_FORMS, **FROM_FORMS}


def greeted(shop: str, name: str) -> str:
    """The greeting of a form.

    Args:
        shop: the shop's name; "" = none.
        name: word of `GREETINGS`.
    """
    return filled(GREETINGS[name], {"to_shop": f" to {shop}" if shop else ""})


def closed(name: str) -> str:
    """The closing of a form, a word of `CLOSINGS`."""
    return CLOSINGS[name]


def spoken(plan: Plan) -> str:
    """The passage that a plan asks for."""
    words, opening = grammar(plan.sheet, plan.manner), plan.opening
    slots = _slots(words)
    lines = [*plan.lines]
    consumed = opening.needs not in ("", "verb", "less", "more")
    value = lines.pop(0)[0].value if consumed else ""
    said = [filled(opening.text, {**slots, "v": value})]
    if opening.needs == "verb":
        said[0] += f" {stopped(_line(lines.pop(0), words, plan.manner))}"
    told = int(opening.needs == "verb")
    for line in lines:
        if line[0].form in ("verb", "side"):
            said.append(stopped(_begun(line, words, plan.manner, told)))
            told += 1
        else:
            said.append(stopped(neat(_line(line, words, plan.manner))))
    if plan.tail:
        said.append(filled(TAILS[plan.tail], slots))
    return " ".join(said)


def opening_of(text: str, title: str) -> str:
    """The word of the opening with which a passage begins; "" = none of ours.

    Args:
        text: a whole passage.
        title: of its product.
    """
    at = text.find(title)
    if at < 0:
        return ""
    # The title may hold anything; behind it the forms are plain words.
    marked = f"{text[:at]}\0{text[at + len(title) :]}"
    ended = stopped(title) == title
    fits = [one for one in OPENINGS if _pattern(one, ended).match(marked)]
    return max(fits, key=lambda one: len(one.text), default=Opening("", "")).name


@cache
def _pattern(opening: Opening, ended: bool) -> re.Pattern[str]:
    """What an opening looks like; `ended` = the title has a stop of its own, behind which there is none of ours."""
    text = re.sub(r"(\{the\})\.", r"\1", opening.text, flags=re.IGNORECASE) if ended else opening.text
    parts = re.split(r"\{(\w+)\}", text)
    found = [re.escape(part) if number % 2 == 0 else _either(part) for number, part in enumerate(parts)]
    return re.compile("".join(found) + (r"\s" if opening.needs == "verb" else ""))


def _either(slot: str) -> str:
    """What may stand in a slot."""
    if slot in ("the", "The"):
        return "(?:[Tt]he )?\0"
    if slot == "v":
        return ".+?"
    one, several = ("this", "these") if slot == "this" else FORMS[slot]
    return f"(?:{one}|{several})"


def _slots(words: English) -> dict[str, str]:
    return {**words.words, "this": words.words["This"].lower()}


def _line(line: tuple[Said, ...], words: English, manner: str) -> str:
    """One sentence without its subject, first letter and stop."""
    verbs: list[str] = []
    sides = [one for one in line if one.form == "side"]
    rest: list[str] = []
    for one in line:
        if one.form == "verb":
            verbs.append(_verb(one, words, manner) if one.key else one.value)
        elif one.form == "side" and one is sides[0]:
            verbs.append(f"{words.words['is']} {_listed([f'{side.value} {SIDES[side.key]}' for side in sides])}")
        elif one.form == "price":
            form = _FORMS[one.key.partition(", ")[2]]
            rest.append(words.fill(form, one.value))
        elif one.form in ("own", "alone"):
            rest.append(one.value)
    return ", and ".join([*([_listed(verbs)] if verbs else []), *rest])


def _verb(said: Said, words: English, manner: str) -> str:
    forms = VERBS[said.key]
    return words.fill(forms[MANNERS.index(manner) % len(forms)], said.value)


def _begun(line: tuple[Said, ...], words: English, manner: str, told: int) -> str:
    """A sentence with its subject, which depends on how many were told of the same thing before."""
    text, it, is_ = _line(line, words, manner), words.words["it"], words.words["is"]
    if manner == "warm" and line[0].key == "material" and len(line) > 1 and line[1].form in ("verb", "side"):
        made, _, rest = text.removeprefix(f"{is_} ").partition(f" {line[0].value}")
        return f"{neat(made)} {line[0].value}, {it} {rest.removeprefix(',').removeprefix(' and').strip()}"
    if told == 1 and manner == "warm":
        return (
            f"{neat(it)} {is_} also {text.removeprefix(is_ + ' ')}"
            if text.startswith(is_ + " ")
            else f"{neat(it)} also {text}"
        )
    if told == 1 and manner == "calm" and words.noun:
        return f"The {words.noun} {text}"
    if told == 2 and manner == "brisk":
        return f"And {it} {text}"
    return f"{neat(it)} {text}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
