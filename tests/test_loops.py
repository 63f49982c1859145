"""What needs a running event loop, and is made or used where none runs: one clear error, and nothing is changed."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.loops import loop_here
from multimodal.pipes.images import ImageStore
from multimodal.pipes.remote_pictures import RemotePictures
from multimodal.pipes.samples import samples
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.link import LinkProfile
from multimodal.sync.relay import UdpRelay
from multimodal.transport.live import LiveSession
from multimodal.transport.memory import memory_link
from multimodal.transport.resilient import ResilientViewer
from multimodal.transport.viewer import Viewer
from tests.support import virtual
from tests.test_layout import modules
from tests.transport.events import picture

JUDGES_ITSELF = {
    ("multimodal.loops", "loop_here"),
    ("multimodal.pipes.callback_holding", "loop_for"),
    ("multimodal.pipes.callbacks", "drain"),
    ("multimodal.pipes.script_rows", "running_loop"),
    ("multimodal.sync.plugin", "_play"),
    ("multimodal.sync.browsing", "play"),
    ("multimodal.sync.virtual", "_running"),
}
"""Functions that ask whether a loop runs, and have an answer of their own where none does."""


def test_where_no_loop_runs_it_says_so_and_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"^a kettle needs a running event loop, .* `asyncio.run\(main\(\)\)`$"):
        loop_here("a kettle")

    async def inside() -> None:
        assert loop_here("a kettle") is asyncio.get_running_loop()

    asyncio.run(inside())


def link() -> Any:
    async def make() -> Any:
        return memory_link()[1]

    return virtual(make())


@pytest.mark.parametrize(
    ("who", "act"),
    [
        ("Viewer(...)", lambda: Viewer(link())),
        ("ResilientViewer(...)", lambda: ResilientViewer("http://127.0.0.1:1/whep/demo")),
        ("memory_link()", memory_link),
        ("UdpRelay(...)", lambda: UdpRelay(LinkProfile())),
        ("fetch()", lambda: RemotePictures().fetch("http://127.0.0.1/kettle.png")),
        ("preparing pictures", lambda: ImageStore().prepare(samples("kettle") / "1-hero.jpg")),
        ("want()", lambda: PlannedScriptImagePipe([picture("p", 10)]).want(["p"])),
        ("a session", lambda: LiveSession(MultiModalStream(ScriptTextPipe("a"), ScriptImagePipe([]))).now()),
    ],
)
def test_public_things_that_need_one(who: str, act: Callable[[], object]) -> None:
    with pytest.raises(UsageError) as caught:
        act()
    assert str(caught.value).startswith(f"{who} needs a running event loop")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_pipe_that_was_asked_without_one_was_asked_nothing() -> None:
    pipe = PlannedScriptImagePipe([picture("p", 10)])
    with pytest.raises(UsageError, match="running event loop"):
        pipe.want(["p"])
    assert pipe.wanted == []


def test_a_viewer_and_a_stream_that_are_spoken_to_from_another_thread() -> None:
    """Both belong to their loop: what another thread said would be lost, or come at some later time."""

    async def scenario() -> None:
        viewer = Viewer(memory_link()[1])
        stream = MultiModalStream(ScriptTextPipe("one two three", gap=0.1), ScriptImagePipe([]))
        async with stream:
            for act in (viewer.interrupt, stream.interrupt, lambda: stream.say(ScriptTextPipe("four"))):
                with pytest.raises(UsageError, match="needs a running event loop"):
                    await asyncio.to_thread(act)
            stream.interrupt()
        assert [message.partition(",")[0] for message in viewer.protocol.outgoing()] == ['{"type":"hello"']

    asyncio.run(scenario())


def _asks_for_the_loop(path: Path) -> list[str]:
    """Functions outside coroutines in which a missing loop would come out as a RuntimeError."""
    found: list[str] = []

    def visit(node: ast.AST, owner: ast.AST | None) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else owner
            if isinstance(child, ast.Call) and isinstance(owner, ast.FunctionDef):
                name = ast.unparse(child.func)
                if name in {"asyncio.get_running_loop", "asyncio.get_event_loop", "asyncio.create_task"}:
                    found.append(owner.name)
            visit(child, inner)

    visit(ast.parse(path.read_text()), None)
    return found


def test_nobody_else_takes_a_loop_for_granted() -> None:
    found = {
        (module, function)
        for module, path in modules().items()
        if not module.startswith(("multimodal.bench", "multimodal.demos", "multimodal.doctor"))
        for function in _asks_for_the_loop(path)
    }
    assert found - JUDGES_ITSELF == set()
