"""Logs without secrets: tokens and seats leave a short hash in their place, in what web servers log too.

Our own modules log none. But a seat's id stands in paths, which uvicorn's access log prints, and at the level DEBUG
websockets prints messages, hellos included. So a filter goes to those loggers. It touches lines with a secret, and
those that any stranger may cause as often as he likes, with a traceback each: they become one line.
"""

from __future__ import annotations

import hashlib
import logging
import re

__all__ = ["LOGGERS", "Discreet", "be_discreet", "hide", "short"]

LOGGERS = (
    "asyncio",
    "gunicorn.access",
    "gunicorn.error",
    "hypercorn.access",
    "hypercorn.error",
    "uvicorn.access",
    "uvicorn.asgi",
    "uvicorn.error",
    "websockets.client",
    "websockets.server",
)
"""Loggers that print paths, headers or messages, and what tasks are called."""

_SEAT = re.compile(r"s1_[A-Za-z0-9_-]{20,}")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}")
_BEARER = re.compile(r"(?i)(bearer\s+)(?!\[)[A-Za-z0-9._~+/=-]{8,}")
_STRANGERS = ("Invalid UTF-8 sequence received from client.",)
"""What uvicorn logs as an error of its own, where a peer has only sent bytes that are none of a text's."""
_HELLO = re.compile(r"(join_token\W{1,6})(?!\[)[^\s\"'\\]{8,}.*", re.DOTALL)
"""Of a message that websockets cuts short in its middle the token's last part would stay: all that follows goes."""


def short(secret: str) -> str:
    """By which lines about one secret can be found, and nothing more."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()[:8]


def hide(text: str) -> str:
    """The text, with hashes for seats and tokens."""
    if "s1_" in text:
        text = _SEAT.sub(lambda found: f"[seat {short(found[0])}]", text)
    if "join_token" in text:
        text = _HELLO.sub(r"\1[token]", text)
    if "eyJ" in text:
        text = _JWT.sub(lambda found: f"[token {short(found[0])}]", text)
    return _BEARER.sub(r"\1[token]", text) if "earer" in text or "EARER" in text else text


class Discreet(logging.Filter):
    """Hides secrets in a record's message, arguments and traceback, and tracebacks of strangers; it drops none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True."""
        if record.exc_info and record.msg in _STRANGERS:
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        record.msg = _hidden(record.msg)
        if isinstance(record.args, tuple):
            # One by one: uvicorn's formatter takes the arguments apart.
            record.args = tuple(map(_hidden, record.args))
        elif record.args:
            record.args = {key: _hidden(value) for key, value in record.args.items()}
        if record.exc_info and not record.exc_text:
            record.exc_text = hide(_formatter.formatException(record.exc_info))
        return True


_formatter = logging.Formatter()
_filter = Discreet()


def be_discreet() -> None:
    """Put the filter on `LOGGERS`. Twice is once."""
    for name in LOGGERS:
        # `addFilter` leaves a filter alone that is there already.
        logging.getLogger(name).addFilter(_filter)


def _hidden(value: object) -> object:
    if isinstance(value, str):
        return hide(value)
    if value is None or isinstance(value, int | float):
        return value
    # What would be formatted later is looked at now: a frame of websockets, an exception.
    text = str(value)
    hidden = hide(text)
    return value if hidden == text else hidden
