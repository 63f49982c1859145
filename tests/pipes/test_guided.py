"""Guided prompts: golden messages, order, and a chain of answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guided import GuidedTextPipe
from multimodal.pipes.guided_prompt import guided_messages, guided_turns, order_faults
from multimodal.pipes.script import ScriptTextPipe
from multimodal.sync.conformance import check_text_pipe
from multimodal.values import Product, ProductVariant, Token
from tests.support import run, virtual

KETTLE = Product(
    "halo-kettle",
    "Halo Kettle",
    ("Larkmoor kettle",),
    price=Decimal("89.00"),
    currency="EUR",
    facts=(("material", "enamelled steel, ash"), ("capacity", "1.6 litres"), ("gtin", "4006381333931")),
)
MUG = Product(
    "mug",
    "Pebbledash Mug",
    variants=(ProductVariant("1", options=(("colour", "cream"),)), ProductVariant("2", options=(("colour", "rust"),))),
)
SHEETS = [FactSheet.of(KETTLE), FactSheet.of(MUG)]

SYSTEM = (
    "You show a visitor around Larkmoor. Speak warmly and calmly, like somebody who has worked in this shop for years."
    "\n"
    "Say only what the facts hold. Copy names, numbers, units, materials, colours and prices letter for letter; do not "
    "round, convert, translate or spell them out. Leave out what is not given. Praise nothing and promise nothing.\n"
    "Call each product by its whole title when you come to it. Say about 40 words of each, in whole sentences, as "
    "plain text without lists or headings. Answer in English."
)
KETTLE_FACTS = "title: Halo Kettle\nprice: 89 euros\nmaterial: enamelled steel, ash\ncapacity: 1.6 litres"
MUG_FACTS = "title: Pebbledash Mug\ncolour: cream / rust"


def test_the_whole_tour_in_one_prompt() -> None:
    assert guided_messages(SHEETS, shop="Larkmoor") == [
        {"role": "system", "content": SYSTEM},
        {
            "role": "user",
            "content": "Greet the visitor, show these products in exactly this order, each once and none before its "
            f"turn, and say goodbye.\n\n1. {KETTLE_FACTS}\n\n2. {MUG_FACTS}",
        },
    ]


def test_one_prompt_for_each_product() -> None:
    turns = guided_turns(SHEETS, shop="Larkmoor")
    assert [turn[0]["content"] for turn in turns] == [SYSTEM, SYSTEM]
    assert [turn[1]["content"] for turn in turns] == [
        f"Greet the visitor, then show the first product.\n\n{KETTLE_FACTS}",
        "You have just shown Halo Kettle. Lead over to the next, and show only that. Say goodbye at the end.\n\n"
        f"{MUG_FACTS}",
    ]
    assert "Greet" in guided_turns(SHEETS[:1])[0][1]["content"]
    assert "goodbye" in guided_turns(SHEETS[:1])[0][1]["content"]


def test_chinese_tone_length_and_markers() -> None:
    sheet = FactSheet.of(KETTLE, "zh")
    system, user = guided_messages([sheet], shop="云雀原", language="zh", tone="brisk", words=20, markers=True)
    assert system["content"] == (
        "你在云雀原里带客人看商品。语气轻快，每件商品一口气说完。\n"
        "只说资料里写明的内容。名称、数字、单位、材质、颜色和价格一字不改，不四舍五入，不换算，不翻译。"
        "资料里没有的就不提，不夸赞，不承诺。\n"
        "讲到每件商品时，先说出它的完整名称，并在名称前写上 [[show:ID]]，ID 用它自己的编号。"
        "每件约30字，用完整的句子，不用列表和标题。用中文回答。"
    )
    assert user["content"].endswith(
        "1. 名称：Halo Kettle\n编号：halo-kettle\n价格：89 欧元\nmaterial：enamelled steel, ash\ncapacity：1.6 litres"
    )
    marked = guided_messages(SHEETS, markers=True, tone="plain")
    assert "write [[show:ID]] right before it" in marked[0]["content"]
    assert "id: halo-kettle" in marked[1]["content"]
    assert "Speak plainly" in marked[0]["content"]


def test_everything_said_about_a_product_is_on_its_sheet_and_codes_are_left_out() -> None:
    said = guided_messages(SHEETS)[1]["content"]
    for sheet in SHEETS:
        assert all(fact.value in said for fact in sheet.facts if fact.name != "gtin")
    assert "4006381333931" not in said


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("Here is the Halo Kettle. And the Pebbledash Mug.", []),
        ("The Larkmoor kettle, then the pebbledash  mug, beside the Halo Kettle.", []),
        ("The Pebbledash Mug, then the Halo Kettle.", ["Pebbledash Mug is named before Halo Kettle"]),
        ("The Halo Kettle.", ["Pebbledash Mug is never named"]),
        ("", ["Halo Kettle is never named", "Pebbledash Mug is never named"]),
    ],
)
def test_the_order_of_an_answer_is_judged(text: str, faults: list[str]) -> None:
    assert order_faults(text, SHEETS) == faults


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"language": "de"}, "there are: en, zh"),
        ({"tone": "loud"}, "plain, warm, brisk"),
        ({"words": 2}, "5 or more"),
        ({"sheets": []}, "at least one"),
    ],
)
def test_wrong_use_is_told(arguments: dict[str, object], says: str) -> None:
    given: dict[str, Any] = {"sheets": SHEETS, **arguments}
    for ask in (guided_messages, guided_turns):
        with pytest.raises(UsageError, match=says):
            ask(**given)


def chain(*texts: str) -> GuidedTextPipe:
    return GuidedTextPipe([partial(ScriptTextPipe, text, gap=0.01) for text in texts], narrator="x", unit="word")


def test_a_chain_keeps_what_a_text_pipe_owes() -> None:
    check_text_pipe(lambda: chain("One two.", "Three.", "Four."), text="One two.\n\nThree.\n\nFour.", run=virtual)


async def plain(*words: str) -> AsyncIterator[str]:
    for word in words:
        yield word


async def failing() -> AsyncIterator[str]:
    yield "Half "
    raise PipeError("the server went away")


def test_answers_that_do_not_know_their_end_are_chained_too() -> None:
    async def scenario() -> list[tuple[str, bool]]:
        pipe = GuidedTextPipe([partial(plain, "a ", "b"), partial(plain), partial(plain, "c")], narrator="x")
        return [(token.text, token.last) async for token in pipe]

    assert run(scenario()) == [("a ", False), ("b", False), ("\n\n", False), ("\n\n", False), ("c", False)]


def test_a_failure_comes_out_and_ends_it() -> None:
    async def scenario() -> list[str]:
        said = []
        pipe = GuidedTextPipe([partial(plain, "a"), failing, partial(plain, "never")], narrator="x")
        try:
            async for token in pipe:
                said.append(token.text)
        except PipeError as error:
            said.append(str(error))
        with pytest.raises(UsageError, match="played already"):
            aiter(pipe)
        return said

    assert run(scenario()) == ["a", "\n\n", "Half ", "the server went away"]


def test_a_chain_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one"):
        GuidedTextPipe([], narrator="x")


class Ahead(ScriptTextPipe):
    """Made by its third token, as by an engine that is faster than its reader; says what happens to it."""

    def __init__(self, name: str, told: list[str], *, fails: bool = False) -> None:
        super().__init__([f"{name} ", "is ", "here", "."], gap=0.01)
        self._name, self._told, self._fails = name, told, fails

    @property
    def made(self) -> bool:
        return self._index >= 3

    async def begin(self) -> None:
        self._told.append(f"begin {self._name}")
        if self._fails:
            raise PipeError("no engine")

    async def __anext__(self) -> Token:
        token = await super().__anext__()
        self._told.append(token.text)
        return token

    async def aclose(self) -> None:
        self._told.append(f"close {self._name}")
        await super().aclose()


def test_the_next_answer_begins_when_the_one_before_it_is_made() -> None:
    async def scenario() -> None:
        told: list[str] = []
        pipe = GuidedTextPipe([partial(Ahead, name, told) for name in "abc"], narrator="n")
        text = "".join([token.text async for token in pipe])
        assert text == "a is here.\n\nb is here.\n\nc is here."
        assert told[:7] == ["a ", "is ", "here", "begin b", ".", "close a", "b "]
        assert told.count("begin b") == told.count("begin c") == 1
        assert "begin a" not in told

    virtual(scenario())


def test_closing_closes_the_answer_that_began_ahead_too() -> None:
    async def scenario() -> None:
        told: list[str] = []
        pipe = GuidedTextPipe([partial(Ahead, name, told) for name in "abc"], narrator="n")
        for _ in range(3):
            await anext(pipe)
        await pipe.aclose()
        await pipe.aclose()
        assert told[3:] == ["begin b", "close a", "close b"]
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)

    virtual(scenario())


def test_an_answer_that_cannot_begin_ends_the_tour_with_its_error() -> None:
    async def scenario() -> None:
        told: list[str] = []
        pipe = GuidedTextPipe([partial(Ahead, "a", told), partial(Ahead, "b", told, fails=True)], narrator="n")
        with pytest.raises(PipeError, match="no engine"):
            [token async for token in pipe]
        assert told[-2:] == ["close a", "close b"]

    virtual(scenario())


def test_what_has_to_be_prepared_is_before_the_first_answer_is_made() -> None:
    async def scenario() -> None:
        told: list[str] = []

        async def prepare() -> None:
            told.append("prepared")

        pipe = GuidedTextPipe([partial(Ahead, name, told) for name in "ab"], narrator="n", prepare=prepare)
        assert told == []
        await anext(pipe)
        await anext(pipe)
        assert told == ["prepared", "a ", "is "]
        await pipe.aclose()

    virtual(scenario())
