"""Proof on the glass: play a tour once in a real browser, and judge what its viewer really saw.

The server runs in a process of its own, so that judging does not slow what is judged. Three witnesses are heard: the
server's recording (what was emitted), the player's receipts (what arrived, what was painted in which frame) and, in
the same run, the pixels (`multimodal.glass`), which know nothing of the receipts. Clips are heard of from the first
two alone: a browser paints a video's first frame a frame or two after its element is shown, so pixels cannot tell.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from multimodal.browser import launch, open_page
from multimodal.errors import SyncError, UsageError
from multimodal.events import AssetReserved, CueMissed, Reveal, StreamEnd
from multimodal.glass import VIEWPORT, Glass, agree, watch
from multimodal.sync.drift import drift_report, pairs
from multimodal.sync.holds import hold_faults
from multimodal.sync.identity import product_faults
from multimodal.sync.kit import HOLD_TOLERANCE_MS
from multimodal.sync.log import Arrived, Painted, SyncLog
from multimodal.sync.rules import policy

__all__ = ["check_tour", "serving", "summary"]

START_LIMIT = 60.0
"""Seconds a server may take until it prints its URL: reading a large catalogue on a busy machine included."""
MODEL_LIMIT = 300.0
"""The same where it reads a language model: seven seconds on two processors that have nothing else to do."""
WARM_LIMIT = 1800.0
"""The same where it encodes pictures beforehand: AVIF takes a quarter of a second a picture and size."""
STALL_LIMIT = 30.0
"""Seconds without anything new from the player after which a tour counts as stuck."""
MAX_HOLD = 0.25
"""Seconds that a hold of the served tour waits: the stream's default, which the recording's plan repeats."""
SAME_FRAME_BAR, AGREE_BAR, SHIFT_BAR, JUDGED_BAR = 0.99, 0.99, 0.001, 0.5
"""Bars: share painted in the frame of the words; share of pairs that receipts and pixels judge alike; layout shift;
share of pairs that the pixels must have been able to judge for their word to count."""

PLANNED = ("", "script", "extractive")
"""Narrators whose words no model makes, as recordings name them."""
GUARD_LINE = b"the fact guard: "
"""How a line of `multimodal.pipes.guarded` on the standard error stream begins."""

_FIT = """(() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync('product-tour { --tour-ratio: 2; --tour-text-height: 8em }');
    document.adoptedStyleSheets.push(sheet);
})()"""
"""Picture and words must both stand on the small screen that is filmed: a shop's own theme properties do that."""


async def check_tour(options: Sequence[str], *, record: Path | None = None) -> dict[str, Any]:
    """Play one tour in headless Chromium and judge it.

    Args:
        options: of `multimodal tour`, as words, for the server.
        record: where the recording goes, all vantages in one file; None = a temporary file, which is kept.

    Returns:
        The figures, ready for JSON. `ok` says that every product of the tour was named, every cue revealed or missed as
        its own policy allows, nothing was wrong, lost or doubled, and that the receipts hold and agree with the pixels.

    Raises:
        UsageError: no Chromium, no Playwright, or options that the server refuses.
        SyncError: the player reported an error, or the tour got stuck; the message says where.
    """
    path = record or Path(tempfile.mkdtemp(prefix="multimodal-")) / "tour.jsonl"
    told: list[bytes] = []
    async with (
        serving([*options, "--record", str(path)], told) as url,
        launch() as browser,
        open_page(browser, viewport=VIEWPORT) as page,
        watch(page) as glass,
    ):
        await page.add_init_script(_FIT)
        await page.goto(url)
        await page.evaluate("document.querySelector('product-tour').scrollIntoView({block: 'start'})")
        await page.evaluate("document.querySelector('product-tour').play()")
        try:
            await _until_ended(page)
        except SyncError as error:
            # The page is told that a tour stopped, and never why: that is the server's own.
            said = b"".join(told).decode(errors="replace").strip().rpartition("\n")[2]
            raise SyncError(f"{error}; the server said: {said}" if said else str(error)) from error
        seen: list[dict[str, Any]] = await page.evaluate("document.querySelector('product-tour').log")
        shop: dict[str, Any] = await page.evaluate("fetch('api/shop').then((answer) => answer.json())")
    log = _merge(SyncLog.read(path), seen)
    log.write(path)
    result = await asyncio.to_thread(_judge, log, glass, seen, path)
    # A model, or a guard that stops it, may leave out what the page announces: without a word there is no cue to miss.
    met = {event.product for event in log.of(Reveal)} | {event.product for event in log.of(CueMissed)}
    result["never_named"] = [product["id"] for product in shop["products"] if product["id"] not in met]
    result["ok"] = result["ok"] and not result["never_named"]
    # Of a model, how often the fact guard had something to tell.
    result["guard_told"] = None if result["narrator"] in PLANNED else b"".join(told).count(GUARD_LINE)
    return result


@asynccontextmanager
async def serving(options: Sequence[str], told: list[bytes] | None = None) -> AsyncIterator[str]:
    """A `multimodal tour` server in a process of its own, on any free port unless the options name one; gives its URL.

    Args:
        options: of `multimodal tour`, as words.
        told: filled with what the server writes to its standard error stream once it runs; None = thrown away.

    Raises:
        UsageError: it did not start; with its own words.
    """
    port = () if "--port" in options else ("--port", "0")
    limit = WARM_LIMIT if "--warm" in options else MODEL_LIMIT if "local" in options else START_LIMIT
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "multimodal", "tour", *port, *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        try:
            async with asyncio.timeout(limit):
                line = (await process.stdout.readline()).decode()
        except TimeoutError as error:
            raise UsageError(f"the server printed no URL within {limit:g} s; start it alone to see why") from error
        found = re.search(r"http://\S+", line)
        if found is None:
            said = (await process.stderr.read()).decode().strip() or line.strip()
            raise UsageError(said.removeprefix("multimodal tour: ") or "the server ended without a word")
        # No TaskGroup: it would wrap what the caller's block raises into a group. They end with the block.
        draining = [asyncio.create_task(_drain(process.stdout)), asyncio.create_task(_drain(process.stderr, told))]
        try:
            yield found.group()
        finally:
            for task in draining:
                task.cancel()
            await asyncio.gather(*draining, return_exceptions=True)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _drain(stream: asyncio.StreamReader, into: list[bytes] | None = None) -> None:
    while piece := await stream.read(65536):
        if into is not None:
            into.append(piece)


async def _until_ended(page: Any) -> None:
    """Wait for the player's end; nothing new for a while is an error, not a wait for ever."""
    clock = asyncio.get_running_loop().time
    known, since = -1, clock()
    while True:
        state, length, message = await page.evaluate(
            "(() => { const t = document.querySelector('product-tour');"
            " return [t.state, t.log.length, t.shadowRoot.querySelector('[part=message]')?.textContent ?? '']; })()"
        )
        if state == "ended":
            return
        if state == "error":
            raise SyncError(f"the player stopped with an error after {length} entries of its log: {message!r}")
        if length != known:
            known, since = length, clock()
        elif clock() - since > STALL_LIMIT:
            raise SyncError(f"the tour is stuck: nothing new for {STALL_LIMIT:g} s, state {state!r}, {length} entries")
        await asyncio.sleep(0.25)


def _merge(emitted: SyncLog, seen: Sequence[dict[str, Any]]) -> SyncLog:
    """The server's account of what was emitted, with the page's own of what arrived and was painted."""
    arrived = [Arrived(line["t_ms"], line["seq"]) for line in seen if line["vantage"] == "arrived"]
    painted = [
        Painted(line["t_ms"], line["frame"], line["seq"], line["visible"])
        for line in seen
        if line["vantage"] == "painted"
    ]
    return msgspec.structs.replace(emitted, arrived=tuple(arrived), painted=tuple(painted))


def _judge(log: SyncLog, glass: Glass, seen: Sequence[dict[str, Any]], path: Path) -> dict[str, Any]:
    drift = drift_report(log)
    reveals = log.of(Reveal)
    held = {e.cue for e in reveals if e.mark in log.marks and e.pts_ms > log.marks[e.mark].pts_ms}
    clips = {e.key for e in log.of(AssetReserved) if any(v.media_type.startswith("video/") for v in e.variants)}
    digests = {e.key: e.variants[0].sha256 for e in log.of(AssetReserved) if e.variants}
    pixels = glass.report([e for e in reveals if e.cue not in held], seen, clips, digests)
    judged = [pair for pair in pixels.pairs if pair.verdict in ("same", "apart")]
    countable = [pair for pair in pixels.pairs if pair.verdict != "not judged"]
    # Pixels that saw next to nothing confirm nothing.
    agreement = agree(pixels.pairs, seen) if len(judged) >= JUDGED_BAR * len(countable) else 0.0
    if not countable:
        agreement = 1.0
    skew = drift.skew_ms.get("painted")
    first_text, last_text = _text_times(log)
    start = log.start
    assert start is not None
    not_allowed = [e for e in log.of(CueMissed) if not (e.reason == "late" and policy(log, e.cue) == "skip")]
    result: dict[str, Any] = {
        # The catalogue may hold more than this tour tells of.
        "products": len({e.product for e in reveals} | {e.product for e in log.of(CueMissed) if e.product}),
        "reveals_expected": drift.reveals_expected,
        "reveals_shown": drift.reveals_shown,
        "missed": drift.missed,
        "wrong_products": sum(1 for _ in product_faults(log, {}, {}, False)),
        "token_drift_max": drift.token_drift_max or 0,
        "skew_ms": {"p50": skew.p50, "p95": skew.p95, "max": skew.max} if skew else None,
        "same_frame_share": drift.same_frame_share,
        "layout_shift": round(pixels.layout_shift, 6),
        "events_lost": drift.events_lost,
        "events_duplicated": drift.events_duplicated,
        "first_text_ms": first_text,
        "total_ms": last_text,
        "transport": "webrtc",
        "narrator": start.narrator,
        "sync_interval": start.sync_interval,
        "late": start.late,
        "receipts_agree": agreement >= AGREE_BAR,
        "pixel_same_frame_share": pixels.same_frame_share if pixels.pairs else None,
        # Beyond the fixed fields: what stands behind the verdicts.
        "pixel_pairs": dict(Counter(pair.verdict for pair in pixels.pairs)),
        "clips": pixels.clips,
        "held": len(held),
        "off_mark": sum(pair.at != pair.reveal.mark for pair in pairs(log)),
        "holds_broken": sum(1 for _ in hold_faults(log, MAX_HOLD, HOLD_TOLERANCE_MS)),
        "apart": drift.apart,
        "log": str(path),
    }
    share = drift.same_frame_share
    result["ok"] = bool(
        drift.reveals_shown + sum(drift.missed.values()) == drift.reveals_expected > 0
        and not (not_allowed or result["off_mark"] or result["holds_broken"])
        and not result["wrong_products"]
        and result["token_drift_max"] < start.sync_interval
        and (share is None if not drift.judged else share is not None and share >= SAME_FRAME_BAR)
        and pixels.layout_shift <= SHIFT_BAR
        and not drift.events_lost
        and not drift.events_duplicated
        and result["receipts_agree"]
        and any(isinstance(event, StreamEnd) and event.reason == "complete" for event in log.events)
    )
    return result


def _text_times(log: SyncLog) -> tuple[float | None, float | None]:
    """Milliseconds from the arrival of `start`, the answer to the hello, to the first and last painted text."""
    begin = log.arrival.get(0)
    frames = [log.frame_of(text.seq) for text in log.texts if text.text]
    times = [frame.t_ms for frame in frames if frame is not None]
    if begin is None or not times:
        return None, None
    return round(times[0] - begin, 1), round(times[-1] - begin, 1)


def summary(result: dict[str, Any]) -> str:
    """The figures of `check_tour` for people."""
    skew = result["skew_ms"]
    missed = ", ".join(f"{count} {reason}" for reason, count in result["missed"].items()) or "none"
    pairs = ", ".join(f"{count} {verdict}" for verdict, count in sorted(result["pixel_pairs"].items())) or "none"
    if clips := result["clips"]:
        pairs += f"; {clips} {'clip' if clips == 1 else 'clips'} not judged by pixels"

    def share(value: float | None) -> str:
        return "none judged" if value is None else f"{value:.3f}"

    return "\n".join(
        [
            f"{'OK' if result['ok'] else 'NOT OK'}: {result['reveals_shown']} of {result['reveals_expected']} pictures "
            f"of {result['products']} products shown; missed: {missed}",
            *([f"never named         {_listed(result['never_named'])}"] if result["never_named"] else []),
            f"wrong products      {result['wrong_products']}",
            f"token drift         at most {result['token_drift_max']} (interval {result['sync_interval']})",
            "skew on the glass   "
            + (
                f"p50 {skew['p50']:+.1f} ms, p95 {skew['p95']:+.1f} ms, max {skew['max']:+.1f} ms"
                if skew
                else "none judged"
            ),
            f"same frame          {share(result['same_frame_share'])} by receipts, "
            f"{share(result['pixel_same_frame_share'])} by pixels ({pairs}); "
            f"receipts {'agree' if result['receipts_agree'] else 'DISAGREE'}",
            f"layout shift        {result['layout_shift']:g}",
            f"events              {result['events_lost']} lost, {result['events_duplicated']} duplicated",
            f"first text          {result['first_text_ms']} ms, last {result['total_ms']} ms",
            f"narrator            {result['narrator'] or 'not said'}"
            + ("" if result["guard_told"] is None else f"; the fact guard told of {_sentences(result['guard_told'])}"),
            f"recording           {result['log']}",
        ]
    )


def _listed(products: Sequence[str]) -> str:
    more = f" and {len(products) - 5} more" if len(products) > 5 else ""
    return f"{len(products)} of the tour's products: {', '.join(products[:5])}{more}"


def _sentences(count: int) -> str:
    return f"{count} sentence{'' if count == 1 else 's'}"
