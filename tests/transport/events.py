"""Events by the shortest names, for tests that care about order and not about content."""

from __future__ import annotations

from multimodal.events import AnyEvent, AssetReserved, Reveal, StreamEnd, Text
from multimodal.values import EncodedImage


def text(seq: int, words: str = "word ") -> Text:
    return Text(1, "s", 0, seq, 0.0, seq, token_index=seq, token_count=1, text=words)


def reveal(seq: int, key: str = "p") -> Reveal:
    return Reveal(1, "s", 0, seq, 0.0, seq, cue=0, key=key, product="", anchor=0, mark=0)


def end(seq: int) -> StreamEnd:
    return StreamEnd(1, "s", 0, seq, 0.0, seq)


def reserved(seq: int, image: EncodedImage) -> AssetReserved:
    asset = image.asset()
    return AssetReserved(1, "s", 0, seq, 0.0, seq, key=asset.key, variants=asset.variants)


def picture(key: str, size_bytes: int = 1000) -> EncodedImage:
    return EncodedImage(key, key.encode() + bytes(size_bytes - len(key)), "image/webp", 300, 300)


def kinds(events: list[AnyEvent]) -> list[str]:
    return [event.kind for event in events]
