"""Whether the local narrator says its facts letter for letter: 100 unseen fact sheets, in float32 and in int8.

54 sheets are the real-world catalogue's, 46 are invented as those of the training were, by another seed; beside them
stands the demo's tour, whose text is printed. Of the real-world ones most hold little but a price; so further invented
ones, of other seeds, are asked of int8, without a bar. The model is judged alone, greedily and without the fact guard.
A sheet is exact when its passage holds the title and every fact that was asked for in the catalogue's own letters,
claims nothing that the sheet does not hold (by the fact guard), and has no word that is neither the sheet's nor the
forms'.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from multimodal.assets.narrator.training.data import Sheets
from multimodal.bench.real_catalogue import MAPPING, real_catalogue
from multimodal.bench.report import Figure, figure, report
from multimodal.pipes import narrator_openings as forms
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_narrator import ANSWER_TOKENS, adapted_model
from multimodal.pipes.narrator_prompt import Asked, plan_tour_prompts
from multimodal.pipes.narrator_wording import opening_of, spoken
from multimodal.pipes.planner import said_in
from multimodal.pipes.planner_en_words import FORMS, SIDES, VERBS

__all__ = ["Judged", "evaluate", "judge", "run", "tours"]

INVENTED, UNSEEN_SEED = 46, 20_000
FURTHER = 3
"""Seeds of further invented sheets."""
BARS = {"float32": 0.98, "int8": 0.96}
MOST = 8
"""Facts asked for of a product: all that a sheet has, up to the narrator's limit."""


class Judged(msgspec.Struct, frozen=True):
    """One passage of the model, and what is wrong with it.

    Args:
        tour: which it belongs to.
        title: of the product; "" = greeting or closing.
        asked: the form of its opening.
        opening: the form that its text begins with; "" = none of ours.
        text: what the model said.
        planned: what it was trained to say.
        faults: a line for each; empty = exact.
    """

    tour: str
    title: str
    asked: str
    opening: str
    text: str
    planned: str
    faults: tuple[str, ...] = ()


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Some minutes; `--quick` asks of a tenth of the sheets."""
    asked = tours(8 if options.quick else None)
    figures: list[Figure] = []
    ours: dict[str, Any] = {}
    for name, mode in (("float32", None), ("int8", "int8")):
        print(f"narrator: {sum(map(len, asked.values()))} passages in {name} ...", file=sys.stderr, flush=True)
        local = adapted_model(mode)
        judged = evaluate(asked, local)
        bar = None if options.quick else BARS[name]
        figures += _figures(name, judged, bar)
        if mode == "int8":
            further = [one for one in evaluate(_further(8 if options.quick else None), local) if one.title]
            title = f"{name}: of {len(further)} further invented sheets exact"
            figures.append(figure(title, _share(not one.faults for one in further), "share", better="higher"))
            judged += further
        ours[name] = {
            "faults": [msgspec.to_builtins(one) for one in judged if one.faults],
            "demo": [one.text for one in judged if one.tour == "demo"],
        }
        print("\n".join(ours[name]["demo"]), file=sys.stderr)
        for one in judged:
            for fault in one.faults:
                print(f"narrator: {name}: {one.tour}: {fault}: {one.text!r}", file=sys.stderr)
    return report("narrator", figures, ours, packages=("torch", "transformers"))


def tours(most: int | None = None) -> dict[str, tuple[Asked, ...]]:
    """What the model is asked, for each tour.

    Args:
        most: products of a tour at most; None = all.
    """
    table, pictures = real_catalogue()
    real = [FactSheet.of(product) for product in load_catalog(table, pictures, mapping=MAPPING).products]
    catalog = load_catalog(Path(str(files("multimodal.assets"))) / "demo" / "catalog.json")
    demo = [FactSheet.of(product) for product in catalog.products]
    sheets = Sheets(UNSEEN_SEED)
    return {
        "real": plan_tour_prompts(real[:most], most=MOST),
        "invented": plan_tour_prompts(sheets.tour(INVENTED)[:most], shop=sheets.shop(), most=MOST),
        "demo": plan_tour_prompts(demo[:most], shop=catalog.shop.name),
    }


def _further(most: int | None) -> dict[str, tuple[Asked, ...]]:
    asked = {}
    for seed in range(UNSEEN_SEED + 1, UNSEEN_SEED + 1 + FURTHER):
        sheets = Sheets(seed)
        told = sheets.tour(INVENTED)[:most]
        asked[f"invented, seed {seed}"] = plan_tour_prompts(told, shop=sheets.shop(), most=MOST)
    return asked


def evaluate(asked: dict[str, tuple[Asked, ...]], local: LocalModel) -> list[Judged]:
    """What the model answers, all at once and each greedily, and what is wrong with it."""
    each = [(tour, one) for tour, all_ in asked.items() for one in all_]
    answers = _answers(local, [one for _, one in each])
    return [judge(tour, one, text, ended) for (tour, one), (text, ended) in zip(each, answers, strict=True)]


def judge(tour: str, asked: Asked, text: str, ended: bool) -> Judged:
    """What is wrong with one passage.

    Args:
        tour: which it belongs to.
        asked: what the model was asked.
        text: its answer.
        ended: whether it found its end.
    """
    plan = asked.plan
    faults = [] if ended else ["it found no end"]
    if plan is None:
        strange = _strangers(text, asked.messages[-1]["content"])
        return Judged(tour, "", asked.opening, asked.opening, text, "", (*faults, *strange))
    sheet = plan.sheet
    if sheet.title not in text:
        faults.append(f"the title {sheet.title!r} is missing")
    faults += [f"the {fact.name} {fact.value!r} is missing" for fact in asked.facts if not said_in(fact, text)]
    faults += [str(violation) for violation in FactGuard([sheet]).violations(text, sheet.product_id)]
    faults += _strangers(text, asked.messages[-1]["content"])
    opening = opening_of(text, sheet.title)
    return Judged(tour, sheet.title, asked.opening, opening, text, spoken(plan), tuple(faults))


def _strangers(text: str, prompt: str) -> list[str]:
    known = _own() | _words(prompt)
    return [f"{word!r} is neither the sheet's nor ours" for word in sorted(_words(text) - known)]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in re.findall(r"\w+", text)}


@cache
def _own() -> frozenset[str]:
    """The words of the narrator's forms."""
    texts = [one.text for one in forms.OPENINGS]
    for table in (forms.GREETINGS, forms.CLOSINGS, forms.PRICE_FORMS, forms.FROM_FORMS, forms.TAILS):
        texts += table.values()
    texts += [form for several in VERBS.values() for form in several] + [*SIDES.values()]
    texts += [word for pair in FORMS.values() for word in pair]
    bare = re.sub(r"\{\w+\}", " ", " ".join(texts))
    return frozenset(_words(bare) | {"and", "the", "also", "these", "this", "to"})


def _figures(name: str, judged: Sequence[Judged], bar: float | None) -> list[Figure]:
    figures: list[Figure] = []
    sheets = [one for one in judged if one.title and one.tour != "demo"]
    figures.append(
        figure(f"{name}: sheets that are exact", _share(not one.faults for one in sheets), "share", bar, "higher")
    )
    for tour in dict.fromkeys(one.tour for one in judged):
        own = [one for one in judged if one.tour == tour]
        told = [one for one in own if one.title]
        alike = sum(a.opening == b.opening for a, b in pairwise(told))
        figures += [
            figure(f"{name}, {tour}: exact", _share(not one.faults for one in own), "share", better="higher"),
            figure(
                f"{name}, {tour}: word for word",
                _share(one.text == one.planned for one in told),
                "share",
                better="higher",
            ),
            figure(
                f"{name}, {tour}: begins as asked",
                _share(one.opening == one.asked for one in told),
                "share",
                better="higher",
            ),
            figure(f"{name}, {tour}: neighbours of one family", alike, "pairs", None if bar is None else 0),
        ]
    return figures


def _share(held: Iterable[bool]) -> float:
    each = [*held]
    return sum(each) / len(each)


def _answers(local: LocalModel, asked: Sequence[Asked]) -> list[tuple[str, bool]]:
    """Each answer, and whether it found its end."""
    from multimodal.pipes.local_engines import make_engine

    engine = make_engine(local)
    try:
        boxes = [Mailbox(ANSWER_TOKENS + 1) for _ in asked]
        for one, box in zip(asked, boxes, strict=True):
            ids = local.chat(one.messages)
            engine.submit(GenerationRequest(tuple(ids), max_new_tokens=ANSWER_TOKENS, eos_ids=local.eos_ids), box)
        return [_read(local, box) for box in boxes]
    finally:
        engine.close()


def _read(local: LocalModel, box: Mailbox) -> tuple[str, bool]:
    steps: list[Any] = []
    while not (steps and steps[-1].finish):
        box.wait_blocking()
        steps += box.take()
    ids = [step.token_id for step in steps if step.token_id not in local.eos_ids]
    assert local.tokenizer is not None, "the narrator's model comes with its own"
    return local.tokenizer.decode(ids).strip(), steps[-1].finish == "stop"
