"""The recording of one tour: what was emitted, what arrived, what was painted, and what had been planned.

As a file it is JSON lines, and every line says where it was seen (`vantage`):

    {"vantage":"planned","cue":0,"anchor":4,"key":"kettle-1",...}       a cue as declared; `cue` is its number
    {"vantage":"emitted","event":{...}}                                 an event, as in a bundle
    {"vantage":"arrived","t_ms":12.5,"seq":7}                           an event reached the viewer
    {"vantage":"painted","t_ms":16.7,"frame":3,"seq":9,"visible":true}  a frame; `seq` = the last one applied
    {"vantage":"ready","t_ms":8.1,"key":"kettle-1","ok":true}           the viewer has decoded a picture, or cannot
    {"vantage":"clock","sent_ms":1,"viewer_ms":7.2,"heard_ms":3}        a ping of the server and its answer

Lines of one vantage stand in the order in which things happened; vantages may be mixed. Fields and vantages
that this version does not know are skipped.

Two clocks. The server's counts in `pts_ms`: events, `ready` (when the viewer's word came), `sent_ms` and `heard_ms`.
The viewer's: `painted`, `viewer_ms`, and `arrived`, unless that says `"clock":"server"`: then it is when the viewer's
acknowledgement came, up to `ACK_MS` and the way back later. `SyncLog.base` puts the viewer's times on the other clock.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import TypeVar

import msgspec

from multimodal.errors import RemoteProtocolError, UsageError
from multimodal.events import (
    VERSION,
    AnyEvent,
    AssetReserved,
    CueMissed,
    Reveal,
    StreamEnd,
    StreamStart,
    Swap,
    SyncMark,
    Text,
)
from multimodal.sync.clocks import ClockSample, TimeBase
from multimodal.sync.lines import ACK_MS, Arrived, Painted, Planned, Ready, Receipt, decode_line, record_line
from multimodal.values import Cue

__all__ = ["ACK_MS", "Arrived", "Painted", "Ready", "Receipt", "SyncLog", "record_line"]

E = TypeVar("E")
K = TypeVar("K")
_WORD = re.compile(r"\s*(?:[⺀-\uffef]|[^\s⺀-\uffef]+)")
"""A word with the space before it; in scripts without spaces, a character."""


class SyncLog(msgspec.Struct, frozen=True, dict=True):
    """One tour, as seen from up to three vantage points.

    Args:
        events: what was emitted, in order.
        arrived: what reached the viewer, in the order in which it did.
        painted: the viewer's frames, in order.
        plan: the cues as declared, by number, with `late` and `max_hold` filled in; None = not known.
        ready: the viewer's words about its pictures, in order.
        pings: the server's pings that were answered, in order.
        skipped: `seq` of emitted events of a kind that this version does not know.
        truncated: what was lost where a recording breaks off in its last line; "" = nothing.
        source: the file it was read from; "" = none.
    """

    events: tuple[AnyEvent, ...]
    arrived: tuple[Arrived, ...] = ()
    painted: tuple[Painted, ...] = ()
    plan: Mapping[int, Cue] | None = None
    skipped: tuple[int, ...] = ()
    truncated: str = ""
    source: str = ""
    ready: tuple[Ready, ...] = ()
    pings: tuple[ClockSample, ...] = ()

    def __repr__(self) -> str:
        counts = f"{len(self.events)} events, {len(self.arrived)} arrived, {len(self.painted)} painted"
        return f"<SyncLog {counts}{f', {self.source}' if self.source else ''}>"

    # ---- the file ---------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | PathLike[str]) -> SyncLog:
        """Read a recording. A last line that breaks off (the recorder was killed) is reported in `truncated`.

        Raises:
            UsageError: no such file, an empty one, or a broken line; the message names file and line.
        """
        try:
            lines = Path(path).read_bytes().split(b"\n")
        except OSError as error:
            raise UsageError(f"cannot read the recording {path}: {error.strerror}") from error
        events: list[AnyEvent] = []
        receipts: list[Receipt] = []
        plan: dict[int, Cue] = {}
        skipped: list[int] = []
        truncated = ""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                item = decode_line(line)
            except (msgspec.DecodeError, RemoteProtocolError, UsageError, UnicodeDecodeError) as error:
                # Every whole line ends in a newline, so only the piece after the last one may be cut short.
                if number == len(lines):
                    truncated = f"line {number} breaks off after {len(line)} bytes and was left out"
                    break
                raise UsageError(f"{path}, line {number}: not a line of a recording: {error}") from error
            if isinstance(item, Receipt):
                receipts.append(item)
            elif isinstance(item, Planned):
                plan[item.cue] = Cue(item.anchor, item.key, item.late, item.max_hold, item.product)
            elif isinstance(item, int):
                skipped.append(item)
            elif item is not None:
                events.append(item)
        if not (events or receipts or plan):
            raise UsageError(f"the recording {path} holds no tour; record one: multimodal tour --check --record FILE")
        return cls(
            tuple(events),
            tuple(item for item in receipts if isinstance(item, Arrived)),
            tuple(item for item in receipts if isinstance(item, Painted)),
            plan or None,
            tuple(skipped),
            truncated,
            str(path),
            tuple(item for item in receipts if isinstance(item, Ready)),
            tuple(item for item in receipts if isinstance(item, ClockSample)),
        )

    def lines(self) -> Iterator[bytes]:
        """The recording as lines: the plan, then each vantage in turn."""
        for number, cue in (self.plan or {}).items():
            fields = {name: getattr(cue, name) for name in cue.__struct_fields__}
            yield msgspec.json.encode(Planned(cue=number, **fields)) + b"\n"
        for item in (*self.events, *self.arrived, *self.painted, *self.ready, *self.pings):
            yield record_line(item)
        for seq in self.skipped:
            # What it was is lost, that it was must not be: its `seq` would count as missing.
            yield (
                msgspec.json.encode({"vantage": "emitted", "event": {"kind": "skipped", "v": VERSION, "seq": seq}})
                + b"\n"
            )

    def write(self, path: str | PathLike[str]) -> None:
        """Write the recording as JSON lines, in place of what was there.

        Raises:
            UsageError: the file cannot be written.
        """
        try:
            with Path(path).open("wb") as file:
                file.writelines(self.lines())
        except OSError as error:
            raise UsageError(f"cannot write the recording {path}: {error.strerror}") from error

    # ---- views of what was emitted -------------------------------------------------------------------------

    def of(self, kind: type[E]) -> tuple[E, ...]:
        """The events of one kind, in order."""
        return tuple(event for event in self.events if isinstance(event, kind))

    @cached_property
    def start(self) -> StreamStart | None:
        """The first event of a stream, or None where the log lacks it."""
        return next(iter(self.of(StreamStart)), None)

    @cached_property
    def end(self) -> StreamEnd | None:
        """The last event of a stream, or None where the log lacks it."""
        return next(iter(self.of(StreamEnd)), None)

    @cached_property
    def texts(self) -> tuple[Text, ...]:
        """The text events, in the order in which they were emitted."""
        return self.of(Text)

    @cached_property
    def text(self) -> str:
        """The narration: all text, in the order in which it was emitted."""
        return "".join(text.text for text in self.texts)

    @cached_property
    def marks(self) -> dict[int, SyncMark]:
        """The sync marks by their boundary (the first one, should it stand twice)."""
        marks: dict[int, SyncMark] = {}
        for mark in self.of(SyncMark):
            marks.setdefault(mark.mark, mark)
        return marks

    @cached_property
    def _marks(self) -> dict[tuple[int, int], SyncMark]:
        marks: dict[tuple[int, int], SyncMark] = {}
        for mark in self.of(SyncMark):
            marks.setdefault((mark.epoch, mark.mark), mark)
        return marks

    def mark_of(self, reveal: Reveal) -> SyncMark | None:
        """The mark that a reveal names, of its own epoch: behind an interruption a boundary may have another one."""
        return self._marks.get((reveal.epoch, reveal.mark))

    @cached_property
    def assets(self) -> dict[str, tuple[AssetReserved, ...]]:
        """What was told of each picture, by key, in order: first its slot, then its bytes."""
        return _grouped((asset.key, asset) for asset in self.of(AssetReserved))

    @cached_property
    def outcomes(self) -> dict[int, tuple[Reveal | CueMissed, ...]]:
        """What became of each cue, by its number; R3 allows exactly one outcome."""
        both = (event for event in self.events if isinstance(event, Reveal | CueMissed))
        return _grouped((event.cue, event) for event in both)

    @cached_property
    def swaps(self) -> dict[int, tuple[Swap, ...]]:
        """The swaps of each cue, by its number; R4b allows one for a preview, none otherwise."""
        return _grouped((swap.cue, swap) for swap in self.of(Swap))

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """After each text event: how many tokens, and how many characters, have been emitted."""
        tokens = list(accumulate(text.token_count for text in self.texts))
        return tokens, list(accumulate(len(text.text) for text in self.texts))

    @property
    def tokens(self) -> int:
        """How many tokens were emitted."""
        return self._ends[0][-1] if self.texts else 0

    def words_before(self, boundary: int) -> Text | None:
        """The last text event that ends at or before a token boundary; None where no word stands before it.

        A token without characters counts: the boundary after it is the one a picture belongs to.
        """
        place = bisect_right(self._ends[0], boundary)
        return self.texts[place - 1] if place else None

    def char_at(self, boundary: int) -> int:
        """How many characters stand before a token boundary.

        Inside a run of tokens released together the log does not say; there it is the start of the run's
        word of that number where the run has as many words as tokens, else the start of the run.
        """
        tokens, chars = self._ends
        place = bisect_right(tokens, boundary)
        char = chars[place - 1] if place else 0
        inside = boundary - (tokens[place - 1] if place else 0)
        if inside and place < len(self.texts):
            run = self.texts[place]
            words = re.findall(r"\s*\S+\s*$|\s*\S+", run.text)
            if len(words) == run.token_count:
                char += sum(map(len, words[:inside]))
        return char

    def words_around(self, boundary: int, words: int = 3) -> str:
        """The words on both sides of a token boundary: ``…the Halo Kettle| boils a litre…``."""
        char, reach = self.char_at(boundary), 24 * words
        # The space behind a word goes with the next one, so that the bar touches the word it follows.
        char -= len(self.text[:char]) - len(self.text[:char].rstrip())
        before = _WORD.findall(self.text[max(0, char - reach) : char])
        after = _WORD.findall(self.text[char : char + reach])
        left, right = "".join(before[-words:]), "".join(after[:words])
        head = "…" if char > len(left) else ""
        tail = "…" if len(self.text.rstrip()) > char + len(right) else ""
        return f"{head}{left.lstrip() if head else left}|{right}{tail}"

    # ---- views of what the viewer said ---------------------------------------------------------------------

    @cached_property
    def arrival(self) -> dict[int, float]:
        """When each `seq` first arrived, in milliseconds on the clock that its line names."""
        return {item.seq: item.t_ms for item in reversed(self.arrived)}

    @cached_property
    def acked(self) -> bool:
        """Arrivals are told by acknowledgements: on the server's clock, and only as fine as those come."""
        return any(item.clock == "server" for item in self.arrived)

    @cached_property
    def base(self) -> TimeBase:
        """What puts the viewer's times on the stream's own time base, `pts_ms`."""
        pts = {event.seq: event.pts_ms for event in self.events}
        seen = self.arrival.items() if not self.acked else ()
        return TimeBase(self.pings, ((pts[seq], at) for seq, at in seen if seq in pts))

    @cached_property
    def _reached(self) -> list[int]:
        return list(accumulate((receipt.seq for receipt in self.painted), max))

    def frame_of(self, seq: int) -> Painted | None:
        """The frame that applied an event: the first whose receipt reaches its `seq`; None = none does."""
        place = bisect_left(self._reached, seq)
        return self.painted[place] if place < len(self.painted) else None


def _grouped(pairs: Iterator[tuple[K, E]]) -> dict[K, tuple[E, ...]]:
    groups: dict[K, list[E]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}
