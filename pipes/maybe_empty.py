"""A text pipe that may say nothing, for a caller who has something to say in its place."""

from __future__ import annotations

import logging

from multimodal.pipes.around import AroundPipe
from multimodal.pipes.openai_stream import EmptyAnswerError
from multimodal.values import Token

__all__ = ["MaybeEmpty"]

log = logging.getLogger(__name__)


class MaybeEmpty(AroundPipe):
    """A text pipe whose answer without any text is an end that is logged, and no error (T1-T8, T10).

    Closing, and cancelling a pull, close the pipe.

    Args:
        pipe: the text pipe, of a server.
    """

    async def __anext__(self) -> Token:
        if self._over:
            raise StopAsyncIteration
        try:
            return await self._pulled()
        except EmptyAnswerError as error:
            log.warning("%s; it is done without", error)
            raise StopAsyncIteration from error
        except StopAsyncIteration:
            self._over = True
            raise
