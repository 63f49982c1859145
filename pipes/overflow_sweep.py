"""What ways out of an overflow would lose: the outbox beside "clear all" and "drop the oldest tenth". Pure."""

from __future__ import annotations

import random

import msgspec

from multimodal.pipes.overflow import Outbox
from multimodal.pipes.overflow_items import Fixed, Item, Sheddable, TextItem

__all__ = ["STRATEGIES", "Lost", "clear_all", "drop_oldest", "simulate"]

STRATEGIES = ("outbox", "clear all", "drop oldest")


def clear_all(waiting: list[Item]) -> list[Item]:
    """Foolish: empty the queue; gives what is lost."""
    lost = waiting[:]
    waiting.clear()
    return lost


def drop_oldest(waiting: list[Item], share: float = 0.1) -> list[Item]:
    """Foolish: drop that share, whatever it is; gives what is lost, which of fewer than ten is nothing."""
    count = int(len(waiting) * share)
    lost = waiting[:count]
    del waiting[:count]
    return lost


class Lost(msgspec.Struct, frozen=True):
    """What came of one session.

    Args:
        aborted: the queue overflowed for ever: dropping made no room.
        text_equal: the consumer has the whole text.
        tokens_lost, fixed_lost, shed: tokens of text, marks and cues, and previews that never came.
        peak_bytes: the most that waited.
        seconds: until the consumer had everything.
    """

    aborted: bool
    text_equal: bool
    tokens_lost: int
    fixed_lost: int
    shed: int
    peak_bytes: int
    seconds: float


def simulate(
    strategy: str, *, tokens: int = 400, limit_bytes: int = 16 * 1024, speed: float = 0.5, seed: int = 0
) -> Lost:
    """One session: a token each 20 ms, a preview of 200 to 3,000 bytes with each third and a cue with each tenth.

    Args:
        strategy: one of `STRATEGIES`.
        tokens: of the narration.
        limit_bytes: of the queue; the foolish ones act where the outbox does, at 3/4 of it.
        speed: of the consumer in bytes, as a share of the producer's.
        seed: of the words and sizes.
    """
    draw = random.Random(seed)
    plan = _narration(draw, tokens)
    text = "".join(item.text for items in plan for item in items if isinstance(item, TextItem))
    rate = speed * sum(item.size_bytes for items in plan for item in items) / (0.02 * tokens)
    box = Outbox(limit_bytes)
    waiting: list[Item] = []
    arrived: list[Item] = []
    now = busy = 0.0
    made = peak = 0
    aborted = False
    while (made < tokens or (len(box) or waiting)) and not aborted:
        now += 0.02
        if made < tokens and not box.full:
            for item in plan[made]:
                if strategy == "outbox":
                    box.put(item, now)
                    continue
                waiting.append(item)
                while not aborted and sum(each.size_bytes for each in waiting) > box.high_bytes:
                    aborted = not (clear_all if strategy == "clear all" else drop_oldest)(waiting)
            made += 1
        peak = max(peak, box.peak_bytes, sum(each.size_bytes for each in waiting))
        while busy <= now and (len(box) or waiting):
            taken = box.take() if strategy == "outbox" else waiting.pop(0)
            if taken is not None:
                arrived.append(taken)
                busy = max(busy, now - 0.02) + taken.size_bytes / rate
    came = [item for item in arrived if isinstance(item, TextItem)]
    return Lost(
        aborted=aborted,
        text_equal="".join(item.text for item in came) == text,
        tokens_lost=tokens - sum(item.token_count for item in came),
        fixed_lost=tokens // 10 - sum(isinstance(item, Fixed) for item in arrived),
        shed=(tokens + 2) // 3 - sum(isinstance(item, Sheddable) for item in arrived),
        peak_bytes=peak,
        seconds=max(now, busy),
    )


def _narration(draw: random.Random, tokens: int) -> list[list[TextItem | Fixed | Sheddable]]:
    plan: list[list[TextItem | Fixed | Sheddable]] = []
    for index in range(tokens):
        items: list[TextItem | Fixed | Sheddable] = [TextItem("w" * draw.randint(1, 9) + " ", index)]
        if index % 3 == 0:
            items.append(Sheddable(f"preview {index}", draw.randint(200, 3000)))
        if index % 10 == 9:
            items.append(Fixed(f"cue {index}", 40))
        plan.append(items)
    return plan
