"""What a viewer who may turn a session makes its stream do: leave its turn, answer, move (R9)."""

from __future__ import annotations

import logging
from contextlib import suppress

from multimodal import wire
from multimodal.errors import UsageError
from multimodal.transport.base import Moves, Source, Turns

__all__ = ["Turning", "turn"]

log = logging.getLogger(__name__)

Turning = wire.Interrupt | wire.Ask | wire.Skip | wire.Rewind


def turn(stream: Source, message: Turning) -> bool:
    """Have a stream do what was asked; False = nothing has changed, and the log says why."""
    return _move(stream, message) if isinstance(message, wire.Skip | wire.Rewind) else _leave(stream, message)


def _leave(stream: Source, message: wire.Interrupt | wire.Ask) -> bool:
    epoch = message.epoch
    if not isinstance(stream, Turns):
        log.info("a viewer interrupted a stream that has no turns")
        return False
    try:
        if isinstance(message, wire.Interrupt):
            return stream.interrupt(epoch) is not None
        return stream.ask(message.text, epoch)
    except UsageError as error:
        log.info("nobody answers a viewer's question: %s", error)
        with suppress(UsageError):
            # The viewer shows nothing more of the turn that it left, so the tour must not go on unseen.
            if stream.interrupt(epoch) is not None:
                stream.finish()
                return True
    return False


def _move(stream: Source, message: wire.Skip | wire.Rewind) -> bool:
    if not isinstance(stream, Moves):
        log.info("a viewer would move in a stream that only goes on")
        return False
    try:
        if isinstance(message, wire.Skip):
            return stream.skip(message.epoch) is not None
        return stream.rewind(message.mark, message.epoch) is not None
    except UsageError as error:
        log.info("a viewer cannot move there: %s", error)
        return False
