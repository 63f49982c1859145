"""Tours as data, to be played on a virtual clock: what the pipes will do, printed as it is written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from multimodal.errors import UsageError
from multimodal.sync.log import SyncLog
from multimodal.values import Asset, Cue, EncodedImage, ImageFailure, Product, Token

if TYPE_CHECKING:
    from multimodal.stream import MultiModalStream

__all__ = ["Fate", "Tour", "Turn"]


class Fate(msgspec.Struct, frozen=True):
    """What becomes of one picture.

    Args:
        kind: ``comes``, ``fails`` or ``never``.
        at_ms: when, in milliseconds from the first pull of the image pipe.
        again_ms: how long after that it comes a second time, against the contract; None = it does not.
        described: its size and alternative text are told before.
        reason: why it fails.
    """

    kind: Literal["comes", "fails", "never"] = "comes"
    at_ms: int = 0
    again_ms: int | None = None
    described: bool = False
    reason: str = "truncated"


class Turn(msgspec.Struct, frozen=True):
    """Another turn, which interrupts the one before.

    Args:
        at_ms: when, in milliseconds from the beginning of the tour; one that comes after its end is left out.
        tokens, gaps_ms: as for a `Tour`.
        cues: with anchors counted from the turn's beginning.
    """

    at_ms: int
    tokens: tuple[str, ...] = ()
    gaps_ms: tuple[int, ...] = ()
    cues: tuple[Cue, ...] = ()


class Tour(msgspec.Struct, frozen=True):
    """A tour as data: what the pipes will do, and how the stream is set.

    Args:
        tokens: the narration.
        gaps_ms: milliseconds before each token.
        known_end: the last token says that it is the last (T6); False = the end comes `end_ms` later.
        end_ms: milliseconds from the last token to the end.
        fates: by key, what becomes of each picture.
        cues: None = every interval.
        live: cues that are declared when the narration has reached a token: (token, cue).
        settings: further arguments of `MultiModalStream`, `sync_interval` included.
        turns: interruptions, in order of time.
        products: whose pictures they are; the picture's key is the product's id.
    """

    tokens: tuple[str, ...]
    gaps_ms: tuple[int, ...]
    known_end: bool
    end_ms: int
    fates: dict[str, Fate]
    cues: tuple[Cue, ...] | None
    live: tuple[tuple[int, Cue], ...]
    settings: dict[str, Any]
    turns: tuple[Turn, ...] = ()
    products: tuple[Product, ...] = ()

    @property
    def text(self) -> str:
        """The whole narration, of the turns that interrupt it too."""
        return "".join(chain(self.tokens, *(turn.tokens for turn in self.turns)))

    @property
    def seen_text(self) -> str:
        """The narration without its markers, where `settings` turn them on."""
        return re.sub(r"\[\[show:[^\]]*\]\]", "", self.text) if self.settings.get("markers") else self.text

    def stream(self) -> MultiModalStream:
        """A fresh stream that will play this tour on the running loop's clock."""
        from multimodal.stream import MultiModalStream

        made: list[MultiModalStream] = []
        cues = None if self.cues is None else list(self.cues)
        made.append(
            MultiModalStream(self._speak(made), _Pictures(self.fates, self.products), cues=cues, **self.settings)
        )
        return made[0]

    async def play(self, *, limit: float = 1000.0) -> SyncLog:
        """Play it to its end, its interruptions included, and give the log; on a `VirtualClock`, best.

        Args:
            limit: seconds that it may take.

        Raises:
            SyncError: it did not end within `limit`.
        """
        from multimodal.sync.kit import record

        stream = self.stream()
        async with asyncio.TaskGroup() as group:
            interrupting = group.create_task(self._interrupt(stream))
            try:
                return await record(stream, limit=limit)
            finally:
                interrupting.cancel()

    async def _interrupt(self, stream: MultiModalStream) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for turn in self.turns:
            await asyncio.sleep(began + turn.at_ms / 1000 - loop.time())
            with suppress(UsageError):  # the tour has ended before
                stream.say(_told(turn.tokens, turn.gaps_ms), turn.cues)

    async def _speak(self, made: list[MultiModalStream]) -> AsyncIterator[Token]:
        for number, (text, gap_ms) in enumerate(zip(self.tokens, self.gaps_ms, strict=True)):
            if gap_ms:
                await asyncio.sleep(gap_ms / 1000)
            for at, cue in self.live:
                if at == number:
                    made[0].cue(cue.anchor, cue.key, late=cue.late, max_hold=cue.max_hold)
            yield Token(text, last=self.known_end and number == len(self.tokens) - 1)
        await asyncio.sleep(self.end_ms / 1000)


async def _told(tokens: Sequence[str], gaps_ms: Sequence[int]) -> AsyncIterator[str]:
    for text, gap_ms in zip(tokens, gaps_ms, strict=True):
        if gap_ms:
            await asyncio.sleep(gap_ms / 1000)
        yield text


class _Pictures:
    """An image pipe that does to each picture what its fate says."""

    def __init__(self, fates: dict[str, Fate], products: Sequence[Product]) -> None:
        self._fates = fates
        self.products = tuple(products)
        events = [(fate.at_ms, key, fate) for key, fate in fates.items() if fate.kind != "never"]
        events += [(at + fate.again_ms, key, fate) for at, key, fate in events if fate.again_ms is not None]
        self._events = sorted(events, key=lambda event: event[0])
        self._began: float | None = None

    def __aiter__(self) -> _Pictures:
        return self

    async def __anext__(self) -> EncodedImage | ImageFailure:
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = loop.time()
        if not self._events:
            raise StopAsyncIteration
        at_ms, key, fate = self._events[0]
        await asyncio.sleep(max(0.0, self._began + at_ms / 1000 - loop.time()))
        del self._events[0]
        if fate.kind == "fails":
            return ImageFailure(key, fate.reason, "as the strategy drew it")
        return EncodedImage(key, b"x", "image/webp", 4, 3, product=self._product(key), alt=f"picture {key}")

    def _product(self, key: str) -> str:
        return key if any(product.id == key for product in self.products) else ""

    def keys(self) -> list[str]:
        return list(self._fates)

    async def describe(self, keys: Sequence[str]) -> list[Asset]:
        known = [key for key in keys if key in self._fates and self._fates[key].described]
        return [Asset(key, self._product(key), 4, 3, f"picture {key}", "data:,x") for key in known]
