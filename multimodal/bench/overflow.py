"""Consumers at half the speed of what is told them: 200 sessions, on virtual time, each as it would run in a server.

A real `StreamProcessor` over a scripted engine, a `MultiModalStream` with pictures by mention, and the processor's
outbox of 16 KiB in front of a consumer that takes half the bytes a second that the session makes, previews of 200 to
3,000 bytes among them. Its final text and its cues are held against the same session with a consumer without limits.
A second time there are no previews, and consumers take half the words and cues: then nothing may be shed, and the
engine has to be held back. Beside it, two common ways out of an overflow, which know no backpressure: clear the queue,
and drop its oldest tenth.
"""

from __future__ import annotations

import argparse
from typing import Any

from multimodal.bench.batch_load import resident_bytes
from multimodal.bench.overflow_sessions import LIMIT, WORDS_LIMIT, Came, Sessions
from multimodal.bench.report import figure, report
from multimodal.sync.virtual import VirtualClock

SESSIONS, PHRASES = 200, 12
SPEED = 0.5
PEERS = ("clear all", "drop a tenth")
SESSION_KIB = 1024
"""All that a session holds: answer, stream, pictures, outbox. The outbox is 16 of them."""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """One to three minutes; `--quick` some seconds."""
    count, phrases = (10, 6) if options.quick else (SESSIONS, PHRASES)
    sessions = Sessions(count, phrases)
    before = resident_bytes()
    with VirtualClock() as clock:
        unhurried = clock.run(sessions.play("outbox"))
        rates = _half(unhurried)
        ours = clock.run(sessions.play("outbox", rates))
        words_unhurried = clock.run(sessions.play("words alone"))
        words = clock.run(sessions.play("words alone", _half(words_unhurried)))
        resident = (sessions.most_resident - before) / count / 1024
        peers = {way: _told(clock.run(sessions.play(way, rates)), unhurried) for way in PEERS}
    told, alone = _told(ours, unhurried), _told(words, words_unhurried)
    uncounted = sum(abs(each.put - each.previews - each.shed) + abs(each.shed - each.gaps) for each in ours)
    figures = [
        figure(f"sessions aborted, of {count}", told["aborted"], "sessions", 0),
        figure("sessions whose final text differs", told["texts_differ"], "sessions", 0),
        figure("sessions whose cues differ", told["cues_differ"], "sessions", 0),
        figure("cues", told["cues"], "cues", 1, "higher"),
        figure("most bytes that waited for a consumer, of the cap", told["peak_bytes"] / LIMIT, "share", 1.0),
        figure("previews neither shown nor counted as shed", uncounted, "previews", 0),
        figure("previews shed", told["shed"], "previews", 1, "higher"),
        figure("memory of a session, everything", resident, "KiB", None if options.quick else SESSION_KIB),
        figure("sessions whose unhurried text differs from the script", _differ(unhurried, sessions.texts), "", 0),
    ]
    figures += [
        figure("words alone: sessions aborted", alone["aborted"], "sessions", 0),
        figure("words alone: sessions whose final text differs", alone["texts_differ"], "sessions", 0),
        figure("words alone: sessions whose cues differ", alone["cues_differ"], "sessions", 0),
        figure("words alone: most bytes that waited, of the cap", alone["peak_bytes"] / WORDS_LIMIT, "share", 1.0),
        figure("words alone: times an engine was held back", alone["held_back"], "times", count, "higher"),
    ]
    shown = {"with previews": {**told, "limit_bytes": LIMIT}, "words alone": {**alone, "limit_bytes": WORDS_LIMIT}}
    return report("overflow", figures, ours={"speed": SPEED, "sessions": count, **shown}, peers=peers)


def _half(came: list[Came]) -> list[float]:
    return [SPEED * each.sent_bytes / each.seconds for each in came]


def _differ(came: list[Came], texts: list[str]) -> int:
    return sum(each.text != text for each, text in zip(came, texts, strict=True))


def _told(came: list[Came], unhurried: list[Came]) -> dict[str, float]:
    pairs = list(zip(came, unhurried, strict=True))
    return {
        "aborted": sum(each.aborted for each in came),
        "texts_differ": sum(each.text != whole.text for each, whole in pairs),
        "cues_differ": sum(each.cues != whole.cues for each, whole in pairs),
        "cues": sum(len(each.cues) for each in came),
        "tokens_lost": sum(whole.tokens - each.tokens for each, whole in pairs),
        "cues_lost": sum(len(whole.cues) - len(each.cues) for each, whole in pairs),
        "previews": sum(each.put for each in came),
        "shed": sum(each.shed for each in came),
        "peak_bytes": max(each.peak_bytes for each in came),
        "held_back": sum(each.held_back for each in came),
        "made_ahead": max(each.ahead for each in came),
        "seconds": max(each.seconds for each in came),
        "unhurried_seconds": max(each.seconds for each in unhurried),
    }
