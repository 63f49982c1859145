"""How the tokens of an answer leave: the settings that may change while it runs, checked. Pure."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.buffer import AdaptiveBuffer
from multimodal.pipes.chunk_settings import ChunkSettings
from multimodal.pipes.stages import Stage

__all__ = ["AT_ONCE", "InForce", "TextSettings", "check_count", "check_flag", "end_ids", "for_edge"]


class TextSettings(msgspec.Struct, frozen=True):
    """What `StreamProcessor.update_params` changes.

    Args:
        chunk_size: tokens that leave together at most; the first content leaves at once whatever it is.
        buffer_factor: how many times the consumer's measured need is made ahead.
        priority_threshold: 0 = no low lane for filler words, 1 = the widest.
        max_wait: seconds that a token waits for its chunk at most.
        filler_wait: seconds that a filler word waits at most; None = twice `max_wait`.
        max_chars: characters that leave together at most; None = any.

    Raises:
        UsageError: a value out of its range.
    """

    chunk_size: int = 32
    buffer_factor: float = 1.5
    priority_threshold: float = 0.3
    max_wait: float = 0.4
    filler_wait: float | None = None
    max_chars: int | None = None

    def __post_init__(self) -> None:
        # Each is checked by the one that acts on it, so that there is one rule for it.
        try:
            ChunkSettings(self.chunk_size, *self._chunks(), max_chars=self.max_chars)
        except UsageError as error:
            raise UsageError(str(error).replace("size=", "chunk_size=", 1)) from None
        AdaptiveBuffer(self.buffer_factor)

    def _chunks(self) -> tuple[float, float, float | None]:
        return self.priority_threshold, self.max_wait, self.filler_wait

    def changed(self, changes: dict[str, Any]) -> TextSettings:
        """The same with other values.

        Raises:
            UsageError: an unknown name, or a value out of its range.
        """
        if odd := sorted(changes.keys() - set(self.__struct_fields__)):
            raise UsageError(f"update_params: {', '.join(odd)} unknown; there are {', '.join(self.__struct_fields__)}")
        return msgspec.structs.replace(self, **changes)

    def at(self, stage: Stage) -> TextSettings:
        """The same with what a stage says."""
        return msgspec.structs.replace(self, chunk_size=stage.chunk_size, buffer_factor=stage.buffer_factor)

    def flow(self) -> dict[str, Any]:
        """What a `TextFlow` takes of it."""
        return {
            "chunk_size": self.chunk_size,
            "priority_threshold": self.priority_threshold,
            "max_wait": self.max_wait,
            "filler_wait": self.filler_wait,
            "max_chars": self.max_chars,
        }


AT_ONCE = TextSettings(chunk_size=1, priority_threshold=0.0)
"""Every token leaves when it comes."""
_EDGE = {"chunk_size": 16, "buffer_factor": 1.0, "max_wait": 0.8}
"""A small machine: few deliveries, and nothing is made ahead that may never be read."""


class InForce(msgspec.Struct, frozen=True):
    """What held from one token border of an answer on.

    Args:
        token_index: the first token that left under it.
        stage: the answer's stage; "" = none.
        settings: what held.
    """

    token_index: int
    stage: str
    settings: TextSettings


def for_edge(settings: TextSettings) -> TextSettings:
    """The same for a small machine, where they are the defaults."""
    usual = TextSettings()
    return settings.changed({n: v for n, v in _EDGE.items() if getattr(settings, n) == getattr(usual, n)})


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False: "no" would count as yes.

    Raises:
        UsageError: another value.
    """
    if not isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is no switch; give True or False")


def check_count(name: str, value: object, what: str) -> None:
    """Refuse what is neither None nor a whole number of 1 or more.

    Raises:
        UsageError: another value.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise UsageError(f"{name}={value!r} is no number of {what}; give a whole number, 1 or more, or None")


def end_ids(value: object) -> tuple[int, ...]:
    """The tokens that end an answer.

    Raises:
        UsageError: no list of token ids.
    """
    given: list[Any] = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [None]
    if any(isinstance(each, bool) or not hasattr(each, "__index__") for each in given):
        raise UsageError(f"eos_ids={value!r} is no list of token ids; give one such as [2]")
    return tuple(operator.index(each) for each in given)
