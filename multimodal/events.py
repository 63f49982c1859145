"""Every event a stream can emit: frozen structs, tagged by `kind`, version 1.

The order of one reveal is: `asset` (reserve the slot) -> bytes -> the viewer's `ready` -> `reveal` -> `painted`.
What is emitted at one instant is ONE bundle: one wire message, painted in one animation frame.
"""

from __future__ import annotations

import msgspec

from multimodal.values import Variant

__all__ = [
    "VERSION",
    "AnyEvent",
    "AssetReserved",
    "CueMissed",
    "ErrorRaised",
    "Event",
    "Gap",
    "Interrupted",
    "ProductBrief",
    "Reveal",
    "Snapshot",
    "StreamEnd",
    "StreamStart",
    "Swap",
    "SyncMark",
    "Text",
]

VERSION = 1


class Event(msgspec.Struct, frozen=True, tag_field="kind"):
    """What every event carries.

    Args:
        v: major version of the format.
        sid: the stream's id.
        epoch: rises by one with every interruption.
        seq: place in the stream: 0, 1, 2, ... without a gap (R7).
        pts_ms: milliseconds since the first item was fed, never falling (R7).
        tok: the token boundary after this event: how many tokens have been emitted.
    """

    v: int
    sid: str
    epoch: int
    seq: int
    pts_ms: float
    tok: int

    @property
    def kind(self) -> str:
        """The tag by which the event is known on the wire."""
        tag = self.__struct_config__.tag
        assert isinstance(tag, str)
        return tag

    def __str__(self) -> str:
        """One short line for people: when, what, and the event's own fields that say something."""
        names, defaults = self.__struct_fields__, self.__struct_defaults__
        usual = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        own = []
        for name in names[len(Event.__struct_fields__) :]:
            value = getattr(self, name)
            if name not in usual or value != usual[name]:
                shown = repr(value)
                own.append(f"{name}={shown if len(shown) <= 48 else shown[:45] + '...'}")
        return f"{self.pts_ms / 1000:7.3f} s  {self.kind:<6} {' '.join(own)}".rstrip()


class ProductBrief(msgspec.Struct, frozen=True):
    """What a viewer needs to know of a product; `price` is exact decimal text ("" = not given)."""

    id: str
    title: str
    aliases: tuple[str, ...] = ()
    price: str = ""
    currency: str = ""
    url: str = ""


class StreamStart(Event, frozen=True, tag="start"):
    """The first event of a stream; `token_unit` says what one token is (word, delta, token), `min_dwell` is R10's.

    `narrator` says who speaks, as far as the text pipe says so ("" = it does not).
    """

    sync_interval: int
    products: tuple[ProductBrief, ...] = ()
    formats: tuple[str, ...] = ()
    token_unit: str = "token"
    late: str = "placeholder"
    min_dwell: float = 0.0
    narrator: str = ""


class Text(Event, frozen=True, tag="text"):
    """One token, or a run of tokens of one lane released together; never reaches over a mark (R1).

    `lane` is ``low`` for filler words.
    """

    token_index: int
    token_count: int
    text: str
    lane: str = "main"


class SyncMark(Event, frozen=True, tag="sync"):
    """A sync mark: `mark` is its token boundary, `char` the code points before it, `pending` the cues due on it."""

    mark: int
    char: int
    pending: int = 0


class AssetReserved(Event, frozen=True, tag="asset"):
    """A picture to come: reserve its slot. Fields as in `multimodal.values.Asset`."""

    key: str
    product: str = ""
    width_px: int = 0
    height_px: int = 0
    alt: str = ""
    placeholder: str = ""
    variants: tuple[Variant, ...] = ()
    color: str = ""


class Reveal(Event, frozen=True, tag="reveal"):
    """Show this picture now, with the words before `mark`.

    Args:
        cue: the cue's number, in the order of declaration.
        key: the picture.
        product: id of the product the picture shows.
        anchor: the boundary the cue belongs to.
        mark: the sync mark it came out on; `mark - anchor` is its token drift.
        preview: True = only the tiny preview is there; exactly one `swap` follows (R4b).
        declared_late: True = the cue was declared after its own mark had passed (R3).
        deferred: True = the picture before it had not been seen long enough yet (R10).
    """

    cue: int
    key: str
    product: str
    anchor: int
    mark: int
    preview: bool = False
    declared_late: bool = False
    deferred: bool = False


class Swap(Event, frozen=True, tag="swap"):
    """The picture behind a preview arrived (`ok`), or will not (`reason`); the current picture stays the same (R4b)."""

    cue: int
    key: str
    ok: bool
    reason: str = ""


class CueMissed(Event, frozen=True, tag="missed"):
    """A cue that is not shown, and why: late, beyond_end, too_late, interrupted, or the picture's own failure (R3).

    `product` is the product that the words are about ("" = not known).
    """

    cue: int
    key: str
    anchor: int
    reason: str
    product: str = ""


class Interrupted(Event, frozen=True, tag="interrupt"):
    """The epoch rose (`epoch` is the new one): nothing of an older epoch follows (R9).

    `resumed`: nobody stopped it; its server was killed, and another goes on with the same turn.
    """

    resumed: bool = False


class StreamEnd(Event, frozen=True, tag="end"):
    """The last event (R6): `reason` is complete or error; `unused` lists pictures that no cue named."""

    reason: str = "complete"
    unused: tuple[str, ...] = ()


class ErrorRaised(Event, frozen=True, tag="error"):
    """Something failed that the viewer should know of; `code` is for programs, `message` for people."""

    code: str
    message: str


class Gap(Event, frozen=True, tag="gap"):
    """To one viewer: what followed its `after` is no longer kept, up to `seq`; a snapshot comes next, never silence.

    It has no place of its own in the stream: `seq` is that of the last event it stands for.
    """

    after: int


class Snapshot(Event, frozen=True, tag="snapshot"):
    """To one viewer: the stream as it stands after `seq`, for who joins late, or fell behind what is kept.

    It has no place of its own in the stream; the next event is `seq` + 1. What is larger than a message comes as
    several snapshots of one `seq`, of which all but the first are `continued`.

    Args:
        start: the stream's first event.
        text: the end of the narration so far, as much of it as is kept.
        char: code points of the narration before `text`.
        base: the boundary at which the present epoch began (R9).
        mark: the last sync mark (-1 = none).
        assets: the pictures that are shown, or may still be: those of `shown`, of open previews, and those to come.
        shown: the reveals of the last mark that had any, in order; nothing after an interruption.
        previews: the cues of reveals whose `swap` is still to come (R4b).
        ended: why the stream has ended ("" = it goes on).
        continued: it goes on with the snapshot before it: only `assets` are new.
    """

    start: StreamStart | None = None
    text: str = ""
    char: int = 0
    base: int = 0
    mark: int = -1
    assets: tuple[AssetReserved, ...] = ()
    shown: tuple[Reveal, ...] = ()
    previews: tuple[int, ...] = ()
    ended: str = ""
    continued: bool = False


AnyEvent = (
    StreamStart
    | Text
    | SyncMark
    | AssetReserved
    | Reveal
    | Swap
    | CueMissed
    | Interrupted
    | StreamEnd
    | ErrorRaised
    | Gap
    | Snapshot
)
