"""A snapshot for a viewer that takes small messages: each part fits, and nothing but old narration is left out."""

from __future__ import annotations

import pytest

from multimodal.events import AssetReserved, Text
from multimodal.transport.fold import Fold
from multimodal.transport.scheduler import SendScheduler
from multimodal.wire import MESSAGE_LIMIT_BYTES
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
