"""A long tour on a slow device: 2,000 words for a Chromium whose processor is throttled four times.

The tour is told from a catalogue that is made for it, by a server process of its own; the browser reads it under
`Emulation.setCPUThrottlingRate`. A player that falls behind a little with every word would show it as a slope of the
painted skew; the slope is held against its own noise (`multimodal.sync.growth`). That words as a whole do not fall
behind is told by their way from emission to paint, in the last quarter of the tour against the first. A tab that is
hidden for a minute is in the benchmark `links`.
"""

from __future__ import annotations

import argparse
import asyncio
import colorsys
import csv
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from multimodal.bench.links import skew_growth
from multimodal.bench.report import figure, report
from multimodal.browser import launch, open_page
from multimodal.check import serving
from multimodal.sync.browsing import PlayerPage
from multimodal.sync.drift import drift_report
from multimodal.sync.log import SyncLog

THROTTLE = 4.0
INTERVAL = 3
WORDS_PER_PRODUCT = 20
"""Two of its name, two of its price, and a sentence between them."""
WAY_BAR_MS = 100.0
"""A longer way at the end than at the beginning, beyond a busy machine's noise, is a queue that grows."""


class Length(msgspec.Struct, frozen=True):
    """How long the tour is: its products, and how many times faster than naturally they are told."""

    products: int = 100
    speed: float = 5.0


QUICK = Length(products=12, speed=10.0)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About two minutes; `--quick` less than half of one."""
    length = QUICK if options.quick else Length()
    print(f"slow-client: {length.products * WORDS_PER_PRODUCT} words ...", file=sys.stderr, flush=True)
    return judge(asyncio.run(play(length)), length)


async def play(length: Length) -> SyncLog:
    """The tour, once, as emitted and as painted.

    Raises:
        UsageError: no Chromium, or no Playwright.
        SyncError: the player stopped with an error, or did not come to the end in the time of two such tours.
    """
    with tempfile.TemporaryDirectory(prefix="multimodal-") as name:
        folder = Path(name)
        table = await asyncio.to_thread(make_catalogue, folder, length.products)
        recording = folder / "tour.jsonl"
        # The catalogue's own words: how many they are is what is measured.
        words = ["--catalog", str(table), "--narrator", "script", "--sync-interval", str(INTERVAL)]
        words += ["--speed", f"{length.speed:g}"]
        async with (
            serving([*words, "--record", str(recording)]) as url,
            launch() as browser,
            open_page(browser) as page,
        ):
            await page.goto(url)
            await page.evaluate("document.querySelector('product-tour').scrollIntoView({block: 'start'})")
            session = await page.context.new_cdp_session(page)
            await session.send("Emulation.setCPUThrottlingRate", {"rate": THROTTLE})
            player = PlayerPage(page, recording)
            await player.play()
            await player.until("ended", 30 + 0.5 * length.products * WORDS_PER_PRODUCT / length.speed)
            return await player.log()


def judge(log: SyncLog, length: Length) -> dict[str, Any]:
    """What `play` gave, held against the bars."""
    drift = drift_report(log)
    growth = skew_growth(log)
    ways = _ways(log)
    quarter = max(1, len(ways) // 4)
    first, last = statistics.median(ways[:quarter]), statistics.median(ways[-quarter:])
    share = float("nan") if drift.same_frame_share is None else drift.same_frame_share
    drifted = float("nan") if drift.token_drift_max is None else drift.token_drift_max
    told, painted = length.products * WORDS_PER_PRODUCT, _painted(log)
    figures = [
        figure("words painted", painted, "words", told, "higher"),
        figure("cues not revealed", drift.reveals_expected - drift.reveals_shown, "cues", 0),
        figure("events lost", drift.events_lost, "events", 0),
        figure("events duplicated", drift.events_duplicated, "events", 0),
        figure("token drift", drifted, "tokens", INTERVAL - 1),
        figure("same-frame share", share, "share", 0.99, "higher"),
        figure(
            "growth of painted skew (limit: what its noise explains)",
            abs(growth.slope) * 60_000,
            "ms/min",
            growth.bound * 60_000,
        ),
        figure("way of words, last quarter against first, medians", last - first, "ms", WAY_BAR_MS),
    ]
    skew = drift.skew_ms.get("painted")
    ours = {
        "throttle": THROTTLE,
        "speed": length.speed,
        "reveals": drift.reveals_shown,
        "judged": drift.judged,
        "apart": drift.apart,
        "skew_ms": {"p50": skew.p50, "p95": skew.p95, "max": skew.max} if skew else None,
        "slope_ms_per_minute": growth.slope * 60_000,
        "slope_error_ms_per_minute": growth.error * 60_000,
        "painted_for_s": _painted_for(log),
    }
    return report("slow-client", figures, ours, packages=("aiortc", "playwright"))


def make_catalogue(folder: Path, products: int) -> Path:
    """A CSV of invented products, each told in `WORDS_PER_PRODUCT` words, with a drawn picture each."""
    from PIL import Image, ImageDraw

    chance = random.Random(1)
    table = folder / "products.csv"
    names: dict[str, None] = {}
    while len(names) < products:
        names[f"{_word(chance).title()} {_word(chance).title()}"] = None
    with table.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "title", "description", "image", "price", "currency"])
        for number, name in enumerate(names):
            sentence = " ".join(_word(chance) for _ in range(WORDS_PER_PRODUCT - 4)).capitalize() + "."
            rows.writerow([f"p{number}", name, sentence, f"p{number}.png", f"{number + 1}.50", "EUR"])
            red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(number / products, 0.6, 0.9))
            picture = Image.new("RGB", (480, 360), (red, green, blue))
            draw = ImageDraw.Draw(picture)
            for _ in range(12):
                x, y, radius = chance.randrange(480), chance.randrange(360), chance.randrange(10, 90)
                draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(blue, red, chance.randrange(256)))
            picture.save(folder / f"p{number}.png")
    return table


def _word(chance: random.Random) -> str:
    return "".join(chance.choice("bdfgklmnprstv") + chance.choice("aeiou") for _ in range(chance.randint(2, 3)))


def _ways(log: SyncLog) -> list[float]:
    """Milliseconds from emission to paint of every text, all off by one constant: the distance of the two clocks."""
    frames = [(text.pts_ms, log.frame_of(text.seq)) for text in log.texts]
    return [frame.t_ms - pts_ms for pts_ms, frame in frames if frame is not None]


def _painted(log: SyncLog) -> int:
    return sum(text.token_count for text in log.texts if log.frame_of(text.seq) is not None)


def _painted_for(log: SyncLog) -> float:
    """Seconds from the first painted frame to the last."""
    times = [frame.t_ms for frame in log.painted]
    return round((max(times) - min(times)) / 1000, 1) if times else 0.0
