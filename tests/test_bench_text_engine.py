"""The benchmarks of the text engine, short: every table is there, and what depends on no clock holds its bar."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from multimodal.bench import first_text, overflow, overflow_sessions, sessions, sessions_churn, sweeps, sweeps_engine
from multimodal.bench.text_layer import ENGLISH
from multimodal.bench.text_stage import byte_tokenizer, rises, whole_words

QUICK = argparse.Namespace(quick=True)
TIMED = ("ITL", "memory")


def failed(told: dict[str, Any]) -> list[str]:
    return [entry["what"] for entry in told["figures"] if not entry["ok"] and not entry["what"].startswith(TIMED)]


@pytest.fixture
def log_level() -> Iterator[None]:
    """The churn silences the log of callbacks that are meant to raise."""
    log = logging.getLogger("multimodal.pipes.callback_entry")
    level = log.level
    yield
    log.setLevel(level)


def test_overflow_loses_nothing_where_cutting_the_queue_does() -> None:
    told = overflow.run(QUICK)
    assert failed(told) == []
    assert set(told["ours"]) == {"speed", "sessions", "with previews", "words alone"}
    for peer in ("clear all", "drop a tenth"):
        assert told["peers"][peer]["texts_differ"] == told["ours"]["sessions"]
        assert told["peers"][peer]["cues_lost"] > 0


def test_a_lost_cue_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    read = overflow_sessions._Session._read
    lost: list[Any] = []

    def forgets(session: Any, item: Any) -> None:
        cue = getattr(getattr(item, "payload", None), "kind", "") == "reveal"
        if cue and session._rate and not lost:
            lost.append(item)
        else:
            read(session, item)

    monkeypatch.setattr(overflow_sessions._Session, "_read", forgets)
    assert failed(overflow.run(QUICK)) == ["sessions whose cues differ"]


def test_the_sweeps_have_a_table_for_every_setting() -> None:
    told = sweeps.run(QUICK)
    assert failed(told) == []
    settings = {name.partition(",")[0] for name in told["ours"]}
    assert settings == {
        *("chunk_size", "priority_threshold", "buffer_factor", "stages"),
        *("keep_free", "reclaim_policy", "window_size"),
    }
    assert list(told["ours"]["chunk_size"]) == ["1", "8", "16", "32", "64"]
    assert list(told["ours"]["stages"]) == ["greeting", "answer", "closing"]
    assert list(told["ours"]["reclaim_policy"]) == list(sweeps_engine.POLICIES)
    assert all(len(table) >= 2 for table in told["ours"].values())


def test_sessions_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch, log_level: None) -> None:
    monkeypatch.setattr(sessions, "GAP", 0.001)
    monkeypatch.setattr(sessions, "SLOW", 0.002)
    told = sessions.run(QUICK)
    assert failed(told) == []
    assert told["ours"]["alive"] == {}
    assert {"nobody", "slow", "raising", "in the loop"} == set(told["ours"]["itl_ms"])


def test_what_sessions_left_behind_would_be_counted(log_level: None) -> None:
    kept: list[Any] = []
    init = sessions_churn.Screen.__init__

    def keeps(screen: Any) -> None:
        init(screen)
        kept.append(screen)

    tokenizer = byte_tokenizer([ENGLISH], 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions_churn.Screen, "__init__", keeps)
        left = sessions_churn.churn(200, tokenizer)
    assert left.theirs == len(kept) == 400
    assert left.registered > 0, "callbacks of objects that are there stay"


def test_first_text_measures_both_at_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_text, "LENGTHS", (32,))
    monkeypatch.setattr(first_text, "SIZES", (8, 64))
    told = first_text.run(QUICK)
    assert failed(told) == []
    table = told["ours"]["prompt 32"]
    assert set(table["ms"]) == {"one token", "blocking", "chunk_size 8", "chunk_size 64"}
    assert 0 < table["floor"] < 1
    for kind in ("chunk_size 8", "chunk_size 64"):
        assert table["ms"][kind]["first"]["median"] < table["ms"][kind]["total"]["median"]
    judged = {entry["what"] for entry in told["figures"]}
    assert {
        "prompt 32, chunk_size 64: first text against the floor",
        "prompt 32: pictures shown in each answer",
    } <= judged


def test_rises_counts_steps_up_beyond_the_slack() -> None:
    assert rises([3, 2, 2, 1]) == 0
    assert rises([1, 2, 1, 3]) == 2
    assert rises([100, 101, 120], 0.02) == 1


def test_prompts_are_made_of_words_of_one_token() -> None:
    tokenizer = byte_tokenizer([" kettle"] * 9 + [" lamp"] * 9, 300)
    words = whole_words(tokenizer, ["kettle", "lamp", "xylophone"], 2)
    assert len(tokenizer.encode("".join(words * 5)).ids) == 10
    with pytest.raises(AssertionError, match="only 2 words"):
        whole_words(tokenizer, ["kettle", "lamp", "xylophone"], 3)
