"""The scanner inside a stream: however the text is cut, cut off or interrupted, cues come with their words."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from multimodal.errors import UsageError
from multimodal.events import AnyEvent, CueMissed, Reveal, StreamEnd, Text
from multimodal.pipes.interleaved import Part, split_interleaved
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.matcher import ProductNames
from multimodal.values import Cue, EncodedImage, Product, ProductImage, Token
from tests.support import virtual


def product(sku: str, title: str) -> Product:
    return Product(sku, title, description=f"all about {sku}", images=(ProductImage(f"{sku}-hero", "x.jpg"),))


PRODUCTS = [product("kettle", "Halo Kettle"), product("mug", "Tide Mug"), product("lamp", "Dusk")]


def images(*late: str) -> PlannedScriptImagePipe:
    items = [
        (EncodedImage(f"{p.id}-hero", b"x", "image/webp", 4, 3, product=p.id), 0.3 if p.id in late else 0.0)
        for p in PRODUCTS
    ]
    return PlannedScriptImagePipe(items, products=PRODUCTS)


def play(stream: MultiModalStream) -> list[AnyEvent]:
    async def events() -> list[AnyEvent]:
        async with stream:
            return [event async for event in stream]

    return virtual(events())


def text_of(events: list[AnyEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def reveals(events: list[AnyEvent]) -> list[tuple[str, int, int]]:
    found = [event for event in events if isinstance(event, Reveal)]
    assert not any(event.declared_late for event in found)
    return [(event.key, event.anchor, event.mark) for event in found]


SCRIPT = "Meet the Halo Kettle, friends. The Tide Mug[[show:lamp|hold]] goes with it."


@pytest.mark.parametrize("interval", [1, 3])
def test_mentions_and_markers_come_with_their_words(interval: int) -> None:
    stream = MultiModalStream(ScriptTextPipe(SCRIPT), images(), interval, mentions=True, markers=True)
    events = play(stream)
    assert text_of(events) == SCRIPT.replace("[[show:lamp|hold]]", "")
    shown = reveals(events)
    assert [(key, anchor) for key, anchor, _ in shown] == [("kettle-hero", 4), ("mug-hero", 8), ("lamp-hero", 8)]
    assert all(0 <= mark - anchor < interval for _, anchor, mark in shown)
    assert [cue.late for cue in stream.plan.values()] == ["placeholder", "placeholder", "hold"]
    assert [cue.product for cue in stream.plan.values()] == ["kettle", "mug", "lamp"]
    assert stream.reports == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 11])
def test_however_the_text_is_cut_no_cue_is_late_and_no_marker_seen(size: int) -> None:
    pieces = [SCRIPT[start : start + size] for start in range(0, len(SCRIPT), size)]
    events = play(MultiModalStream(ScriptTextPipe(pieces), images(), 1, mentions=True, markers=True))
    assert text_of(events) == SCRIPT.replace("[[show:lamp|hold]]", "")
    assert [key for key, _, _ in reveals(events)] == ["kettle-hero", "mug-hero", "lamp-hero"]


def test_lead_brings_the_picture_with_the_first_word() -> None:
    events = play(MultiModalStream(ScriptTextPipe("See the Halo Kettle here."), images(), 1, mentions=True, lead=1))
    assert reveals(events) == [("kettle-hero", 3, 3)]
    assert text_of(events) == "See the Halo Kettle here."


def test_a_name_at_the_end_of_a_pipe_that_does_not_know_its_end() -> None:
    async def words() -> AsyncIterator[str]:
        for word in ("See ", "the ", "Tide ", "Mug"):
            yield word

    events = play(MultiModalStream(words(), images(), 1, mentions=True))
    assert reveals(events) == [("mug-hero", 4, 4)]


def test_text_that_breaks_off_comes_out_whole() -> None:
    text = ScriptTextPipe("See the Tide Mug", fail_at=(4, "cut"))
    stream = MultiModalStream(text, images(), 1, mentions=True)
    events: list[AnyEvent] = []

    async def collect() -> None:
        async with stream:
            async for event in stream:
                events.append(event)

    with pytest.raises(Exception, match="cut"):
        virtual(collect())
    assert text_of(events) == "See the Tide Mug"
    assert reveals(events) == [("mug-hero", 4, 4)]
    assert isinstance(events[-1], StreamEnd)


def test_the_pictures_of_a_small_catalogue_are_asked_for_before_they_are_named() -> None:
    pipe = images("mug")
    events = play(MultiModalStream(ScriptTextPipe("a b c d e f g h Tide Mug here", gap=0.1), pipe, 1, mentions=True))
    assert pipe.wanted == ["mug-hero", "kettle-hero", "lamp-hero"], "what will be named goes first"
    assert not any(event.preview for event in events if isinstance(event, Reveal))


def test_an_explicit_cue_takes_the_place_of_the_mention() -> None:
    stream = MultiModalStream(
        ScriptTextPipe(SCRIPT), images(), 1, cues=[Cue(1, "kettle-hero")], mentions=True, markers=True
    )
    assert [(key, anchor) for key, anchor, _ in reveals(play(stream))][:2] == [("kettle-hero", 1), ("mug-hero", 8)]


def test_what_the_narration_gets_wrong_is_reported() -> None:
    stream = MultiModalStream(
        ScriptTextPipe("The [[show:nil]] Dusk."), images(), mentions=ProductNames(PRODUCTS[2:]), markers=True
    )
    events = play(stream)
    assert text_of(events) == "The  Dusk."
    assert [report.kind for report in stream.reports] == ["unknown_product"]


def test_meaning() -> None:
    def embed(text: str) -> list[float]:
        return [float(word in text) for word in ("kettle", "mug", "lamp")]

    events = play(MultiModalStream(ScriptTextPipe("my old mug is nice to have"), images(), 1, embed=embed))
    assert reveals(events) == [("mug-hero", 3, 3)]


def test_another_turn_is_read_anew() -> None:
    stream = MultiModalStream(ScriptTextPipe("The Dusk is", gap=0.1), images(), 1, mentions=True)

    async def events() -> list[AnyEvent]:
        out: list[AnyEvent] = []
        async with stream:
            async for event in stream:
                out.append(event)
                if isinstance(event, Reveal) and event.epoch == 0:
                    stream.say(ScriptTextPipe("Again the Dusk.", gap=0.1))
            return out

    got = virtual(events())
    shown = [event for event in got if isinstance(event, Reveal)]
    assert [(event.key, event.epoch, event.declared_late) for event in shown] == [
        ("lamp-hero", 0, False),
        ("lamp-hero", 1, False),
    ]
    told = [event for event in got if isinstance(event, Text) and event.epoch == 1]
    assert "".join(event.text for event in told) == "Again the Dusk."
    assert shown[1].anchor == told[-1].token_index + 1
    assert not [event for event in got if isinstance(event, CueMissed)]


def test_an_interleaved_stream_brings_its_own_cues() -> None:
    async def parts() -> AsyncIterator[Part]:
        for part in ("one ", Token("two "), EncodedImage("k", b"x", "image/webp", 4, 3), "three "):
            yield part

    split = split_interleaved(parts())
    events = play(MultiModalStream(split.text, split.images, 1, cues=split.cues))
    assert reveals(events) == [("k", 2, 2)]
    assert not any(event.preview for event in events if isinstance(event, Reveal))


def test_sources_without_products_are_refused() -> None:
    with pytest.raises(UsageError, match="need to know the products"):
        MultiModalStream(ScriptTextPipe("a"), ScriptImagePipe([]), mentions=True)
    with pytest.raises(UsageError, match="lead=2"):
        MultiModalStream(ScriptTextPipe("a"), images(), lead=2)
