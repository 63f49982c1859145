"""Everything that the kit holds against a recording, in one list: what `multimodal check` and the timeline tell."""

from __future__ import annotations

from multimodal.errors import UsageError
from multimodal.events import CueMissed, Reveal
from multimodal.sync.faults import Fault
from multimodal.sync.holds import hold_faults
from multimodal.sync.identity import product_faults
from multimodal.sync.kit import HOLD_TOLERANCE_MS
from multimodal.sync.log import SyncLog
from multimodal.sync.rules import cue_faults, mark_faults, sequence_faults, text_faults
from multimodal.sync.timing import PRESETS, pair_faults

__all__ = ["MAX_HOLD", "faults_of"]

MAX_HOLD = 0.25
"""Seconds that a hold waits where the recording's plan does not say: the stream's own default."""


def faults_of(log: SyncLog, preset: str = "default") -> list[Fault]:
    """The faults of `assert_every_cue_settled`, `assert_right_product` and `assert_in_sync`, in this order.

    Args:
        log: what was recorded.
        preset: ``strict``, ``default`` or ``relaxed``.

    Raises:
        UsageError: an unknown preset.
    """
    if preset not in PRESETS:
        raise UsageError(f"preset {preset!r} is unknown; use one of {', '.join(PRESETS)}")
    faults = [*sequence_faults(log), *text_faults(log), *mark_faults(log), *cue_faults(log)]
    faults += product_faults(log, {}, {}, True)
    faults += pair_faults(log, PRESETS[preset], preset)
    faults += hold_faults(log, MAX_HOLD, HOLD_TOLERANCE_MS)
    if not faults and not log.of(Reveal):
        missed = sorted({event.reason for event in log.of(CueMissed)})
        why = f"every cue was missed: {', '.join(missed)}" if missed else "the recording has no cue"
        faults.append(Fault("no picture came, so nothing was in sync", "fetch" if missed else "anchor", why, 0))
    return faults
