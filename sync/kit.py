"""Assertions over the log of a tour, for tests: WHICH picture was shown, WHETHER, and WHEN. And `record`.

    which    assert_right_product, assert_order, assert_same_text_as_batch, assert_same_log
    whether  assert_every_cue_settled, assert_all_mentions_shown
    said     assert_only_facts
    when     assert_in_sync, assert_holds_kept, assert_no_spoiler, assert_no_growth

    from multimodal.sync.kit import assert_in_sync

    def test_the_tour_never_drifts(sync_log):
        assert_in_sync(sync_log(text_pipe=..., image_pipe=..., sync_interval=3), preset="strict")

Each raises `DriftError`, an AssertionError, whose message says the verdict in tokens and ms, then the words, the token
and the likely cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from multimodal.errors import DriftError, SyncError
from multimodal.events import AnyEvent, CueMissed, Reveal
from multimodal.sync.claims_said import Guard, fact_faults
from multimodal.sync.context import current
from multimodal.sync.faults import ALSO, Fault, raise_faults
from multimodal.sync.golden import assert_same_log
from multimodal.sync.growth import growth_faults
from multimodal.sync.holds import hold_faults
from multimodal.sync.identity import product_faults
from multimodal.sync.log import SyncLog
from multimodal.sync.rules import cue_faults, mark_faults, sequence_faults, text_faults
from multimodal.sync.showing import mention_faults, order_faults, spoiler_faults
from multimodal.sync.timing import limits_of, marked_limits, pair_faults, refuse_below_uncertainty

if TYPE_CHECKING:
    from multimodal.stream import MultiModalStream

__all__ = [
    "assert_all_mentions_shown",
    "assert_every_cue_settled",
    "assert_holds_kept",
    "assert_in_sync",
    "assert_no_growth",
    "assert_no_spoiler",
    "assert_only_facts",
    "assert_order",
    "assert_right_product",
    "assert_same_log",
    "assert_same_text_as_batch",
    "record",
]

HOLD_TOLERANCE_MS = 100.0
"""How late a timer may fire before a hold has run over: an event loop of a busy machine wakes tens of ms late."""


def assert_in_sync(
    log: SyncLog,
    preset: str | None = None,
    *,
    max_hold: float = 0.25,
    hold_tolerance_ms: float = HOLD_TOLERANCE_MS,
    **overrides: Any,
) -> None:
    """Every picture came with its words: not before them, not too late, and no hold ended early or ran over.

    Time is judged at the last vantage point that the log has for a reveal: painted, else arrived, else emitted. The
    length of a hold is not lateness; `assert_holds_kept` judges it, and is part of this assertion. A picture before its
    anchor, or for other words than planned, fails under every preset.

    Args:
        log: what was recorded.
        preset: ``strict`` (the anchor's own mark, -100/+240 ms), ``default`` (within `sync_interval - 1` tokens,
            -250/+500 ms) or ``relaxed`` (the same sentence, +1000 ms); `multimodal.sync.timing.PRESETS` names their
            sources. None = what the test's ``sync`` marker or pytest's `--sync-preset` says, else ``default``.
        max_hold: seconds, for cues whose own is not in the plan.
        hold_tolerance_ms: how far a hold may overrun its deadline.
        overrides: one or more of `early_ms`, `late_ms`, `max_token_drift`, `min_same_frame_share`, `max_swap_ms`
            (`multimodal.sync.timing.Limits`).

    Raises:
        DriftError: it did not, or no picture came at all.
        UsageError: an unknown preset or override, or a limit in ms that is smaller than what the clocks of the log
            may be off.
    """
    if preset is None:
        preset, marked = current.get().preset, current.get()
        overrides = marked_limits(marked.max_tokens, marked.max_ms) | overrides
    limits = limits_of(preset, overrides)
    refuse_below_uncertainty(log, limits)
    faults = [*pair_faults(log, limits, preset), *hold_faults(log, max_hold, hold_tolerance_ms)]
    if not faults and not log.of(Reveal):
        faults.append(_nothing_shown(log))
    raise_faults(log, faults)


def assert_holds_kept(log: SyncLog, *, max_hold: float = 0.25, hold_tolerance_ms: float = HOLD_TOLERANCE_MS) -> None:
    """No hold ended early (R5), ran over its deadline, or kept text back beyond its end; nothing else waited.

    Args:
        log: what was recorded.
        max_hold: seconds, for cues whose own is not in the plan.
        hold_tolerance_ms: how far a hold may overrun its deadline.

    Raises:
        DriftError: one did.
    """
    raise_faults(log, hold_faults(log, max_hold, hold_tolerance_ms))


def assert_every_cue_settled(log: SyncLog, *, text: str | None = None) -> None:
    """The sequence is whole: rules R1 to R4b, R6 and R7 of the contract, as far as a log can show them.

    Each declared cue has exactly one outcome and each preview exactly one swap; marks stand where they belong, each
    once; text is in order; `seq` has no gap, `pts_ms` never falls, nothing follows the end. Where arrivals are
    recorded, every event arrived, once and in order.

    Args:
        log: what was recorded. Without a plan, cues without outcome are noticed by their numbers and by what the
            marks announce.
        text: the narration that was given to the stream; None = not compared.

    Raises:
        DriftError: a rule was broken.
    """
    sequence = list(sequence_faults(log))
    raise_faults(log, [*sequence, *text_faults(log, text), *mark_faults(log), *cue_faults(log)])


def assert_right_product(
    log: SyncLog,
    expected: Mapping[int, str] | None = None,
    *,
    anchors: Mapping[int, str] | None = None,
    words: bool = True,
) -> None:
    """Every picture shows the product that its words are about.

    The reveal is compared with the plan, with what the stream said of the picture, with what the test expects, and
    with the words: a product's title or alias that ends at the anchor must be that of the picture's product; so must,
    for a cue whose product no plan vouches for, one of those named in its sentence.

    Args:
        log: what was recorded.
        expected: the picture's key by the cue's number.
        anchors: the picture's key by the anchor, each of which needs a reveal.
        words: False = do not compare with the words.

    Raises:
        DriftError: a picture of another product, or another picture than planned or expected.
    """
    raise_faults(log, product_faults(log, expected or {}, anchors or {}, words))


def assert_all_mentions_shown(log: SyncLog, names: Mapping[str, str | Sequence[str]] | None = None) -> None:
    """Every product that the narration names was shown, at one place or another; a preview alone does not count.

    Args:
        log: what was recorded.
        names: whom to look for, by the product's id or its picture's key: a name, or several; None = all products
            that the stream told of, by title and alias. Case is ignored; at one place the longest name counts.

    Raises:
        DriftError: one was named and never shown.
    """
    raise_faults(log, mention_faults(log, names))


def assert_no_spoiler(log: SyncLog) -> None:
    """No picture was emitted, or arrived, before the last of its words, whatever the preset.

    A receipt tells up to where a frame applied everything, so what was emitted in order cannot be painted out of it.

    Raises:
        DriftError: one was.
    """
    raise_faults(log, spoiler_faults(log))


def assert_no_growth(log: SyncLog, *, confidence: float = 0.999) -> None:
    """Pictures and words do not drift apart: at no vantage point does the slope of skew leave its own noise.

    Args:
        log: what was recorded; 8 reveals behind words at least.
        confidence: 1 - the share of tours without growth that fail all the same; `multimodal.sync.growth` names the
            test and its source.

    Raises:
        DriftError: the skew grows, or shrinks, by more than its noise explains.
        UsageError: too few reveals to judge.
    """
    raise_faults(log, growth_faults(log, confidence))


def assert_same_text_as_batch(log: SyncLog, text: str) -> None:
    """Streamed token by token, the narration is to the letter what the generator gives at once.

    Args:
        log: what was recorded.
        text: the same narration, generated in one piece (greedy, or with the same seed).

    Raises:
        DriftError: it is not, or its tokens came out of order.
    """
    raise_faults(log, text_faults(log, text))


def assert_order(log: SyncLog, keys: Sequence[str]) -> None:
    """The pictures shown are these, in this order, previews included, and no others.

    Raises:
        DriftError: they are not.
    """
    raise_faults(log, order_faults(log, keys))


def assert_only_facts(said: SyncLog | str, guard: Guard) -> None:
    """The narration claims nothing of a product that the catalogue does not hold.

    Args:
        said: what was recorded, or a narration as text.
        guard: judges it: a `multimodal.pipes.guard.FactGuard`, or anything with such a `violations(text)`.

    Raises:
        DriftError: it does; with each claim's words, and for a log the token at which they begin.
    """
    if isinstance(said, SyncLog):
        raise_faults(said, fact_faults(said, guard))
    elif found := [str(each) for each in guard.violations(said)]:
        more = f"\n  also      {len(found) - 1 - ALSO} more" if len(found) - 1 > ALSO else ""
        raise DriftError("\n  also      ".join(found[: 1 + ALSO]) + more)


async def record(stream: MultiModalStream, *, limit: float = 60.0) -> SyncLog:
    """Drive a stream in process to its end, and give back what it emitted and its plan.

    Args:
        stream: not yet entered; it is closed at the end. Cancelling closes it too.
        limit: seconds that it may take.

    Raises:
        SyncError: it did not end within `limit`.
        PipeError: a pipe failed.
    """
    events: list[AnyEvent] = []
    scope = asyncio.timeout(limit)
    try:
        async with scope, stream:
            async for bundle in stream.bundles():
                events.extend(bundle)
    except TimeoutError as error:
        if not scope.expired():
            raise
        last = f"seq {events[-1].seq} at token {events[-1].tok}" if events else "nothing"
        raise SyncError(
            f"the tour did not end within limit={limit:g} s; the last event was {last}, waiting for the next one."
            " Look for a text or image pipe that hangs, or give a higher limit"
        ) from error
    return SyncLog(tuple(events), plan=stream.plan)


def _nothing_shown(log: SyncLog) -> Fault:
    missed = [event.reason for event in log.of(CueMissed)]
    why = f"{len(missed)} cues were missed: {', '.join(sorted(set(missed)))}" if missed else "the log has no cue"
    return Fault("no picture came, so nothing was in sync", "fetch" if missed else "anchor", why, 0)
