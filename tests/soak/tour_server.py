"""A server for tests to kill: ``python -m tests.soak.tour_server PORT REDIS_URL`` in the checkout."""

from __future__ import annotations

import sys

import uvicorn

from multimodal.journal import journal_from_url
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.values import Cue, Place
from tests.transport.events import picture

__all__ = ["CUES", "PICTURES", "SECRET", "SHARED", "WORDS", "main"]

WORDS = [f"w{number} " for number in range(160)]
GAP = 0.05
PICTURES = [picture(f"p{number}", 20_000) for number in range(8)]
CUES = [Cue(20 * number, f"p{number}") for number in range(8)]
SHARED = "together"
SWAP_WAIT = 60.0
"""Seconds that the end waits for the pictures: a busy machine may take longer than the usual one."""
SECRET = "not a secret: a server of tests, on loopback alone"


def make_stream(tour: str) -> MultiModalStream:
    return MultiModalStream(ScriptTextPipe(WORDS, gap=GAP), ScriptImagePipe(PICTURES), cues=CUES, swap_wait=SWAP_WAIT)


def resume_stream(tour: str, place: Place) -> MultiModalStream:
    return MultiModalStream(
        ScriptTextPipe(WORDS, gap=GAP), ScriptImagePipe(PICTURES), cues=CUES, swap_wait=SWAP_WAIT, resume=place
    )


def main(port: int, redis_url: str) -> None:
    app = asgi(
        make_stream,
        resume_stream=resume_stream,
        journal=journal_from_url(redis_url),
        shared=(SHARED,),
        secret=SECRET,
        tokens=False,
        bind_addresses=["127.0.0.1"],
        quotas=Quotas.unlimited(),
    )
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", lifespan="on")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
