"""A picture whose frame applied a later mark's picture too never was on the glass; receipts must not claim it was."""

from __future__ import annotations

import json

from multimodal.events import Reveal
from multimodal.glass import claims
from multimodal.sync.aligner import Aligner
from multimodal.sync.drift import drift_report, pairs
from multimodal.sync.live import LiveDrift
from multimodal.sync.log import Painted, SyncLog
from multimodal.wire import encode_event
from tests.sync.driving import FIRST, cue, drive, picture
from tests.sync.test_aligner import tokens

CUES = {"A": 1, "B": 2, "C": 2, "D": 4}
FEEDS = [feed for key, at in CUES.items() for feed in (cue(at, key), picture(key))]
EVENTS = drive(Aligner(1), [*((0.0, FIRST, feed) for feed in FEEDS), *tokens(5)])


def seq_of(key: str) -> int:
    return next(event.seq for event in EVENTS if isinstance(event, Reveal) and event.key == key)


def test_what_one_frame_overtakes_is_counted_apart() -> None:
    # One frame applies A, B and C; the next, D.
    receipts = (Painted(10.0, 1, seq_of("C")), Painted(26.0, 2, EVENTS[-1].seq))
    log = SyncLog(tuple(EVENTS), painted=receipts)
    assert {pair.reveal.key: pair.apart for pair in pairs(log)} == {"A": "overtaken", "B": "", "C": "", "D": ""}
    report = drift_report(log)
    assert (report.judged, report.same_frame_share, report.apart) == (3, 1.0, {"overtaken": 1})


def test_live_drift_and_the_receipts_claims_agree() -> None:
    live = LiveDrift()
    for event in EVENTS:
        live.emitted(event)
    samples = live.painted(Painted(10.0, 1, seq_of("C")))
    assert {sample.key: (sample.apart, sample.same_frame) for sample in samples} == {
        "A": ("overtaken", None),
        "B": ("", True),
        "C": ("", True),
    }
    lines = [{"vantage": "arrived", "event": json.loads(encode_event(event))} for event in EVENTS]
    lines += [{"vantage": "painted", "frame": 1, "seq": seq_of("C")}, {"vantage": "painted", "frame": 2, "seq": 99}]
    cues = {event.cue: event.key for event in EVENTS if isinstance(event, Reveal)}
    assert {cues[cue]: claim for cue, claim in claims(lines).items()} == {"A": False, "B": True, "C": True, "D": True}
