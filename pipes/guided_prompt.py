"""Catalogue facts as messages for a chat model, which its own chat template turns into a prompt. Pure.

G1. The model is given the facts of a product and nothing else about it, each on a line of its own, letter for letter.
G2. It is told to say only these, to name each product by its whole title, and to keep their order.
G3. `guided_turns` asks about one product at a time, so that the order is ours and no answer can run into another
    product; `guided_messages` asks for the whole tour at once.
G4. Pictures come with the names (mentions); with `markers` the model is asked for ``[[show:id]]`` before each product,
    which the stream takes out of the text again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from multimodal.errors import UsageError
from multimodal.pipes.fact_words import CODE_NAMES
from multimodal.pipes.facts import LANGUAGES, FactSheet
from multimodal.sync.matcher import Matcher, ProductNames
from multimodal.values import Product

__all__ = ["TONES", "WORDS", "Message", "Tone", "guided_messages", "guided_turns", "order_faults"]

Message = dict[str, str]
"""``{"role": "system" | "user", "content": ...}``, as the OpenAI API and transformers' chat templates take it."""

Tone = Literal["plain", "warm", "brisk"]
TONES: tuple[str, ...] = get_args(Tone)

WORDS = 40
"""Words said of a product, unless told otherwise: what is heard while one looks at a picture; of Chinese, characters
times 1.5."""

_TONES = {
    "en": {
        "plain": "Speak plainly: short sentences, no flourish.",
        "warm": "Speak warmly and calmly, like somebody who has worked in this shop for years.",
        "brisk": "Be brisk: one breath for each product.",
    },
    "zh": {
        "plain": "语气平实，句子简短。",
        "warm": "语气亲切从容，像在店里工作多年的人。",
        "brisk": "语气轻快，每件商品一口气说完。",
    },
}
_SYSTEM = {
    "en": (
        "You show a visitor around {shop}. {tone}\n"
        "Say only what the facts hold. Copy names, numbers, units, materials, colours and prices letter for letter; do "
        "not round, convert, translate or spell them out. Leave out what is not given. Praise nothing and promise "
        "nothing.\n"
        "Call each product by its whole title when you come to it{marked}. Say about {words} words of each, in whole "
        "sentences, as plain text without lists or headings. Answer in English."
    ),
    "zh": (
        "你在{shop}里带客人看商品。{tone}\n"
        "只说资料里写明的内容。名称、数字、单位、材质、颜色和价格一字不改，不四舍五入，不换算，不翻译。资料里没有的就不提，不夸赞，不承诺。\n"
        "讲到每件商品时，先说出它的完整名称{marked}。每件约{words}字，用完整的句子，不用列表和标题。用中文回答。"
    ),
}
_MARKED = {
    "en": ", and write [[show:ID]] right before it, with its own id",
    "zh": "，并在名称前写上 [[show:ID]]，ID 用它自己的编号",
}
_SHOP = {"en": "the shop", "zh": "店"}


def guided_messages(
    sheets: Sequence[FactSheet],
    *,
    shop: str = "",
    language: str = "en",
    tone: str = "warm",
    words: int = WORDS,
    markers: bool = False,
) -> list[Message]:
    """The messages that ask for a whole tour at once.

    Args:
        sheets: of its products, in the order of the tour.
        shop: the shop's name; "" = none.
        language: of the tour, ``en`` or ``zh``.
        tone: ``plain``, ``warm`` or ``brisk``.
        words: said of each product, about.
        markers: ask for ``[[show:id]]`` before each product, too.

    Raises:
        UsageError: no sheet, another language or tone, fewer than 5 words.
    """
    system = _system(sheets, shop, language, tone, words, markers)
    blocks = "\n\n".join(_block(sheet, language, markers, number) for number, sheet in enumerate(sheets, 1))
    if language == "zh":
        user = f"请按下面的顺序逐件介绍，先问好，最后道别，一件都不要漏，也不要提前说到后面的商品。\n\n{blocks}"
    else:
        user = (
            "Greet the visitor, show these products in exactly this order, each once and none before its turn, and say "
            f"goodbye.\n\n{blocks}"
        )
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def guided_turns(
    sheets: Sequence[FactSheet],
    *,
    shop: str = "",
    language: str = "en",
    tone: str = "warm",
    words: int = WORDS,
    markers: bool = False,
) -> list[list[Message]]:
    """The messages that ask for each product's passage by itself: one list for each product, in order.

    Args:
        sheets, shop, language, tone, words, markers: as for `guided_messages`.

    Raises:
        UsageError: as there.
    """
    system = _system(sheets, shop, language, tone, words, markers)
    turns: list[list[Message]] = []
    for number, sheet in enumerate(sheets):
        first, last = number == 0, number == len(sheets) - 1
        block = _block(sheet, language, markers)
        if language == "zh":
            ask = (
                "先向客人问好，再介绍第一件商品。"
                if first
                else f"刚看完{sheets[number - 1].title}，自然地转到下一件，只介绍这一件。"
            )
            user = f"{ask}{'最后跟客人道别。' if last else ''}\n\n{block}"
        else:
            ask = (
                "Greet the visitor, then show the first product."
                if first
                else f"You have just shown {sheets[number - 1].title}. Lead over to the next, and show only that."
            )
            user = f"{ask}{' Say goodbye at the end.' if last else ''}\n\n{block}"
        turns.append([{"role": "system", "content": system}, {"role": "user", "content": user}])
    return turns


def order_faults(text: str, sheets: Sequence[FactSheet]) -> list[str]:
    """What is wrong with the order in which an answer first names the products: a sentence for each; empty = nothing.

    Args:
        text: the model's answer.
        sheets: of the products, in the order asked for.

    Raises:
        UsageError: two products have one name.
    """
    matcher = Matcher(ProductNames([Product(sheet.product_id, sheet.title, sheet.aliases) for sheet in sheets]))
    named = dict.fromkeys(mention.product for mention in [*matcher.feed(text), *matcher.finish()])
    asked = [sheet.product_id for sheet in sheets]
    titles = {sheet.product_id: sheet.title for sheet in sheets}
    faults = [f"{titles[product]} is never named" for product in asked if product not in named]
    expected = [product for product in asked if product in named]
    for said, due in zip(named, expected, strict=True):
        if said != due:
            return [*faults, f"{titles[said]} is named before {titles[due]}"]
    return faults


def _system(sheets: Sequence[FactSheet], shop: str, language: str, tone: str, words: int, markers: bool) -> str:
    if not sheets:
        raise UsageError("a guided tour needs a product to speak of; give at least one fact sheet")
    if language not in LANGUAGES:
        raise UsageError(f"language {language!r} has no prompt; there are: {', '.join(LANGUAGES)}")
    if tone not in TONES:
        raise UsageError(f"tone {tone!r} is unknown; use one of {', '.join(TONES)}")
    if isinstance(words, bool) or not isinstance(words, int) or words < 5:
        raise UsageError(f"words={words!r} is no length for a passage; give 5 or more")
    return _SYSTEM[language].format(
        shop=shop or _SHOP[language],
        tone=_TONES[language][tone],
        marked=_MARKED[language] if markers else "",
        words=words * 3 // 2 if language == "zh" else words,
    )


def _block(sheet: FactSheet, language: str, markers: bool, number: int = 0) -> str:
    """A product's facts, a line for each; several facts of one name share one."""
    title, show = ("名称", "编号") if language == "zh" else ("title", "id")
    colon = "：" if language == "zh" else ": "
    lines = [f"{f'{number}. ' if number else ''}{title}{colon}{sheet.title}"]
    if markers:
        lines.append(f"{show}{colon}{sheet.product_id}")
    for name in dict.fromkeys(fact.name for fact in sheet.facts):
        if name.replace("_", " ").casefold() not in CODE_NAMES:
            lines.append(f"{name}{colon}{' / '.join(sheet.values(name))}")
    return "\n".join(lines)
