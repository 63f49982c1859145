"""What the fact guard and the word filter cost a token, how long they hold text back, and how many falsehoods pass.

The narration is the demo tour in English and one in Chinese by the extractive narrator, token by token and without
pauses: bare, behind the guard (`hold`), behind a filter of 10,000 words, behind both. What a layer costs is what a
token costs with it, less what it costs bare, round by round in turn. What a sentence costs in a large catalogue is
measured on invented products, each with a brand and a model of its own; how long such a guard takes to make is told
beside it. Recall and false alarms are those of tests/pipes/guard_sentences.py, which is in a checkout only.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

from multimodal.bench.report import Figure, figure, report
from multimodal.demos.product_tour.narrators import Narrator
from multimodal.demos.product_tour.tour import demo_tour
from multimodal.errors import UsageError
from multimodal.pipes.extractive import extractive_plan
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.guarded import GuardedTextPipe
from multimodal.pipes.wordfilter import FilteredTextPipe, WordFilter
from multimodal.values import Product

__all__ = ["run"]

SENTENCES = Path(__file__).parents[2] / "tests" / "pipes" / "guard_sentences.py"
WORDS, ROUNDS = 10_000, 15
GUARD_BAR_US, FILTER_BAR_US = 100.0, 30.0
"""A layer may cost a token so much: less than a thousandth of the time that a token takes a reader, at 5 a second."""
RECALL_BAR, ALARMS_BAR = 0.98, 0.02
SIZES = (50, 1_600, 25_000)
SENTENCE_BAR_US, GROWTH_BAR = 2_000.0, 3.0
"""A sentence is judged between two tokens, on the event loop: it may hold others up no longer than a token's own work
does, and in the largest catalogue not much longer than in the smallest. Caches are colder in a large one."""

Layer = Callable[[AsyncIterator[str]], Any]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Contestants take turns round by round, so that a busy moment of the machine hits them alike."""
    rounds = 2 if options.quick else ROUNDS
    words = WordFilter(_words())
    figures: list[Figure] = []
    ours: dict[str, Any] = {"words": words.count, "longest_word": words.longest}
    for language in ("en", "zh"):
        tokens, guard = _narration(language)
        layers: dict[str, Layer] = {
            "bare": lambda pipe: pipe,
            "guard": lambda pipe, guard=guard: GuardedTextPipe(pipe, guard),  # type: ignore[misc]
            "filter": lambda pipe: FilteredTextPipe(pipe, words),
            "both": lambda pipe, guard=guard: FilteredTextPipe(GuardedTextPipe(pipe, guard), words),  # type: ignore[misc]
        }
        costs = _costs(tokens, layers, rounds)
        for name, bar in (("guard", GUARD_BAR_US), ("filter", FILTER_BAR_US), ("both", GUARD_BAR_US + FILTER_BAR_US)):
            figures.append(figure(f"{name}, {language}: CPU per token", costs[name], "us", bar))
        held = {name: asyncio.run(_held(tokens, layers[name])) for name in ("guard", "filter", "both")}
        bound = words.longest - 1
        figures += [
            figure(f"filter, {language}: longest hold-back", held["filter"]["characters"], "characters", bound),
            figure(f"guard, {language}: longest hold-back", held["guard"]["tokens"], "tokens"),
            figure(f"both, {language}: longest hold-back", held["both"]["tokens"], "tokens"),
        ]
        ours[language] = {"tokens": len(tokens), "bare_us_per_token": costs["bare"], "held": held}
    large, ours["make_s"] = _in_large_catalogues(SIZES[:2] if options.quick else SIZES, rounds)
    figures += large
    figures += _judged(_sentences())
    return report("guard", figures, ours, packages=("pyahocorasick",))


def _words() -> list[str]:
    """Nine in ten in an alphabet; the Chinese ones of signs that narrations are full of."""
    dice, letters, signs = random.Random(3), "abcdefghijklmnopqrstuvwxyz", "的一是不了在有个木色高厘米黄铜器两用可手"
    found: set[str] = set()
    while len(found) < WORDS:
        chinese = dice.random() < 0.1
        found.add("".join(dice.choices(signs if chinese else letters, k=dice.randint(4, 8) + (0 if chinese else 6))))
    return sorted(found)


def _narration(language: str) -> tuple[list[str], FactGuard]:
    tour = demo_tour(Narrator("extractive"), language)
    products = tour.catalog.products
    plan = extractive_plan(products, shop=tour.name, language=language)
    return list(plan.tokens), FactGuard(FactSheet.of(each, language) for each in products)


def _costs(tokens: Sequence[str], layers: dict[str, Layer], rounds: int) -> dict[str, float]:
    """Microseconds of CPU a token: of the bare pipe, and of each layer beyond it."""
    spent: dict[str, list[float]] = {name: [] for name in layers}
    for _ in range(rounds):
        for name, layer in layers.items():
            began = time.process_time()
            asyncio.run(_read(layer(_bare(tokens))))
            spent[name].append(1e6 * (time.process_time() - began) / len(tokens))
    bare = spent["bare"]
    return {
        name: statistics.median(values if name == "bare" else [a - b for a, b in zip(values, bare, strict=True)])
        for name, values in spent.items()
    }


def _in_large_catalogues(sizes: Sequence[int], rounds: int) -> tuple[list[Figure], dict[str, float]]:
    """What a sentence costs by the size of the catalogue, and the seconds that each guard takes to make."""
    figures: list[Figure] = []
    made: dict[str, float] = {}
    costs: list[float] = []
    for size in sizes:
        sheets = [_invented(number) for number in range(size)]
        began = time.process_time()
        guard = FactGuard(sheets)
        made[str(size)] = time.process_time() - began
        spent: list[float] = []
        for number in range(20 * rounds):
            sentence = SPOKEN[number % len(SPOKEN)].format(title=sheets[number * 7 % size].title, number=number % size)
            began = time.process_time()
            guard.violations(sentence)
            spent.append(1e6 * (time.process_time() - began))
        costs.append(statistics.median(spent))
        figures.append(figure(f"a sentence among {size:,} products", costs[-1], "us", SENTENCE_BAR_US))
    last = f"a sentence among {sizes[-1]:,} products beside {sizes[0]}"
    figures.append(figure(last, costs[-1] / costs[0], "times", GROWTH_BAR))
    return figures, made


SPOKEN = (
    "The {title} is made of oak and costs eleven euros. ",
    "It holds 1.5 litres, comes in red, and is by Brand {number} of Portugal. ",
    "Have you met the {title}, in stock and handmade in Wales? ",
    "Good evening, and welcome to a shop of many things: a thousand thanks for coming. ",
)


def _invented(number: int) -> FactSheet:
    name = "".join("aeioubdfgklmnprst"[number // 17**place % 17] for place in range(4))
    facts = (
        ("model", f"MX {number} Pro"),
        ("material", ("oak", "brass, cotton", "stainless steel", "stoneware")[number % 4]),
        ("capacity", f"{number % 90 + 1}.5 litres"),
        ("origin", f"Town {number % 900}"),
    )
    text = f"A lamp of {name} make, for rooms of {number} kinds: it stands {number % 70 + 10} centimetres tall in red."
    product = Product(
        f"p{number}x",
        f"{name.title()} Lamp",
        price=Decimal(10 + number % 400),
        currency="EUR",
        brand=f"Brand {number}",
        availability="in_stock",
        facts=facts,
        description=text,
    )
    return FactSheet.of(product)


async def _bare(tokens: Sequence[str]) -> AsyncIterator[str]:
    for token in tokens:
        yield token


async def _read(pipe: Any) -> None:
    async for _ in pipe:
        pass


async def _held(tokens: Sequence[str], layer: Layer) -> dict[str, int]:
    """The most that ever waited: characters, and tokens of which some character waited."""
    given: list[int] = []

    async def watched() -> AsyncIterator[str]:
        for token in tokens:
            given.append((given[-1] if given else 0) + len(token))
            yield token

    shown = characters = waited = 0
    async for item in layer(watched()):
        shown += len(item if isinstance(item, str) else item.text)
        characters = max(characters, given[-1] - shown)
        waited = max(waited, sum(end > shown for end in given))
    if shown != given[-1]:
        raise AssertionError(f"{given[-1] - shown} characters of a true narration were left out")
    return {"characters": characters, "tokens": waited}


def _sentences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("guard_sentences", SENTENCES)
    if spec is None or spec.loader is None or not SENTENCES.exists():
        raise UsageError(f"there is no {SENTENCES}: run `multimodal bench guard` in a checkout")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _judged(cases: ModuleType) -> list[Figure]:
    guards = {language: _narration(language)[1] for language in ("en", "zh")} | {"invented": FactGuard(cases.INVENTED)}

    def found(case: Any) -> list[str]:
        return [each.said for each in guards[case.language].violations(case.sentence, case.product)]

    def caught(case: Any) -> bool:
        planted = case.sentence[case.start : case.end]
        return any(said in planted or planted in said for said in found(case))

    figures: list[Figure] = []
    for name, false, true in (("first", cases.FALSE, cases.TRUE), ("later", cases.FALSE_LATER, cases.TRUE_LATER)):
        recall, alarms = sum(map(caught, false)) / len(false), sum(bool(found(case)) for case in true) / len(true)
        figures += [
            figure(f"recall, {name} {len(false)} false sentences", recall, "share", RECALL_BAR, "higher"),
            figure(f"false alarms, {name} {len(true)} true sentences", alarms, "share", ALARMS_BAR),
        ]
    return figures
