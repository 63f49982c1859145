"""An application served on loopback where a shop would mount it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from multimodal.serving.run import SmallBuffers
from tests.transport.leaks import until

__all__ = ["mounted"]


@asynccontextmanager
async def mounted(app: Starlette) -> AsyncIterator[int]:
    """Serve it below /shop; gives the port. At the end its sessions are closed, and the server with them."""
    outer: ASGIApp = Starlette()
    assert isinstance(outer, Starlette)
    outer.mount("/shop", app)
    server = uvicorn.Server(uvicorn.Config(outer, host="127.0.0.1", port=0, log_level="warning", ws=SmallBuffers))
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await app.state.sessions.aclose()
        server.should_exit = True
        await running
