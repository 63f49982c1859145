"""Cue sources through MultiModalStream: mentions, markers, lead, an interleaved model; drift heard while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.events import AnyEvent, Reveal, Text
from multimodal.pipes.interleaved import split_interleaved
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.kit import assert_every_cue_settled, assert_in_sync, assert_right_product, record
from multimodal.sync.live import DriftSample
from multimodal.values import Cue, EncodedImage, Product, ProductImage, Token
from multimodal.wire import Hello, Painted
from tests.support import virtual

PRODUCTS = [
    Product("kettle", "Halo Kettle", ("Halo",), price=Decimal("89"), images=(ProductImage("k", "k.jpg"),)),
    Product("mug", "Tide Mug", images=(ProductImage("m", "m.jpg"),)),
    Product("lamp", "Dusk Lamp", images=(ProductImage("l", "l.jpg"),)),
]
STORY = "Here is the Halo Kettle at last, and the Tide Mug beside it. The Halo Kettle boils; the mug waits for you."


def images(**delays: float) -> PlannedScriptImagePipe:
    shown = [EncodedImage(p.images[0].key, b"x", "image/webp", 4, 3, product=p.id) for p in PRODUCTS]
    return PlannedScriptImagePipe([(image, delays.get(image.key, 0.0)) for image in shown], products=PRODUCTS)


async def collect(stream: MultiModalStream) -> list[AnyEvent]:
    async with stream:
        return [event async for event in stream]


def after(log: list[AnyEvent]) -> dict[str, str]:
    """The words before each picture's anchor."""
    words = [e.text for e in log if isinstance(e, Text)]
    return {e.key: "".join(words[: e.anchor]).split()[-1] for e in log if isinstance(e, Reveal)}


def test_a_mention_brings_its_picture() -> None:
    async def main() -> None:
        stream = MultiModalStream(ScriptTextPipe(STORY), images(), mentions=True)
        log = await record(stream)
        assert_in_sync(log, preset="default")
        assert_every_cue_settled(log, text=STORY)
        assert_right_product(log)
        assert after(list(log.events)) == {"k": "Kettle", "m": "Mug"}
        assert {report.kind: report.text for report in stream.reports} == {"repeated": "kettle", "never_named": "lamp"}

    virtual(main())


def test_lead_brings_it_with_the_first_word_of_the_mention() -> None:
    async def main() -> list[AnyEvent]:
        return await collect(MultiModalStream(ScriptTextPipe(STORY), images(), 1, mentions=True, lead=4))

    assert after(virtual(main())) == {"k": "Halo", "m": "Tide"}


@pytest.mark.parametrize("cut", range(len("see [[show:mug|hold]]this")))
def test_a_marker_is_never_seen_wherever_it_is_cut(cut: int) -> None:
    text = "First see [[show:mug|hold]]this, then go."
    at = text.index("see") + cut

    async def main() -> list[AnyEvent]:
        return await collect(MultiModalStream(ScriptTextPipe([text[:at], text[at:]]), images(), markers=True))

    log = virtual(main())
    assert "".join(e.text for e in log if isinstance(e, Text)) == "First see this, then go."
    assert [e.key for e in log if isinstance(e, Reveal)] == ["m"]


def test_sources_mix_and_an_explicit_cue_goes_before_its_mention() -> None:
    async def main() -> list[AnyEvent]:
        text = ScriptTextPipe("The Halo Kettle, [[show:lamp]]and the Tide Mug here.")
        return await collect(MultiModalStream(text, images(), cues=[Cue(1, "m")], mentions=True, markers=True))

    log = virtual(main())
    assert [(e.key, e.anchor) for e in log if isinstance(e, Reveal)] == [("m", 1), ("k", 3), ("l", 4)]


def test_every_turn_is_read_anew() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        async with MultiModalStream(ScriptTextPipe(STORY), images(), mentions=True) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.token_index == 6 and event.epoch == 0:
                    stream.say(ScriptTextPipe("Once more: the Halo Kettle is here."))
        return log

    log = virtual(main())
    assert [(e.key, e.epoch) for e in log if isinstance(e, Reveal)] == [("k", 0), ("k", 1)]
    words = [e.text for e in log if isinstance(e, Text)]
    last = [e for e in log if isinstance(e, Reveal)][-1]
    assert "".join(words[: last.anchor]).endswith("Once more: the Halo Kettle ")


def test_a_model_that_emits_words_and_pictures_in_one_stream() -> None:
    async def model() -> AsyncIterator[str | Token | EncodedImage]:
        for part in ("Look ", "at ", EncodedImage("one", b"1", "image/webp", 4, 3), "this ", "and "):
            await asyncio.sleep(0.05)
            yield part
        yield EncodedImage("two", b"2", "image/webp", 4, 3)
        yield Token("that.", last=True)

    async def main() -> list[AnyEvent]:
        parts = split_interleaved(model())
        return await collect(MultiModalStream(parts.text, parts.images, 1, cues=parts.cues))

    log = virtual(main())
    assert "".join(e.text for e in log if isinstance(e, Text)) == "Look at this and that."
    assert [(e.key, e.anchor, e.mark) for e in log if isinstance(e, Reveal)] == [("one", 2, 2), ("two", 4, 4)]


def test_drift_is_heard_while_the_stream_runs() -> None:
    heard: list[DriftSample] = []

    def broken(sample: DriftSample) -> None:
        raise LookupError("a listener's own fault")

    async def main() -> None:
        async with MultiModalStream(ScriptTextPipe(STORY), images(), mentions=True) as stream:
            stream.on("drift", broken)
            stop = stream.on("drift", heard.append)
            stream.ack(Hello())
            async for bundle in stream.bundles():
                stream.ack(Painted(bundle[-1].seq, bundle[-1].pts_ms + 8.0, bundle[-1].seq))
            stop()
            stop()
            with pytest.raises(UsageError, match="there is: drift"):
                stream.on("stage", heard.append)  # type: ignore[arg-type]

    virtual(main())
    assert [(s.vantage, s.key) for s in heard] == [(v, k) for k in "km" for v in ("emitted", "painted")]
    assert all(s.token_drift <= 2 for s in heard)
    assert all(s.same_frame for s in heard if s.vantage == "painted")


def test_an_unknown_policy_of_cues_is_refused_in_a_turn_too() -> None:
    async def main() -> None:
        async with MultiModalStream(ScriptTextPipe(STORY), images()) as stream:
            wrong: Any = [(1, "k")]
            with pytest.raises(UsageError, match="no list of Cue"):
                stream.say(ScriptTextPipe("x"), wrong)
            async for _ in stream:
                pass

    virtual(main())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mentions": "yes"}, "mentions='yes'"),
        ({"mentions": 1}, "mentions=1"),
        ({"mentions": None}, "mentions=None"),
        ({"mentions": ["kettle"]}, "mentions holds 'kettle'"),
        ({"markers": "yes"}, "markers='yes'"),
        ({"embed": "yes"}, "embed='yes'"),
    ],
)
def test_wrong_types_are_refused_when_the_stream_is_made(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        MultiModalStream(ScriptTextPipe(STORY), images(), **settings)
