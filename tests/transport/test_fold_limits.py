"""What a fold keeps, and a snapshot for a viewer that takes small messages: all that can be shown, and no more."""

from __future__ import annotations

import pytest

from multimodal.events import AnyEvent, AssetReserved, Interrupted, Reveal, Text
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.transport.fold import Fold
from multimodal.transport.scheduler import SendScheduler
from multimodal.values import Cue
from multimodal.wire import MESSAGE_LIMIT_BYTES
from tests.support import virtual
from tests.transport.events import picture


@pytest.mark.parametrize("message_bytes", [4096, 16_384, MESSAGE_LIMIT_BYTES])
def test_every_part_of_a_snapshot_fits(message_bytes: int) -> None:
    fold = Fold()
    told = [f"wörd{number} " for number in range(4_000)]
    for number, word in enumerate(told):
        fold.feed([Text(1, "s", 0, number, 0.0, number, token_index=number, token_count=1, text=word)])
    for number in range(60):
        asset = picture(f"p{number}").asset()
        placeholder = "data:image/webp;base64," + "A" * 300
        seq = len(told) + number
        fold.feed(
            [AssetReserved(1, "s", 0, seq, 0.0, len(told), asset.key, placeholder=placeholder, variants=asset.variants)]
        )
    parts = fold.take(message_bytes)
    scheduler = SendScheduler(message_bytes=message_bytes)
    scheduler.start(0.0)
    scheduler.queue_bundle(parts)
    sent = []
    while (message := scheduler.next_message(0, 0.0)) is not None:
        assert isinstance(message, str)
        sent.append(message)
    assert max(len(message.encode()) for message in sent) <= message_bytes
    assert {asset.key for part in parts for asset in part.assets} == {f"p{number}" for number in range(60)}
    text = "".join(told)
    assert parts[0].text
    assert text.endswith(parts[0].text)
    assert parts[0].char == len(text) - len(parts[0].text)
    assert len(parts[0].text.encode()) >= min(message_bytes // 3, 16 * 1024)


def shows(key: str, seq: int, cue: int, *, epoch: int = 0) -> Reveal:
    return Reveal(1, "s", epoch, seq, 0.0, cue, cue, key, "", cue, cue)


def test_it_keeps_as_many_descriptions_as_there_are_pictures_however_long_the_tour() -> None:
    fold = Fold()
    for number in range(2_000):
        asset, key = picture(f"p{number % 40}").asset(), f"p{number % 40}"
        fold.feed([AssetReserved(1, "s", 0, 2 * number, 0.0, number, key, variants=asset.variants)])
        fold.feed([shows(key, 2 * number + 1, number)])
    assert (len(fold.assets), len(fold.revealed), len(fold.shown)) == (40, 40, 1)
    assert sum(len(part.assets) for part in fold.take()) == 40
    assert len(fold.settled) == 2_000
    fold.feed([Interrupted(1, "s", 1, 4_000, 0.0, 2_000)])
    assert fold.settled == []


def test_a_picture_that_has_gone_may_be_told_again_so_who_comes_late_has_to_know_it() -> None:
    """Why descriptions stay: a stream that is rewound describes nothing a second time."""

    async def scenario() -> list[AnyEvent]:
        images = ScriptImagePipe([picture(f"p{number}") for number in range(3)])
        cues = [Cue(anchor, f"p{number}") for number, anchor in enumerate((0, 3, 6))]
        stream = MultiModalStream(ScriptTextPipe([f"w{n} " for n in range(12)], gap=0.05), images, cues=cues)
        events: list[AnyEvent] = []
        async with stream:
            async for event in stream:
                events.append(event)
                if event.tok == 8 and stream.epoch == 0:
                    stream.rewind(0)
        return events

    events = virtual(scenario())
    turned = next(i for i, event in enumerate(events) if isinstance(event, Interrupted))
    assert {event.key for event in events[turned:] if isinstance(event, Reveal)} == {"p0", "p1", "p2"}
    assert not any(isinstance(event, AssetReserved) for event in events[turned:])
    fold = Fold()
    fold.feed(events[: turned + 1])
    (snapshot,) = fold.take()
    assert (snapshot.shown, {asset.key for asset in snapshot.assets}) == ((), {"p0", "p1", "p2"})
