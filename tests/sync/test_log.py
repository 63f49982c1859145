"""A recording survives the file, says what is broken in it, and shows the words around a boundary."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.events import Reveal, Text
from multimodal.sync.clocks import ClockSample
from multimodal.sync.log import Arrived, Painted, Ready, SyncLog, record_line
from multimodal.values import Cue
from tests.sync.tours import TOKENS, WORDS, cues, tour

LOG = tour()


def test_a_recording_reads_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "tour.jsonl"
    LOG.write(file)
    again = SyncLog.read(file)
    assert again.source == str(file)
    assert msgspec.structs.replace(again, source="") == LOG


def test_lines_of_all_vantages_may_be_mixed_and_keep_their_own_order(tmp_path: Path) -> None:
    file = tmp_path / "tour.jsonl"
    file.write_bytes(b"".join(reversed(list(LOG.lines()))))
    again = SyncLog.read(file)
    assert again.events == LOG.events[::-1]
    assert again.arrived == LOG.arrived[::-1]
    assert again.plan == LOG.plan


def test_the_lines_are_those_of_the_format() -> None:
    assert record_line(Arrived(12.5, 7)) == b'{"vantage":"arrived","t_ms":12.5,"seq":7}\n'
    assert record_line(Painted(16.75, 3, 9)) == (
        b'{"vantage":"painted","t_ms":16.75,"frame":3,"seq":9,"visible":true}\n'
    )
    assert record_line(LOG.events[0]).startswith(b'{"vantage":"emitted","event":{"kind":"start","v":1,')
    planned = next(LOG.lines())
    assert planned.startswith(b'{"vantage":"planned"')
    assert b'"cue":0' in planned


def test_the_viewers_words_and_pings_are_lines_of_their_own(tmp_path: Path) -> None:
    assert record_line(Ready(8.5, "mug-1")) == b'{"vantage":"ready","t_ms":8.5,"key":"mug-1","ok":true,"reason":""}\n'
    ping = ClockSample(1.0, 7.25, 3.0)
    assert record_line(ping) == b'{"vantage":"clock","sent_ms":1.0,"viewer_ms":7.25,"heard_ms":3.0}\n'
    acked = Arrived(12.5, 7, "server")
    assert record_line(acked) == b'{"vantage":"arrived","t_ms":12.5,"seq":7,"clock":"server"}\n'
    full = msgspec.structs.replace(LOG, ready=(Ready(8.5, "mug-1", False, "undecodable"),), pings=(ping,))
    full.write(tmp_path / "full.jsonl")
    again = SyncLog.read(tmp_path / "full.jsonl")
    assert msgspec.structs.replace(again, source="") == full
    assert not again.acked
    assert SyncLog((), arrived=(acked,)).acked


def test_without_pings_the_fastest_event_aligns_the_clocks() -> None:
    assert not LOG.base.measured
    first = LOG.base.at(LOG.painted[0].t_ms)
    assert first is not None
    assert first.uncertainty_ms is None
    # Events take 20 ms to this viewer, which shows only as a shift of the whole.
    assert first.ms == pytest.approx(LOG.painted[0].t_ms - 20, abs=0.001)


def test_what_this_version_does_not_know_is_skipped_and_leaves_no_gap(tmp_path: Path) -> None:
    file = tmp_path / "tour.jsonl"
    lines = list(LOG.lines())
    lines.insert(4, b'{"vantage":"dreamt","t_ms":1}\n')
    strange = {"kind": "hologram", "v": 1, "sid": "x", "epoch": 0, "seq": 99, "pts_ms": 1.0, "tok": 1}
    lines.insert(5, msgspec.json.encode({"vantage": "emitted", "event": strange}) + b"\n")
    lines.insert(6, b'{"vantage":"painted","t_ms":1,"frame":0,"seq":-1,"reveals":[{"key":"a"}]}\n\n')
    file.write_bytes(b"".join(lines))
    again = SyncLog.read(file)
    assert again.events == LOG.events
    assert again.skipped == (99,)
    again.write(tmp_path / "rewritten.jsonl")
    assert SyncLog.read(tmp_path / "rewritten.jsonl").skipped == (99,)
    assert again.painted[0] == Painted(1.0, 0, -1)


@pytest.mark.parametrize(
    "broken",
    [
        b"not json\n",
        b"[1]\n",
        b'{"vantage":"arrived","t_ms":1}\n',
        b'{"vantage":"emitted","event":{"kind":"text","v":1}}\n',
        b'{"vantage":"emitted","event":{"kind":"text","v":9}}\n',
        b'{"vantage":"planned","cue":0,"anchor":-1,"key":"a"}\n',
        b'{"t_ms":1,"seq":3}\n',
        b"\xff\xfe\n",
    ],
)
def test_a_broken_line_is_named_with_its_file(tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "tour.jsonl"
    lines = list(LOG.lines())
    lines.insert(2, broken)
    file.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match=r"tour\.jsonl, line 3: not a line of a recording: ."):
        SyncLog.read(file)


@settings(deadline=None)
@given(st.data())
def test_a_recording_cut_anywhere_is_read_up_to_there(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    file = tmp_path_factory.mktemp("cut") / "tour.jsonl"
    whole = b"".join(LOG.lines())
    cut = data.draw(st.integers(len(next(LOG.lines())), len(whole) - 1))
    file.write_bytes(whole[:cut])
    again = SyncLog.read(file)
    assert again.events == LOG.events[: len(again.events)]
    tail = whole[:cut].rsplit(b"\n", 1)[1]
    assert bool(again.truncated) == bool(tail and whole[cut : cut + 1] != b"\n")


def test_a_missing_and_an_empty_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.jsonl: No such file"):
        SyncLog.read(tmp_path / "gone.jsonl")
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    with pytest.raises(UsageError, match=r"empty\.jsonl holds no tour"):
        SyncLog.read(tmp_path / "empty.jsonl")
    with pytest.raises(UsageError, match="cannot write the recording"):
        LOG.write(tmp_path / "no" / "where.jsonl")


def test_views_of_a_tour() -> None:
    assert LOG.start is LOG.events[0]
    assert LOG.end is LOG.events[-1]
    assert LOG.text.strip() == WORDS
    assert LOG.tokens == len(TOKENS)
    assert list(LOG.marks) == [*range(0, 29, 3), 29]
    assert {number: [event.key for event in events] for number, events in LOG.outcomes.items()} == {
        number: [cue.key] for number, cue in enumerate(cues())
    }
    assert set(LOG.assets) == {"kettle-1", "mug-1", "lamp-1"}
    assert LOG.swaps == {}
    late = tour(ready={"mug-1": 2.0})
    assert [swap.ok for swap in late.swaps[1]] == [True]


def test_words_around_a_boundary() -> None:
    assert LOG.words_around(4) == "…the Halo Kettle,| which boils a…"
    assert LOG.words_around(0) == "|Meet the Halo…"
    assert LOG.words_around(LOG.tokens) == "…all evening long.|"
    assert LOG.words_around(999).endswith("long.|")
    assert SyncLog(()).words_around(3) == "|"
    chinese = tour(tokens=list("你好这个水壶烧水只要九十秒"), declared=[])
    assert chinese.words_around(6) == "…个水壶|烧水只…"


def test_inside_a_run_of_words_the_boundary_is_found_by_counting_them() -> None:
    held = tour(late="hold", ready={"kettle-1": 9.0})
    run = next(text for text in held.texts if text.token_count > 1)
    inside = run.token_index + 1
    assert held.text[: held.char_at(inside)].split() == LOG.text[: LOG.char_at(inside)].split()
    merged = msgspec.structs.replace(run, text="nospaces")
    assert SyncLog((merged,)).char_at(1) == 0


def test_the_frame_of_an_event_is_the_first_that_reaches_its_seq() -> None:
    log = SyncLog((), painted=(Painted(10, 1, 2), Painted(20, 2, 2), Painted(30, 3, 7)))
    assert [frame and frame.frame for frame in map(log.frame_of, (0, 2, 3, 7, 8))] == [1, 1, 3, 3, None]


def test_the_first_arrival_of_an_event_counts() -> None:
    assert SyncLog((), arrived=(Arrived(1, 5), Arrived(2, 5))).arrival == {5: 1}


def test_words_before_a_boundary() -> None:
    assert LOG.words_before(0) is None
    words = LOG.words_before(4)
    assert isinstance(words, Text)
    assert words.text == "Kettle, "


def test_an_unknown_plan_stays_unknown(tmp_path: Path) -> None:
    bare = SyncLog(LOG.of(Reveal))
    bare.write(tmp_path / "bare.jsonl")
    assert SyncLog.read(tmp_path / "bare.jsonl").plan is None
    assert LOG.plan is not None
    assert LOG.plan[0] == Cue(4, "kettle-1", "placeholder", 0.25, "kettle")
