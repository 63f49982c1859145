"""The extractive narrator as a text pipe: its contract, its cues, its pace, its name."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.events import CueMissed, Reveal, StreamStart
from multimodal.pipes.bpe import narrator_tokenizer
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.extractive import ExtractiveTextPipe, extractive_plan, extractive_segments, narrator_split
from multimodal.pipes.facts import LANGUAGES
from multimodal.pipes.script import PlannedScriptImagePipe
from multimodal.stream import MultiModalStream
from multimodal.sync.conformance import check_text_pipe
from multimodal.sync.cues import TourPlan
from multimodal.sync.kit import (
    assert_all_mentions_shown,
    assert_every_cue_settled,
    assert_in_sync,
    assert_right_product,
    record,
)
from multimodal.sync.log import SyncLog
from multimodal.values import EncodedImage, Product, ProductImage, Token
from tests.support import run, virtual

DEMO = Path(__file__).parents[2] / "assets" / "demo"
FILES = {"en": "catalog.json", "zh": "catalog.zh.json"}


def plan(language: str, count: int = 4, seed: int = 0) -> TourPlan:
    catalog = load_catalog(DEMO / FILES[language])
    return extractive_plan(catalog.products[:count], shop=catalog.shop.name, language=language, seed=seed)


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_keeps_what_a_text_pipe_owes(language: str) -> None:
    made = plan(language, 2)
    check_text_pipe(lambda: ExtractiveTextPipe(made), text="".join(made.tokens), run=virtual)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_tour_is_in_sync_and_says_who_tells_it(language: str) -> None:
    catalog = load_catalog(DEMO / FILES[language])
    made = plan(language)

    # One byte for each picture: what is tried here is where they come, and not how they are encoded.
    shown = [(image.key, product.id) for product in catalog.products for image in product.images]
    images = [EncodedImage(key, b"x", "image/webp", 8, 8, product) for key, product in shown]

    async def scenario() -> SyncLog:
        pictures = PlannedScriptImagePipe(images, products=catalog.products)
        pipe = ExtractiveTextPipe(made)
        return await record(MultiModalStream(pipe, pictures, cues=made.cues, sync_interval=1), limit=600.0)

    log = virtual(scenario(), limit=600.0)
    start = log.events[0]
    assert isinstance(start, StreamStart)
    assert (start.narrator, start.token_unit) == ("extractive", "token")
    assert not log.of(CueMissed)
    assert len(log.of(Reveal)) == 8
    assert_every_cue_settled(log)
    assert_right_product(log)
    assert_in_sync(log, preset="strict")
    assert_all_mentions_shown(log)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_picture_comes_with_the_name_and_the_second_later(language: str) -> None:
    catalog = load_catalog(DEMO / FILES[language])
    for seed in range(6):
        made = plan(language, 16, seed=seed)
        firsts = {product.images[0].key: product for product in catalog.products}
        said = {cue.key: "".join(made.tokens[: cue.anchor]) for cue in made.cues}
        assert firsts.keys() <= said.keys()
        for key, product in firsts.items():
            # A token may reach over the end of a name.
            assert product.title in said[key][-len(product.title) - 14 :]
            second = said.get(product.images[1].key)
            assert second is None or len(second) > len(said[key])
        assert not [key for key in said if key.endswith("-turn")]
        assert len(said) >= 28


def test_what_is_to_come_is_foretold() -> None:
    made = plan("en", 2)
    pipe = ExtractiveTextPipe(made, paced=False)
    whole = "".join(made.tokens)

    async def scenario() -> None:
        said = ""
        async for token in pipe:
            said += token.text
            assert whole.startswith(said + pipe.upcoming(50))

    assert pipe.upcoming(30) == whole[:30]
    run(scenario())


def test_its_tokens_are_the_tokenizers() -> None:
    made = plan("zh", 3)
    segments = extractive_segments(load_catalog(DEMO / FILES["zh"]).products[:3], shop="云雀原", language="zh")
    texts = [segment.text.rstrip() + "\n\n" for segment in segments[:-1]] + [segments[-1].text]
    assert list(made.tokens) == [piece for text in texts for piece in narrator_split(text)]
    assert len(made.tokens) == sum(len(narrator_tokenizer().encode(text)) for text in texts)
    assert len(made.starts) == 5


def test_a_word_comes_whole_with_the_marks_that_hang_on_it() -> None:
    pieces = narrator_split("The colour: zanzibarish, 1.6 litres.\n\n")
    assert [piece for piece in pieces if piece] == ["The", " colour:", " zanzibarish,", " 1.6", " litres.", "\n\n"]
    assert len(pieces) > 10


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from("ab。，“” \n.,-24欧光(é🫖!?)"), max_size=16))
def test_waiting_loses_nothing_and_keeps_every_index(text: str) -> None:
    pieces = narrator_split(text)
    assert "".join(pieces) == text
    assert len(pieces) == len(narrator_tokenizer().encode(text))
    said = ""
    for piece in filter(None, pieces):
        said += piece
        rest = text[len(said) :]
        # A line may be broken here: at a space, beside an ideograph, or because nothing follows.
        assert not rest or rest[0].isspace() or said[-1].isspace() or {said[-1], rest[0]} & set("欧光。，“”().,-!?")


def test_it_breathes_after_sentences_and_not_within_numbers() -> None:
    made = plan("en", 8)
    pipe = ExtractiveTextPipe(made)
    times: list[tuple[float, Token]] = []

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        async for token in pipe:
            times.append((clock(), token))

    virtual(scenario())
    text = "".join(token.text for _, token in times)
    words = len(text.split())
    assert 250 <= words / (times[-1][0] - times[0][0]) * 60 <= 420
    said, breaths = "", 0
    for (t0, before), (t1, _) in pairwise(times):
        said += before.text
        if t1 - t0 > 0.3 + 0.025 * len(before.text):
            breaths += 1
            assert said.rstrip()[-1] in ".?"
    assert breaths == text.count(". ") + text.count("? ") + text.count(".\n")


def test_a_products_second_picture_goes_with_the_words_it_shows() -> None:
    images = (
        ProductImage("a", "a.jpg"),
        ProductImage("turn", "a.webm"),
        ProductImage("b", "b.jpg", "the narrow spout"),
    )
    facts = (("material", "steel"), ("spout", "narrow"), ("capacity", "2 litres"))
    product = Product("k", "Kettle", price=Decimal(9), currency="EUR", images=images, facts=facts)
    found = set()
    for seed in range(8):
        segment = extractive_segments([product], most=8, seed=seed)[1]
        found.add(segment.places)
    keys = {key for places in found for key, _ in places}
    assert keys == {"b"}
    assert sum("spout is narrow" in phrase for places in found for _, phrase in places) >= len(found) - 1


def test_a_product_without_pictures_or_facts_is_told() -> None:
    made = extractive_plan([Product("mug", "Mug")])
    assert [(cue.key, cue.product) for cue in made.cues] == [("mug", "mug")]
    assert "Mug" in "".join(made.tokens)
