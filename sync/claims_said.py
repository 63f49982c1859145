"""What a narration claims of products and no sheet supports, read off a log by a guard that is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol

from multimodal.sync.faults import Fault
from multimodal.sync.log import SyncLog

__all__ = ["Guard", "fact_faults"]


class Guard(Protocol):
    """Finds what is not true in a text: `violations(text)`, in order.

    Each has the `sentence` in which it stands and the words that were `said`, both in the text's own letters, and says
    in words what is wrong (`str`).
    """

    def violations(self, text: str) -> Sequence[Any]: ...


def fact_faults(log: SyncLog, guard: Guard) -> Iterator[Fault]:
    """One fault for each violation, at the token with which its words begin.

    Args:
        log: what was recorded.
        guard: judges the narration as a whole: who is spoken of is known from what was said before.
    """
    text, at, within, sentence = log.text, 0, 0, ""
    for violation in guard.violations(text):
        another = violation.sentence != sentence
        if another or text.find(violation.said, within, at + len(sentence)) < 0:
            behind = at + len(sentence)  # the same sentence may be said twice
            sentence = violation.sentence
            at = within = max(text.find(sentence, behind), at)
        start = max(text.find(violation.said, within, at + len(sentence)), at)
        within = start + len(violation.said)
        token = _token(log, start)
        why = "the narrator said what the catalogue does not hold"
        yield Fault(str(violation), "generator", why, token, f"token {token} says {violation.said!r}")


def _token(log: SyncLog, char: int) -> int:
    """The token in which a character stands."""
    ends = list(accumulate(text.token_count for text in log.texts))
    chars = list(accumulate(len(text.text) for text in log.texts))
    place = next((index for index, end in enumerate(chars) if end > char), len(chars) - 1)
    first = ends[place] - log.texts[place].token_count
    inside = range(first, ends[place])
    return max((token for token in inside if log.char_at(token) <= char), default=first)
