"""Recorded tours for the tests of the kit: good logs out of the real aligner, and hands to damage them with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from multimodal.events import AnyEvent, ProductBrief, Text
from multimodal.sync.aligner import Aligner
from multimodal.sync.log import Arrived, Painted, SyncLog
from multimodal.values import Cue, LatePolicy
from tests.sync import driving

PRODUCTS = (
    ProductBrief("kettle", "Halo Kettle", ("Halo",)),
    ProductBrief("mug", "Moss Mug"),
    ProductBrief("lamp", "Ember Lamp", ("Ember",)),
    ProductBrief("mini", "Halo Kettle Mini"),
)
WORDS = (
    "Meet the Halo Kettle, which boils a litre in ninety seconds. "
    "Beside it stands the Moss Mug, glazed by hand. "
    "And the Ember Lamp glows warm all evening long."
)
TOKENS = [f"{word} " for word in WORDS.split()]
ANCHORS = {"kettle": 4, "mug": 17, "lamp": 24}
"""Each product's cue stands at the end of its name."""
STEP = 0.05
FRAME_MS = 1000 / 60


def cues(late: LatePolicy | None = None) -> list[Cue]:
    return [Cue(anchor, f"{product}-1", late, None, product) for product, anchor in ANCHORS.items()]


def _declare(cue: Cue) -> driving.Feed:
    return lambda aligner, now: aligner.feed_cue(cue, now)


def _picture(key: str) -> driving.Feed:
    return lambda aligner, now: aligner.feed_image(driving.image(key, key.split("-")[0]), now)


def tour(
    sync_interval: int = 3,
    late: LatePolicy = "placeholder",
    *,
    ready: dict[str, float] | None = None,
    declared: Sequence[Cue] | None = None,
    tokens: Sequence[str] = TOKENS,
    viewer: bool = True,
) -> SyncLog:
    """A tour without fault: a token every `STEP` s; `ready` = seconds at which a picture comes, others are there.

    With a viewer, every bundle arrives 20 ms after its emission and is painted in the next animation frame.
    """
    aligner = Aligner(sync_interval, late=late, sid="tour", products=PRODUCTS, token_unit="word")
    plan = cues() if declared is None else declared
    schedule: list[tuple[float, int, driving.Feed]] = [(0.0, driving.FIRST, _declare(cue)) for cue in plan]
    schedule += [(number * STEP, driving.TOKENS, driving.token(text)) for number, text in enumerate(tokens)]
    schedule.append(((len(tokens) - 1) * STEP, driving.TOKENS, driving.eof))
    for key in dict.fromkeys(cue.key for cue in plan):
        at = (ready or {}).get(key, 0.0)
        schedule.append((at, driving.FIRST if at == 0 else driving.PICTURES, _picture(key)))
    log = SyncLog(tuple(driving.drive(aligner, schedule)), plan=aligner.plan)
    assert aligner.ended
    return watched(log) if viewer else log


def watched(log: SyncLog, delay_ms: Callable[[AnyEvent], float] = lambda event: 20.0) -> SyncLog:
    """The same tour as a viewer saw it: it arrives after a delay, and is painted in the next frame."""
    arrived = [Arrived(event.pts_ms + delay_ms(event), event.seq) for event in log.events]
    frames: dict[int, int] = {}
    reached = 0.0
    for item in arrived:
        # The events channel keeps order, so nothing is applied before what was sent before it.
        reached = max(reached, item.t_ms)
        frames[int(reached / FRAME_MS) + 1] = item.seq
    painted = [Painted(frame * FRAME_MS, frame, seq) for frame, seq in frames.items()]
    return msgspec.structs.replace(log, arrived=tuple(arrived), painted=tuple(painted))


def index(log: SyncLog, kind: type[AnyEvent], number: int = 0) -> int:
    """Where the `number`-th event of a kind stands."""
    return [place for place, event in enumerate(log.events) if isinstance(event, kind)][number]


def changed(log: SyncLog, place: int, **fields: Any) -> SyncLog:
    """One event with other values."""
    events = list(log.events)
    events[place] = msgspec.structs.replace(events[place], **fields)
    return emitted(log, events)


def emitted(log: SyncLog, events: Sequence[AnyEvent]) -> SyncLog:
    """Other events in the same log; what the viewer saw stays as it was."""
    return msgspec.structs.replace(log, events=tuple(events))


def renumbered(log: SyncLog, events: Sequence[AnyEvent]) -> SyncLog:
    """Other events, with `seq`, `tok` and `pts_ms` as a stream that emitted them so would have given them."""
    fresh: list[AnyEvent] = []
    count, pts_ms = 0, 0.0
    for seq, event in enumerate(events):
        count += event.token_count if isinstance(event, Text) else 0
        pts_ms = max(pts_ms, event.pts_ms)
        fresh.append(msgspec.structs.replace(event, seq=seq, tok=count, pts_ms=pts_ms))
    return watched(emitted(log, fresh)) if log.painted else emitted(log, fresh)


def moved(log: SyncLog, place: int, to: int) -> SyncLog:
    """One event at another place, in a log that is otherwise consistent."""
    events = list(log.events)
    events.insert(to, events.pop(place))
    return renumbered(log, events)
