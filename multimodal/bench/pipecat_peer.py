"""The script of `multimodal bench stream`, played by pipecat's SyncParallelPipeline; run by the Python of its own venv.

`python pipecat_peer.py`: each line on stdin is a JSON list of a number of tokens and whether they come one by one (one
per turn of the event loop) or all at once; each answer, one line of JSON on stdout, says what the run cost. It imports
nothing of this package: the two do not share an environment.

All that costs pipecat time and is not asked for here is switched off: logging, metrics, heartbeats, turn tracking, its
messages to a client. Nothing sleeps.
"""

# pipecat is in the peer's environment only, so no type checker of this one finds it.
# mypy: ignore-errors
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from importlib.metadata import version

PICTURE_EVERY = 3
"""Tokens from one picture to the next, as `multimodal bench stream` has it."""


async def play(count: int, one_by_one: bool) -> dict[str, float]:
    """Tokens through one branch; the other shows a picture with every third; both come out in step, in one order.

    Raises:
        AssertionError: something was lost, doubled or out of order at the sink.
    """
    from pipecat.frames.frames import EndFrame, OutputImageRawFrame, TextFrame
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.sync_parallel_pipeline import FrameOrder, SyncParallelPipeline
    from pipecat.pipeline.worker import PipelineParams, PipelineWorker
    from pipecat.processors.frame_processor import FrameProcessor
    from pipecat.workers.runner import WorkerRunner

    class Words(FrameProcessor):
        async def process_frame(self, frame, direction):
            await super().process_frame(frame, direction)
            await self.push_frame(frame, direction)

    class Pictures(FrameProcessor):
        def __init__(self):
            super().__init__()
            self.seen = 0

        async def process_frame(self, frame, direction):
            await super().process_frame(frame, direction)
            if not isinstance(frame, TextFrame):
                await self.push_frame(frame, direction)
                return
            if self.seen % PICTURE_EVERY == 0:
                await self.push_frame(OutputImageRawFrame(b"x", (4, 3), "RGB"), direction)
            self.seen += 1

    class Sink(FrameProcessor):
        def __init__(self):
            # As pipecat's own sinks: without a queue and a task of its own.
            super().__init__(enable_direct_mode=True)
            self.words = []
            self.pictures = []

        async def process_frame(self, frame, direction):
            await super().process_frame(frame, direction)
            if isinstance(frame, TextFrame):
                self.words.append(frame.text)
            elif isinstance(frame, OutputImageRawFrame):
                self.pictures.append(len(self.words))
            await self.push_frame(frame, direction)

    sink = Sink()
    both = SyncParallelPipeline([Pictures()], [Words()], frame_order=FrameOrder.PIPELINE)
    worker = PipelineWorker(
        Pipeline([both, sink]),
        cancel_on_idle_timeout=False,
        enable_rtvi=False,
        enable_turn_tracking=False,
        params=PipelineParams(enable_metrics=False, enable_usage_metrics=False, enable_heartbeats=False),
    )
    began = 0.0

    async def feed():
        nonlocal began
        await started.wait()
        began = time.process_time()
        for number in range(count):
            if one_by_one:
                await asyncio.sleep(0)
            await worker.queue_frame(TextFrame(f"w{number} "))
        await worker.queue_frame(EndFrame())

    started = asyncio.Event()

    @worker.event_handler("on_pipeline_started")
    async def on_started(worker, frame):
        started.set()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), feed())
    spent = time.process_time() - began
    if sink.words != [f"w{number} " for number in range(count)]:
        raise AssertionError(f"{len(sink.words)} words came out, of {count} that went in, or in another order")
    if sink.pictures != list(range(0, count, PICTURE_EVERY)):
        raise AssertionError(f"{len(sink.pictures)} pictures came out, not each before its word")
    return {"cpu_s": spent, "tokens": len(sink.words), "pictures": len(sink.pictures)}


def main() -> None:
    """Answer until stdin ends."""
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from loguru import logger

    logger.remove()
    print(json.dumps({"version": version("pipecat-ai")}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(asyncio.run(play(*json.loads(line)))), file=answers, flush=True)


if __name__ == "__main__":
    main()
