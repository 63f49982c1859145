"""An answer on its way to a slow consumer: pulled into an outbox, sent from there, held back while that is full."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.overflow import Item, Outbox, TextItem
from multimodal.values import Token

__all__ = ["check_delivery", "deliver"]


def check_delivery(pipe: object, send: object) -> None:
    """Refuse what cannot be delivered, or delivered with.

    Raises:
        UsageError: no text pipe, or a `send` that cannot be called.
    """
    if not hasattr(pipe, "__aiter__"):
        raise UsageError(f"deliver: a {type(pipe).__name__} is no text pipe; give what prompt(...) gave")
    if not callable(send):
        raise UsageError(f"deliver: send={send!r} cannot be called; give an async function that takes an item")


async def deliver(pipe: TextPipe, outbox: Outbox, send: Callable[[Item], Awaitable[object]]) -> None:
    """Send an answer, and whatever else is put into the outbox meanwhile, until the last of its text is sent.

    What was put behind that stays in the outbox.
    While the outbox is full the pipe is not pulled, so that its engine stops; nothing of the text is lost. Cancelling
    closes the pipe.

    Args:
        pipe: the answer's text pipe (T1-T8).
        outbox: what waits for the consumer; its handler is asked when it passes its high mark (O1-O6).
        send: awaited for each item, one at a time: the consumer's pace.

    Raises:
        UsageError: no text pipe, no outbox, or a `send` that cannot be called or gives nothing to await.
        PipeError: the pipe failed; what it had said before was sent.
        Exception: what `send` raised; the pipe is closed.
    """
    check_delivery(pipe, send)
    if not isinstance(outbox, Outbox):
        raise UsageError(f"deliver: outbox is a {type(outbox).__name__}; give an Outbox")
    clock = asyncio.get_running_loop().time
    came, room = asyncio.Event(), asyncio.Event()
    over = False
    made = sent = 0  # tokens
    failure: Exception | None = None

    async def fill() -> None:
        nonlocal over, made, failure
        try:
            async for item in pipe:
                token = item if isinstance(item, Token) else Token(item)
                outbox.put(TextItem(token.text, made, lane=token.lane), clock())
                made += 1
                came.set()
                while outbox.full:
                    room.clear()
                    await room.wait()
        except Exception as error:
            failure = error
        finally:
            over = True
            came.set()
            close = getattr(pipe, "aclose", None)
            if close is not None:
                await close()

    async with asyncio.TaskGroup() as group:
        filling = group.create_task(fill())
        try:
            while not (over and sent == made):
                item = outbox.take()
                if item is not None:
                    if not outbox.full:
                        room.set()
                    sending = send(item)
                    if not inspect.isawaitable(sending):
                        raise UsageError(
                            f"deliver: send gave a {type(sending).__name__} and nothing to await; make it an async "
                            "function"
                        )
                    await sending
                    sent += item.token_count if isinstance(item, TextItem) else 0
                else:
                    came.clear()
                    await came.wait()
        except Exception as error:  # raised behind the group, which would wrap it
            failure = error
            filling.cancel()
    if failure is not None:
        raise failure
