"""What the local narrator is asked, the same in training and at run time. Pure.

P1. A passage's prompt names its opening and manner, the product with its article under the pronoun it goes by, and the
    facts in the order of speaking: a line with ``-`` begins a sentence, one with ``+`` goes on with it.
P2. A fact of a kind that the model knows stands under its name (``material: oak and brass``); any other stands as the
    clause that the planner's grammar makes of it, because no model of this size guesses what a shop calls its facts.
P3. No passage names another product: a name brings its picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.facts import Fact, FactSheet
from multimodal.pipes.guided_prompt import Message
from multimodal.pipes.narrator_openings import CLOSINGS, GREETINGS
from multimodal.pipes.narrator_plan import PassagePlanner, Plan, grammar
from multimodal.pipes.planner import MOST
from multimodal.pipes.planner_base import Picker

__all__ = ["SYSTEM", "Asked", "closing_messages", "greeting_messages", "passage_messages", "plan_tour_prompts"]

SYSTEM = "You show a visitor around a shop."


class Asked(msgspec.Struct, frozen=True):
    """One answer of the model that a tour needs.

    Args:
        messages: the system's and the user's, for the chat template.
        product_id: of the product it is about; None = greeting or closing.
        opening: the word for its form, which names it among the passages.
        facts: that it is to say, and no other.
        plan: what the messages ask for; None = greeting or closing.
    """

    messages: list[Message]
    product_id: str | None
    opening: str
    facts: tuple[Fact, ...] = ()
    plan: Plan | None = None


def greeting_messages(shop: str, name: str) -> list[Message]:
    """What asks for the greeting.

    Args:
        shop: the shop's name; "" = none.
        name: word of `GREETINGS`.
    """
    return _messages(f"greeting, {name}", *([f"shop: {shop}"] if shop else []))


def closing_messages(name: str) -> list[Message]:
    """What asks for the closing.

    Args:
        name: word of `CLOSINGS`.
    """
    return _messages(f"closing, {name}")


def passage_messages(plan: Plan) -> list[Message]:
    """What asks for the passage of one product."""
    words = grammar(plan.sheet, plan.manner)
    called = f"{words.words['it']}, {words.noun}" if words.noun else words.words["it"]
    lines = [f"{'+' if number else '-'} {said.asked}" for line in plan.lines for number, said in enumerate(line)]
    tail = [f"end, {plan.tail}"] if plan.tail else []
    return _messages(f"{plan.opening.name}, {plan.manner}", f"{called}: {words.the}", *lines, *tail)


def plan_tour_prompts(
    sheets: Sequence[FactSheet], *, shop: str = "", seed: int = 0, most: int = MOST
) -> tuple[Asked, ...]:
    """What the model is asked for a whole tour: greeting, products, closing (P1-P3).

    Args:
        sheets: of its products, in the order of the tour.
        shop: the shop's name; "" = none.
        seed: another one gives other words for the same facts.
        most: facts said of a product at most, its price among them, 1 to 8. With 8 all of the first eight are said.

    Raises:
        UsageError: `most` out of range, or sheets of another language than English.
    """
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 8:
        raise UsageError(f"most={most!r} is out of range; give 1 to 8 facts")
    for sheet in sheets:
        if sheet.language != "en":
            raise UsageError(f"the local narrator speaks English; the sheet of {sheet.title} is in {sheet.language!r}")
    picker = Picker(seed)
    greeting, closing = picker.pick("greeting", tuple(GREETINGS)), picker.pick("closing", tuple(CLOSINGS))
    shared = {sheet.values("brand") for sheet in sheets}
    planner = PassagePlanner(picker, shop=shop, most=most, skip_brand=len(shared) == 1 and len(sheets) > 1)
    asked = [Asked(greeting_messages(shop, greeting), None, greeting)]
    for number, sheet in enumerate(sheets):
        plan = planner.plan(sheet, "first" if number == 0 else "last" if number == len(sheets) - 1 else "")
        asked.append(Asked(passage_messages(plan), sheet.product_id, plan.opening.name, plan.facts, plan))
    return (*asked, Asked(closing_messages(closing), None, closing))


def _messages(*lines: str) -> list[Message]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n".join(lines)}]
