"""What a server says comes short, on one line, and without anything that a terminal obeys."""

from __future__ import annotations

from typing import Any

import pytest

from multimodal.pipes.server_words import ERROR_CHARS, error_words, harmless, why


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("\x1b[2Jgone\r\nERROR forged", "\\x1b[2Jgone ERROR forged"),
        ("a\u202eb\x00\x9b", "a\\u202eb\\x00\\x9b"),
        ("\ud83d", "\\ud83d"),
        ("售罄 é 🫖", "售罄 é 🫖"),
    ],
)
def test_control_characters_are_escaped(said: str, told: str) -> None:
    assert (
        harmless(said) == error_words(said) == error_words({"error": {"message": said}}) == why(OSError(said)) == told
    )


def nested(depth: int) -> Any:
    found: Any = "deep"
    for _ in range(depth):
        found = {"error": found}
    return found


def test_words_are_short_whatever_the_server_sent() -> None:
    assert error_words("") == error_words({"error": {"message": " "}}) == "it said nothing"
    assert error_words({"error": {"message": " much\n space "}}) == "much space"
    assert len(error_words("x" * 10_000)) == len(error_words("\x1b" * 10_000)) == ERROR_CHARS
    assert error_words(nested(3)) == "deep"
    assert error_words(nested(100_000)) == "it said something that is nested too deep to read"
    assert error_words("[" * 100_000) == "[" * ERROR_CHARS


def test_the_reason_of_a_group_is_that_of_its_first() -> None:
    assert why(ExceptionGroup("several", [ExceptionGroup("more", [OverflowError("port")])])) == "port"
    assert why(OverflowError()) == "OverflowError"
