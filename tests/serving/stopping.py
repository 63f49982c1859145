"""A server for `test_stop`: one tour of a minute, mounted as the README says, or run as our commands do."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette

import multimodal
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.run import serve
from multimodal.stream import MultiModalStream
from tests.transport.events import picture


def make_stream(tour: str) -> MultiModalStream:
    pictures = [picture(f"p{i}", 20_000) for i in range(4)]
    return MultiModalStream(ScriptTextPipe([f"w{i} " for i in range(600)], gap=0.1), ScriptImagePipe(pictures))


def main(kind: str, port: int) -> None:
    if kind == "mounted":
        app = Starlette()
        app.mount("/tour", multimodal.asgi(make_stream))
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
    else:
        tours = multimodal.asgi(make_stream)
        outer = Starlette(lifespan=tours.router.lifespan_context)
        outer.mount("/tour", tours)
        serve(outer, port, "a tour")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
