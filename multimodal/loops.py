"""The event loop that runs here, for what cannot do without one."""

from __future__ import annotations

import asyncio

from multimodal.errors import UsageError

__all__ = ["loop_here"]


def loop_here(who: str) -> asyncio.AbstractEventLoop:
    """The loop that runs in this thread.

    Args:
        who: what needs it, for the message.

    Raises:
        UsageError: none runs here.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            f"{who} needs a running event loop, and none runs in this thread: do it in a coroutine, such as"
            " `async def main()`, and start that with `asyncio.run(main())`"
        ) from None
