"""What logs must not hold is hidden, what they hold besides is not touched."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from uvicorn.logging import AccessFormatter

from multimodal.serving.auth import Tokens
from multimodal.serving.discreet import LOGGERS, Discreet, be_discreet, hide, short
from multimodal.serving.rights import Grant
from multimodal.serving.seats import Seats

NOW = 1_800_000_000.0
TOKEN = Tokens("a-secret-of-the-shop-0123456789-abcdefgh").issue(tour="demo", now=NOW)
SEAT = Seats().issue(Grant("demo"), tour="demo", session="s1", now=NOW).id


def formatted(msg: Any, *args: Any, exc_info: Any = None) -> str:
    record = logging.LogRecord("x", logging.INFO, "x.py", 1, msg, args, exc_info)
    assert Discreet().filter(record)
    return logging.Formatter().format(record)


def clean(text: str) -> bool:
    """Not even a part of them that could be gone on from."""
    pieces = [secret[at : at + 16] for secret in (TOKEN, SEAT) for at in range(4, len(secret) - 16)]
    return not any(piece in text for piece in pieces)


@pytest.mark.parametrize(
    "text",
    [
        f"GET /ws/demo/{SEAT}?x=1 HTTP/1.1",
        f"GET /pictures/demo/{SEAT}/abc",
        f"GET /whep/demo/{SEAT}",
        f"Authorization: Bearer {TOKEN}",
        f"authorization: bearer {TOKEN}",
        f"{{'join_token': '{TOKEN}'}}",
        f'{{"type":"hello","join_token":"{TOKEN}","cursor":-1}}',
        f'"{{\\"join_token\\":\\"{TOKEN}\\"}}"',
        f'< TEXT \'{{"type":"hello","join_token":"{TOKEN[:20]}...{TOKEN[-30:]}"}}\' [300 bytes]',
        f"{TOKEN} and {SEAT} and {TOKEN}",
        "Authorization: Bearer not-even-a-token-of-ours",
    ],
)
def test_secrets_are_hidden_wherever_they_stand(text: str) -> None:
    assert clean(hide(text))
    assert "not-even" not in hide(text)
    for found in (formatted(text), formatted("%s", text), formatted("at %s", [text]), formatted("%(a)s", {"a": text})):
        assert clean(found), found


@pytest.mark.parametrize(
    "text", ["GET /whep/demo HTTP/1.1", "s1_short", "eyJ", "the bearer of news", "join_token missing", "", "100 %"]
)
def test_other_words_stay(text: str) -> None:
    assert hide(text) == text
    assert formatted(text) == text


def test_lines_about_one_secret_can_be_found() -> None:
    assert short(SEAT) == short(SEAT) != short(TOKEN)
    assert hide(f"/whep/demo/{SEAT}") == f"/whep/demo/[seat {short(SEAT)}]"
    assert len(short(SEAT)) == 8


def test_numbers_stay_numbers_and_objects_objects() -> None:
    assert formatted("%d of %5.1f, %s", 3, 2.5, None) == "3 of   2.5, None"
    assert formatted("%r", ValueError("x")) == "ValueError('x')"


def test_a_traceback_holds_none() -> None:
    try:
        raise ValueError(f"no such seat: {SEAT}")
    except ValueError as error:
        text = formatted("failed", exc_info=(type(error), error, error.__traceback__))
    assert "Traceback" in text
    assert clean(text)


def test_uvicorns_access_log_is_still_formatted() -> None:
    record = logging.LogRecord(
        "uvicorn.access",
        logging.INFO,
        "x.py",
        1,
        '%s - "%s %s HTTP/%s" %d',
        ("127.0.0.1:5", "POST", f"/whep/demo/{SEAT}", "1.1", 201),
        None,
    )
    Discreet().filter(record)
    line = AccessFormatter(use_colors=False).format(record)
    assert "201" in line
    assert f"/whep/demo/[seat {short(SEAT)}]" in line
    assert clean(line)


def test_the_filter_is_put_on_once() -> None:
    be_discreet()
    be_discreet()
    for name in LOGGERS:
        assert sum(isinstance(each, Discreet) for each in logging.getLogger(name).filters) == 1, name
