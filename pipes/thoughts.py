"""What a model thinks, taken out of what it says: ``<think>...</think>`` in a text that comes in pieces. Pure.

Held back is only the end of a piece that may be the beginning of a tag, 7 characters at most. White space behind a
thought that opens the text goes with it. A closing tag whose opening one is missing is no text either; behind text it
says that the text was thought (`unopened`), which some servers send where the opening tag is part of their prompt.
"""

from __future__ import annotations

import re

__all__ = ["Thoughts"]

_OPEN, _CLOSE = "<think>", "</think>"
_TAG = re.compile("</?think>")


class Thoughts:
    """Leaves out the thoughts of one text, wherever its pieces are split."""

    def __init__(self) -> None:
        self.begun = 0
        """Thoughts so far."""
        self.inside = False
        """The last one has not ended."""
        self.unopened = False
        """A thought ended that had not begun, behind text."""
        self._held = ""
        self._said = self._behind = False

    def push(self, text: str) -> str:
        """The next piece; gives what of it, and of what was held back, is no thought."""
        text, self._held = self._held + text, ""
        shown: list[str] = []
        at = 0
        while True:
            if self.inside:
                end = text.find(_CLOSE, at)
                if end < 0:
                    break
                at, self.inside = end + len(_CLOSE), False
                self._behind = not self._said
                continue
            tag = _TAG.search(text, at)
            if tag is None:
                break
            shown.append(self._say(text[at : tag.start()]))
            at = tag.end()
            if tag[0] == _OPEN:
                self.inside = True
                self.begun += 1
            else:
                self.unopened = self.unopened or self._said
                self._behind = not self._said
        rest = text[at:]
        begun = _begun(rest, (_CLOSE,) if self.inside else (_OPEN, _CLOSE))
        self._held = rest[len(rest) - begun :]
        if not self.inside:
            shown.append(self._say(rest[: len(rest) - begun]))
        return "".join(shown)

    def flush(self) -> str:
        """The text is complete; gives what was held back and was no tag after all."""
        held, self._held = self._held, ""
        return "" if self.inside else self._say(held)

    def _say(self, text: str) -> str:
        if self._behind:
            text = text.lstrip()
        if text and not text.isspace():
            self._said, self._behind = True, False
        return text


def _begun(text: str, tags: tuple[str, ...]) -> int:
    """Characters at the end of a text with which one of these tags may begin."""
    at = text.rfind("<", max(0, len(text) - len(_CLOSE) + 1))
    return len(text) - at if at >= 0 and any(tag.startswith(text[at:]) for tag in tags) else 0
