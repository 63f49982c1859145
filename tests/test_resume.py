"""A stream that goes on where another process left it: every word once, every picture, numbers without a gap."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multimodal import MultiModalStream
from multimodal.errors import UsageError
from multimodal.events import AnyEvent, CueMissed, Interrupted, Reveal, StreamEnd, Text
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptImagePipe, ScriptTextPipe
from multimodal.transport.fold import Fold, State
from multimodal.values import Cue, Place, Product, ProductImage
from tests.support import virtual
from tests.transport.events import picture

WORDS = [f"w{i} " for i in range(9)] + ["the ", "Halo ", "Kettle ", "and ", "a ", "Fern ", "Mug. "] + ["z "] * 5
PICTURES = [picture(f"p{i}", 3_000) for i in range(4)]
CUES = [Cue(0, "p0"), Cue(4, "p1"), Cue(4, "p2"), Cue(13, "p3")]
NAMED = [
    Product("p0", "Halo Kettle", images=(ProductImage("p0", "halo"),)),
    Product("p1", "Fern Mug", images=(ProductImage("p1", "fern"),)),
]


def explicit(place: Place | None) -> MultiModalStream:
    return MultiModalStream(ScriptTextPipe(WORDS, gap=0.05), ScriptImagePipe(PICTURES), cues=CUES, resume=place)


def mentioned(place: Place | None) -> MultiModalStream:
    return MultiModalStream(
        ScriptTextPipe(WORDS, gap=0.05), ScriptImagePipe(PICTURES), mentions=NAMED, resume=place, sync_interval=1
    )


def at_intervals(place: Place | None) -> MultiModalStream:
    return MultiModalStream(
        ScriptTextPipe(WORDS, gap=0.05), PlannedScriptImagePipe(PICTURES), resume=place, sync_interval=4
    )


async def told(stream: MultiModalStream, at_most: int = 10_000) -> tuple[list[tuple[AnyEvent, ...]], int | None]:
    bundles: list[tuple[AnyEvent, ...]] = []
    async with stream:
        async for bundle in stream.bundles():
            bundles.append(bundle)
            if len(bundles) == at_most:
                break
        return bundles, stream.offset


@pytest.mark.parametrize("make", [explicit, mentioned, at_intervals])
def test_a_stream_goes_on_from_every_place(make: Callable[[Place | None], MultiModalStream]) -> None:
    async def scenario() -> None:
        whole, _ = await told(make(None))
        revealed = [event.key for bundle in whole for event in bundle if isinstance(event, Reveal)]
        assert revealed
        for cut in range(1, len(whole)):
            before, offset = await told(make(None), cut)
            assert offset == 0
            fold = Fold()
            for bundle in before:
                fold.feed(bundle)
            again = Fold(State.decode(fold.state(offset).encode()))
            assert again.take() == fold.take()
            assert again.place(offset) == fold.place(offset)
            after, _ = await told(make(again.place(offset)))
            events = [event for bundle in (*before, *after) for event in bundle]
            assert [event.seq for event in events] == list(range(len(events)))
            assert [event.pts_ms for event in events] == sorted(event.pts_ms for event in events)
            assert "".join(event.text for event in events if isinstance(event, Text)) == "".join(WORDS)
            assert isinstance(after[0][0], Interrupted)
            assert isinstance(events[-1], StreamEnd)
            keys = [event.key for event in events if isinstance(event, Reveal)]
            # What stood on the stage is shown again where the stream goes on, and nothing else.
            shown = [key for key, _ in fold.place(0).shown]
            assert sorted(keys) == sorted([*revealed, *shown])
            assert not [event for event in events if isinstance(event, CueMissed)]
            bound = 1 if make is mentioned else 4
            drift = [event.mark - event.anchor for event in events if isinstance(event, Reveal)]
            assert max(drift) < bound

    virtual(scenario())


def test_pictures_whose_order_is_not_known_cannot_go_on() -> None:
    class Unnamed:
        def __aiter__(self) -> Unnamed:
            return self

        async def __anext__(self) -> None:
            raise StopAsyncIteration

    with pytest.raises(UsageError, match="give cues"):
        MultiModalStream(ScriptTextPipe(WORDS), Unnamed(), resume=Place("s", 3, 0, 2, 6, 10.0, 2))  # type: ignore[arg-type]
