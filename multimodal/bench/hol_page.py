"""The same run with a real Chromium as viewer: a bare page that acknowledges as the player does, and paints nothing.

Times of the page are its own clock's, of the server the wall clock's; both are this machine's, and the page reads the
wall clock when it is opened.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from multimodal.bench.hol_disciplines import DISCIPLINES
from multimodal.bench.hol_stage import Run, Server, Shape, answer_behind, joined, relays_for
from multimodal.browser import open_page
from multimodal.transport.webrtc import WebRTCLink

if TYPE_CHECKING:
    from playwright.async_api import Browser

__all__ = ["play_in"]


async def play_in(browser: Browser, road: str, discipline: str, shape: Shape, seed: int = 0) -> Run:
    """With a viewer in this browser; else as `hol_stage.play`."""
    plan = DISCIPLINES[discipline]
    server = Server(plan, shape, time.time)
    async with AsyncExitStack() as stack:
        relays = await relays_for(stack, road, plan.connections, seed)
        page = await stack.enter_async_context(open_page(browser))
        await page.evaluate(_PAGE)
        offers: list[str] = await page.evaluate("connect", plan.connections)
        links: list[WebRTCLink] = []
        answers = []
        for number, offer in enumerate(offers):
            link, answer = await answer_behind(relays, number, offer)
            links.append(link)
            answers.append(answer)
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve(joined(links), links))
            await page.evaluate("accept", answers)
        seen: dict[str, Any] = await page.evaluate("seen")
    words = {int(seq): at for seq, at in seen["words"].items()}
    return server.result(words, seen["pictures"], relays[0] if relays else None)


_PAGE = """() => {
    const now = () => performance.timeOrigin + performance.now();
    const roads = [], left = {};
    let seq = -1, bytes = 0, ackedBytes = 0, ackedAt = 0, timer = 0, frame = 0;
    window.seen = { words: {}, pictures: {} };
    const say = (message) => {
        const { events } = roads[0];
        if (events.readyState === 'open') events.send(JSON.stringify(message));
    };
    const ack = () => {
        const t = performance.now();
        if (bytes - ackedBytes < 16384 && t - ackedAt < 50) {
            timer ||= setTimeout(() => { timer = 0; ack(); }, 50);
            return;
        }
        clearTimeout(timer);
        timer = 0;
        ackedBytes = bytes;
        ackedAt = t;
        say({ type: 'ack', seq, picture_bytes: bytes });
    };
    const onEvent = ({ data }) => {
        const t = now() / 1000, { type, id, t_ms, events } = JSON.parse(data);
        if (type === 'ping') say({ type: 'pong', id, t_ms, at_ms: performance.now() });
        if (type !== 'bundle') return;
        for (const event of events) {
            seq = event.seq;
            if (event.kind === 'text') seen.words[seq] = t;
        }
        ack();
        say({ type: 'painted', seq, t_ms: performance.now(), frame: ++frame });
        if (events.at(-1).kind === 'end') say({ type: 'bye', reason: 'end' });
    };
    const onPart = ({ data }) => {
        const view = new DataView(data), start = 16 + view.getUint16(2);
        const key = new TextDecoder().decode(new Uint8Array(data, 16, start - 16));
        bytes += data.byteLength - start;
        left[key] = (left[key] ?? view.getUint32(8)) - (data.byteLength - start);
        ack();
        if (left[key]) return;
        seen.pictures[key] = now() / 1000;
        say({ type: 'ready', key, ok: true });
    };
    window.connect = async (count) => {
        for (let number = 0; number < count; number++) {
            const pc = new RTCPeerConnection();
            const events = pc.createDataChannel('events', { negotiated: true, id: 0 });
            const images = pc.createDataChannel('images', { negotiated: true, id: 1, ordered: false });
            images.binaryType = 'arraybuffer';
            images.onmessage = onPart;
            roads.push({ pc, events, open: new Promise((resolve) => { events.onopen = resolve; }) });
            await pc.setLocalDescription();
        }
        roads[0].events.onmessage = onEvent;
        Promise.all(roads.map(({ open }) => open)).then(() => say(
            { type: 'hello', v: 1, cursor: -1, formats: ['image/webp'], viewport: [800, 600], dpr: 1 }));
        return roads.map(({ pc }) => pc.localDescription.sdp);
    };
    window.accept = async (answers) => {
        for (const [number, sdp] of answers.entries())
            await roads[number].pc.setRemoteDescription({ type: 'answer', sdp });
    };
}"""
