"""What runs on the machines of the lab: a server with a tour that is known word for word, and viewers that keep a log.

Each role is a process of its own (`python -m tests.netns.places ROLE ...`) and tells what it saw as one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from multimodal import wire
from multimodal.events import AnyEvent
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.serving.run import SmallBuffers
from multimodal.stream import MultiModalStream
from multimodal.transport.webrtc import IceServer
from multimodal.values import EncodedImage
from tests.coturn import credentials
from tests.netns.hostile import SERVER
from tests.proxy import proxying
from tests.support import run

GAP = 0.1
PORT, INNER = 8080, 8081
URL = f"http://{SERVER}:{PORT}/tour/whep/demo"
_LIMIT = 90.0
_PAGE = """<!doctype html><link rel="icon" href="data:,">
<script type="module" src="/tour/player/product-tour.js"></script><product-tour src="/tour/whep/demo"></product-tour>"""


def words(count: int) -> list[str]:
    """The tour's words, no two alike, so that one that is lost or told twice is seen in the text alone."""
    return [f"w{number} " for number in range(count)]


def pictures() -> list[EncodedImage]:
    """Some real ones, large enough to need many parts."""
    from multimodal.pipes.samples import samples

    return [
        EncodedImage(path.stem, path.read_bytes(), "image/jpeg", 64, 64) for path in sorted(samples("kettle").iterdir())
    ]


# ---- the server's machine


async def serve(options: argparse.Namespace) -> None:
    """Serve until standard input ends; what every stream emitted goes to the file given."""

    def make(tour: str) -> MultiModalStream:
        text, images = ScriptTextPipe(words(options.words), gap=GAP), ScriptImagePipe(pictures())
        # Its end waits for the pictures as long as a busy machine takes for them.
        return MultiModalStream(text, images, 3, swap_wait=_LIMIT)

    def recorder(stream: MultiModalStream) -> Callable[[dict[str, Any]], None]:
        emitted = Path(options.record)

        def record(line: dict[str, Any]) -> None:
            if line["vantage"] == "emitted":
                with emitted.open("a") as file:
                    file.write(json.dumps(line["event"], default=str) + "\n")

        return record

    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(_PAGE)

    tours = asgi(make, recorder=recorder, quotas=Quotas.unlimited())
    app = Starlette(routes=[Route("/", page), Mount("/tour", tours)])
    host, port = ("127.0.0.1", INNER) if options.proxy else (SERVER, PORT)
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", ws=SmallBuffers, ws_ping_interval=None)
    server = uvicorn.Server(config)
    async with AsyncExitStack() as stack:
        if options.proxy:
            faults: dict[str, bool | str] = {"refuse_upgrades": True}
            await stack.enter_async_context(proxying((host, port), SERVER, PORT, **faults))
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it; the lab has a limit
                await asyncio.sleep(0.01)
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.read)
            await tours.state.sessions.aclose()
            server.should_exit = True


# ---- the viewer's machine


class Watched:
    """What a viewer saw, and when."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.at: list[float] = []
        self.seqs: list[int] = []
        self.text = ""
        self.sid = ""

    def show(self, events: tuple[AnyEvent, ...]) -> None:
        """One bundle was painted."""
        now = time.monotonic() - self.began
        for event in events:
            self.seqs.append(event.seq)
            self.sid = event.sid
            self.text += getattr(event, "text", "")
        self.at.append(now)
        if len(self.at) == 1:
            print("begun", flush=True)

    def told(self, **more: Any) -> str:
        """For the lab: times in seconds from the start of the viewer."""
        gaps = [(later - earlier, earlier) for earlier, later in zip(self.at, self.at[1:], strict=False)]
        return json.dumps(
            {
                "first": self.at[0] if self.at else None,
                "last": self.at[-1] if self.at else None,
                "gap": max(gaps)[0] if gaps else None,
                "gap_at": max(gaps)[1] if gaps else None,
                "sid": self.sid,
                "seqs": self.seqs,
                "text": self.text,
                **more,
            }
        )


async def relayed(options: argparse.Namespace) -> None:
    """Watch by WebRTC through the relay only."""
    from multimodal.transport.viewer import Viewer
    from multimodal.transport.whep import join

    user, password = credentials()
    await _told_to_go()
    watched = Watched()
    link, _ = await join(URL, ice_servers=[IceServer(options.relay, user, password)], relay_only=True)
    offer = link._pc.localDescription.sdp
    seen = await Viewer(link, hello=_hello(), on_show=watched.show).watch()
    kinds = sorted({line.split(" typ ")[1].split()[0] for line in offer.splitlines() if " typ " in line})
    print(watched.told(ended=seen.ended, pictures=sorted(seen.pictures), kinds=kinds))


async def watch(options: argparse.Namespace) -> None:
    """Watch as a player does: by itself on whatever road there is."""
    from multimodal.transport.resilient import ResilientViewer

    # What a road loads at its first use is no part of the switch to it.
    for library in ("aiortc", "httpx2", "websockets.asyncio.client"):
        importlib.import_module(library)
    await _told_to_go()
    watched = Watched()
    viewer = ResilientViewer(URL, hello=_hello(), on_show=watched.show)
    seen = await viewer.watch()
    print(
        watched.told(
            ended=seen.ended,
            pictures=sorted(seen.pictures),
            connections=viewer.connections,
            failures=viewer.failures,
        )
    )


async def look(options: argparse.Namespace) -> None:
    """Watch with the player, in a real Chromium."""
    from multimodal.browser import launch, open_page

    user, password = credentials()
    # A page from another machine has no cache and no digests unless it counts as secure.
    secure = f"--unsafely-treat-insecure-origin-as-secure=http://{SERVER}:{PORT}"
    async with launch(args=[secure]) as browser, open_page(browser) as page:
        await page.add_init_script(_NOTES)
        await page.goto(f"http://{SERVER}:{PORT}/")
        servers = [{"urls": options.relay, "username": user, "credential": password}] if options.relay else []
        await _told_to_go()
        await page.evaluate("(servers) => window.begin(servers)", servers)
        await page.wait_for_function("() => window.seqs().length > 0", timeout=_LIMIT * 1000)
        print("begun", flush=True)
        await page.wait_for_function("() => ['ended', 'error'].includes(tour.state)", timeout=_LIMIT * 1000, polling=50)
        await asyncio.sleep(0.3)
        print(json.dumps(await page.evaluate("() => window.told()")))


_NOTES = """(() => {
  const roads = [];
  const Real = window.RTCPeerConnection, Socket = window.WebSocket, get = window.fetch;
  window.RTCPeerConnection = class extends Real {
    constructor(config) {
      super(config);
      this.addEventListener('connectionstatechange', () => this.connectionState === 'connected' && roads.push('whep'));
    }
  };
  window.WebSocket = class extends Socket {
    constructor(...words) {
      super(...words);
      this.addEventListener('open', () => roads.push('ws'));
    }
  };
  window.fetch = async (url, ...rest) => {
    const answer = await get(url, ...rest);
    if (answer.ok && answer.headers.get('content-type')?.startsWith('text/event-stream')) roads.push('sse');
    return answer;
  };
  const arrived = () => tour.log.filter((line) => line.vantage === 'arrived');
  window.seqs = () => arrived().map((line) => line.seq);
  window.begin = (servers) => {
    window.tour = document.querySelector('product-tour');
    window.began = performance.now();
    tour.iceServers = servers;
    if (servers.length) tour.iceTransportPolicy = 'relay';
    tour.play();
  };
  window.told = () => {
    const lines = arrived(), at = [...new Set(lines.map((line) => line.t_ms))].map((t) => (t - began) / 1000);
    const gaps = at.slice(1).map((t, i) => [t - at[i], at[i]]).sort((a, b) => b[0] - a[0]);
    return {
      first: at[0], last: at.at(-1), gap: gaps[0]?.[0] ?? null, gap_at: gaps[0]?.[1] ?? null,
      sid: lines.at(-1)?.event.sid, seqs: window.seqs(),
      text: lines.map((line) => line.event.text ?? '').join(''),
      // As a reader sees it: words stand in elements of their own, spaces between them.
      screen: tour.shadowRoot.querySelector('.text').innerText.replace(/\\s+/g, ' ').trim(),
      ended: tour.state, connections: roads, pictures: tour.stats.reveals,
    };
  };
})()"""


async def _told_to_go() -> None:
    """All viewers of a lab begin together, however long it took them to get here."""
    print("here", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def _hello() -> wire.Hello:
    return wire.Hello(formats=("image/jpeg",))


_ROLES = {"serve": serve, "relayed": relayed, "watch": watch, "look": look}


def main() -> None:
    """Play one role."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=_ROLES)
    parser.add_argument("--words", type=int, default=40)
    parser.add_argument("--record", default="")
    parser.add_argument("--relay", default="")
    parser.add_argument("--proxy", action="store_true", help="one that refuses upgrades stands before the server")
    options = parser.parse_args()
    run(_ROLES[options.role](options), _LIMIT)


if __name__ == "__main__":
    main()
