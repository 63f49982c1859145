"""Settings that would fail at the first viewer, or let strangers into one tour, are refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from multimodal import asgi
from multimodal.errors import UsageError
from multimodal.journal import journal_from_url
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream


def make_stream(tour: str) -> MultiModalStream:
    return MultiModalStream(ScriptTextPipe("Hello."), ScriptImagePipe([]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shared": "live"}, "names of the shared tours"),
        ({"shared": 3}, "names of the shared tours"),
        ({"keep": "60"}, "number of seconds"),
        ({"keep": -1}, "number of seconds"),
        ({"keep": float("nan")}, "number of seconds"),
        ({"journal": "redis://127.0.0.1"}, "journal_from_url"),
        ({"spent": "redis"}, r"RedisSpent\(client\)"),
        ({"quotas": {"a": 1}}, "give Quotas"),
        ({"turn": "turn:x"}, r"give Turn\("),
        ({"limits": 5}, "give Limits"),
        ({"recorder": 5}, "recorder=5 cannot be called"),
        ({"resume_stream": "x"}, "resume_stream='x' cannot be called"),
        ({"tokens": "no"}, "give True, False or None"),
        ({"bind_addresses": "127.0.0.1"}, "a list of addresses"),
        ({"bind_addresses": ["999.1.1.1"]}, "'999.1.1.1' is no IP address"),
        ({"ice_servers": ["foo"]}, "IceServer"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asgi(make_stream, **settings)


@pytest.mark.parametrize("url", [None, 5, "redis:127.0.0.1", "redis://127.0.0.1/abc", "unix://", "nats://a"])
def test_a_journal_that_names_no_server_is_refused(url: Any) -> None:
    with pytest.raises(UsageError, match="redis://host:6379/0"):
        journal_from_url(url)


def test_a_journal_that_outlives_its_seats_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    asgi(make_stream, journal=journal_from_url("redis://127.0.0.1:1/0"))
    assert "no viewer finds its seat again" in caplog.text
    caplog.clear()
    asgi(make_stream, journal=journal_from_url("memory:"))
    assert not caplog.text
