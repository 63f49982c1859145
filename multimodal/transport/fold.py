"""A running stream folded to where it stands, for viewers who come late. Pure.

What is kept is bounded: the end of the narration, what is on the stage, the outcomes of this epoch's cues, and of each
picture that was ever described its description, once, however often it is shown: a tour of N pictures keeps N, some 0.7
KB each with a preview. They stay after their turn on the stage: a picture is described once and may be told again,
by a rewind or an answer, to viewers who came after that; and each can still be asked for by its hash.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from multimodal.errors import JournalError
from multimodal.events import (
    AnyEvent,
    AssetReserved,
    CueMissed,
    Gap,
    Interrupted,
    Reveal,
    Snapshot,
    StreamEnd,
    StreamStart,
    Swap,
    SyncMark,
    Text,
)
from multimodal.values import Place
from multimodal.wire import MESSAGE_LIMIT_BYTES, encode_event

__all__ = ["TEXT_BYTES", "Fold", "State"]

TEXT_BYTES = 16 * 1024
"""The end of the narration, in UTF-8: some ten minutes of it, and a quarter of a message."""
_SPARE = 4 * 1024
"""Bytes that a message keeps free beside its snapshot; an eighth of a small one."""


class Fold:
    """Takes every event of a stream in order, and gives the snapshot of the moment.

    Args:
        state: where to go on from; None = a stream's beginning.
    """

    def __init__(self, state: State | None = None) -> None:
        self.seq = -1
        self.last: AnyEvent | None = None
        """The event that was folded last; of a `state`, its first snapshot."""
        self.start: StreamStart | None = None
        self.assets: dict[str, AssetReserved] = {}
        """By key, every picture that was described: as many as the image pipe has, not as the tour is long."""
        self.shown: list[Reveal] = []
        self.revealed: set[str] = set()
        """Keys of pictures that were on the stage once."""
        self.settled: list[tuple[int, str]] = []
        """(anchor, key) of the cues that had their outcome in this epoch."""
        self._previews: set[int] = set()
        self._text: list[str] = []
        self._bytes = self._chars = 0
        self._base, self._mark, self._ended = 0, -1, ""
        self._shown_mark = -1
        if state is not None:
            self.settled = list(state.settled)
            for part in state.parts:
                self._restore(part)

    def feed(self, events: Iterable[AnyEvent]) -> None:
        """What was emitted next."""
        for event in events:
            self.last, self.seq = event, event.seq
            match event:
                case StreamStart():
                    self.start = event
                case Text(text=text):
                    self._write(text)
                case SyncMark(mark=mark):
                    self._mark = mark
                case AssetReserved(key=key):
                    self.assets[key] = event
                case Reveal():
                    if event.mark != self._shown_mark:
                        self.shown, self._shown_mark = [], event.mark
                    # Named twice at one mark, a picture stands there once.
                    self.shown = [other for other in self.shown if other.key != event.key] + [event]
                    self.revealed.add(event.key)
                    self.settled.append((event.anchor, event.key))
                    if event.preview:
                        self._previews.add(event.cue)
                case CueMissed(anchor=anchor, key=key):
                    self.settled.append((anchor, key))
                case Swap(cue=cue):
                    self._previews.discard(cue)
                case Interrupted(tok=tok):
                    self.shown, self._shown_mark, self._base, self._mark = [], -1, tok, -1
                    self._previews.clear()
                    self.settled.clear()
                case StreamEnd(reason=reason):
                    self._ended = reason
                case _:
                    pass

    @property
    def ended(self) -> bool:
        """The stream's end was folded."""
        return bool(self._ended)

    @property
    def wanted(self) -> set[str]:
        """Keys of the pictures on the stage, or behind a preview there."""
        return {reveal.key for reveal in self.shown}

    def take(self, message_bytes: int = MESSAGE_LIMIT_BYTES) -> tuple[Snapshot, ...]:
        """Where the stream stands, in as many snapshots as messages need; () before its first event.

        What is on the stage comes first. Of pictures that have gone from it, the preview is left out, and of the
        narration what does not fit into half of the first message.

        Args:
            message_bytes: what the viewer takes in one message.
        """
        if self.last is None:
            return ()
        last = self.last
        most = message_bytes - min(_SPARE, message_bytes // 8)
        text = "".join(self._text)
        if message_bytes < MESSAGE_LIMIT_BYTES:
            text = text.encode()[-most // 2 :].decode(errors="ignore")
        now = self.wanted
        order = sorted(self.assets.values(), key=lambda asset: (asset.key not in now, asset.key in self.revealed))
        parts: list[Snapshot] = []
        chosen: list[AssetReserved] = []
        head = Snapshot(
            last.v,
            last.sid,
            last.epoch,
            self.seq,
            last.pts_ms,
            last.tok,
            start=self.start,
            text=text,
            char=self._chars - len(text),
            base=self._base,
            mark=self._mark,
            shown=tuple(self.shown),
            previews=tuple(sorted(self._previews)),
            ended=self._ended,
        )
        room = most - len(encode_event(head))
        for asset in order:
            if asset.key in self.revealed and asset.key not in now:
                asset = msgspec.structs.replace(asset, placeholder="")
            size = len(encode_event(asset)) + 1
            if size > room and (chosen or not parts):
                parts.append(_part(head, chosen, not parts))
                room, chosen = most, []
            chosen.append(asset)
            room -= size
        if chosen or not parts:
            parts.append(_part(head, chosen, not parts))
        return tuple(parts)

    def state(self, offset: int | None) -> State:
        """What to keep of it (`State`)."""
        return State(self.take(), tuple(self.settled), offset)

    def place(self, offset: int) -> Place:
        """Where the stream stands, for another to go on from there.

        Args:
            offset: by how many the text pipe's tokens are ahead of the boundaries (`MultiModalStream.offset`).
        """
        last = self.last
        assert last is not None, "nothing was emitted"
        shown = tuple((reveal.key, reveal.product) for reveal in self.shown)
        return Place(
            last.sid,
            self.seq,
            last.epoch,
            last.tok,
            self._chars,
            last.pts_ms,
            last.tok + offset,
            base=self._base,
            settled=tuple(self.settled),
            shown=shown,
        )

    def missed(self, after: int, message_bytes: int = MESSAGE_LIMIT_BYTES) -> tuple[Gap | Snapshot, ...]:
        """What a viewer gets whose cursor is older than what is kept; `message_bytes` as for `take`."""
        parts = self.take(message_bytes)
        if not parts:
            return ()
        head = parts[0]
        return (Gap(head.v, head.sid, head.epoch, head.seq, head.pts_ms, head.tok, after), *parts)

    def _write(self, text: str) -> None:
        self._text.append(text)
        self._chars += len(text)
        self._bytes += len(text.encode())
        if self._bytes > 2 * TEXT_BYTES:
            kept = "".join(self._text).encode()[-TEXT_BYTES:].decode(errors="ignore")
            self._text, self._bytes = [kept], len(kept.encode())

    def _restore(self, part: Snapshot) -> None:
        if not part.continued:
            self.last, self.seq, self.start = part, part.seq, part.start
            self._text, self._bytes = [part.text], len(part.text.encode())
            self._chars = part.char + len(part.text)
            self._base, self._mark, self._ended = part.base, part.mark, part.ended
            self.shown = list(part.shown)
            self._shown_mark = part.shown[-1].mark if part.shown else -1
            self._previews = set(part.previews)
            self.revealed = {reveal.key for reveal in part.shown}
        for asset in part.assets:
            self.assets[asset.key] = asset


class State(msgspec.Struct, frozen=True):
    """A fold as the journal keeps it, and what a successor needs beside it.

    Args:
        parts: the snapshots.
        settled: of the fold.
        offset: by how many the text pipe's tokens are ahead of the boundaries; None = it cannot be told from there.
    """

    parts: tuple[Snapshot, ...]
    settled: tuple[tuple[int, str], ...] = ()
    offset: int | None = 0

    def encode(self) -> bytes:
        """JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> State:
        """As `encode` wrote it.

        Raises:
            JournalError: it is of another version, or spoilt.
        """
        try:
            return _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise JournalError(f"the snapshot in the journal cannot be read: {error}; drop the session") from error


_decoder = msgspec.json.Decoder(State)


def _part(head: Snapshot, assets: list[AssetReserved], first: bool) -> Snapshot:
    if first:
        return msgspec.structs.replace(head, assets=tuple(assets))
    return Snapshot(head.v, head.sid, head.epoch, head.seq, head.pts_ms, head.tok, assets=tuple(assets), continued=True)
