"""A text pipe whose sentences went through a fact guard, with its tokens where they were.

A token whose text waits for the end of its sentence is empty; the sentence comes with the token behind it, which is the
first by which its end is known, or with the last. So boundaries stay, and what is held back is one sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, get_args

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.boundaries import SENTENCE, Boundaries
from multimodal.pipes.guard import FactGuard, Violation
from multimodal.pipes.held_text import HeldText

__all__ = ["SENTENCE_CHARS", "GuardMode", "GuardedTextPipe"]

log = logging.getLogger(__name__)

GuardMode = Literal["flag", "hold", "stop"]
SENTENCE_CHARS = 1000
"""Characters after which a sentence that does not end is judged as it stands: a model that forgot its full stops must
not hold up the narration for ever."""


class GuardedTextPipe(HeldText):
    """A text pipe behind a `FactGuard` (G4).

    Args:
        pipe: the text pipe (T1-T8).
        guard: judges its sentences.
        mode: ``flag`` = text passes at once and what is wrong is told; ``hold`` = a sentence comes once it is judged,
            and a false one does not; ``stop`` = the text ends before the first false one, and the pipe is closed.
        product: the product that the narration begins with; "" = none in particular.
        on_violation: called with each; it must not block. One that fails is logged, and the text goes on.

    Raises:
        UsageError: another mode.
    """

    def __init__(
        self,
        pipe: TextPipe,
        guard: FactGuard,
        mode: GuardMode = "hold",
        *,
        product: str = "",
        on_violation: Callable[[Violation], object] | None = None,
    ) -> None:
        if mode not in get_args(GuardMode):
            raise UsageError(f"mode={mode!r} is none; there are: {', '.join(get_args(GuardMode))}")
        super().__init__(pipe)
        self._mode, self._judging = mode, guard.begin(product)
        self._on_violation = on_violation
        self._borders, self._sentence = Boundaries(), ""
        self.left_out = 0
        """Sentences that were not let out."""

    @property
    def violations(self) -> list[Violation]:
        """What was said and is on no sheet, so far."""
        return list(self._judging.violations)

    @property
    def _stopped(self) -> bool:
        return self._mode == "stop" and self.left_out > 0

    def _push(self, text: str) -> str:
        shown = self._take(text)
        return text if self._mode == "flag" else shown

    def _flush(self) -> str:
        return self._end_sentence()

    def _take(self, text: str) -> str:
        """The next piece; gives what is let out before it."""
        shown = ""
        # A piece may hold a sentence's end and the next one's beginning: borders are between characters then.
        for piece in _pieces(text):
            ends = self._borders.feed(piece) >= SENTENCE or len(self._sentence) > SENTENCE_CHARS
            if ends and self._sentence.strip():
                shown += self._end_sentence()
                if self._stopped:
                    return shown
            self._sentence += piece
        return shown

    def _end_sentence(self) -> str:
        sentence, self._sentence = self._sentence, ""
        found = self._judging.judge(sentence)
        for violation in found:
            self._tell(violation)
        if self._mode == "flag":
            return ""
        if not found:
            return sentence
        self.left_out += 1
        return ""

    def _tell(self, violation: Violation) -> None:
        log.warning("the fact guard: %s", violation)
        if self._on_violation is not None:
            try:
                self._on_violation(violation)
            except Exception:
                log.exception("on_violation failed; the narration goes on")


def _pieces(text: str) -> list[str]:
    """A text cut where a sentence may end, and nowhere else: behind a sign that is no letter, and before the next."""
    found: list[str] = []
    start = 0
    for at in range(1, len(text)):
        if text[at - 1].isspace() != text[at].isspace() or text[at - 1] in "。！？!?":
            found.append(text[start:at])
            start = at
    return [*found, text[start:]] if text else []
