"""`multimodal plan`: a tour's timeline without a model and without a viewer, and what its author may not have meant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from multimodal.demos.product_tour.tour import Settings, Tour
from multimodal.events import ProductBrief
from multimodal.pipes.base import TextPipe
from multimodal.pipes.catalog import CatalogImagePipe
from multimodal.sync.plan import lint, planned, rehearse
from multimodal.sync.virtual import VirtualClock
from multimodal.values import EncodedImage

__all__ = ["plan_text", "plan_tour"]


def plan_tour(tour: Tour, settings: Settings, *, min_dwell: float, link_kbps: float | None) -> dict[str, Any]:
    """Rehearse a tour; the result is ready for JSON.

    Args:
        tour: what would be told.
        settings: how; policies and slow pictures do not matter here, for every picture is there in time.
        min_dwell: seconds that a picture should stand.
        link_kbps: the viewer's link, for which the pictures are encoded to know their sizes; None = not judged.

    Returns:
        `tour`, `tokens`, `seconds`, `sync_interval`, `pictures` (`multimodal.sync.plan.Planned`), `findings`, `ok`.

    Raises:
        UsageError: a setting out of range.
    """
    with VirtualClock() as clock:
        tokens = clock.run(_timed(tour.text_pipe(settings)))
    products = [ProductBrief(product.id, product.title, product.aliases) for product in tour.catalog.products]
    there = {picture.key for picture in tour.catalog.pictures if picture.path is not None}
    missing = {cue.key for cue in tour.plan.cues} - there
    cues, interval = tour.plan.cues, settings.sync_interval
    log = rehearse(tokens, cues, sync_interval=interval, products=products, missing=missing)
    sizes = {} if link_kbps is None else asyncio.run(_sizes(tour, [cue.key for cue in tour.plan.cues]))
    # A product that the tour leaves out, and a clip beside a product's pictures, are not forgotten but spared.
    told = {cue.product for cue in cues}
    stills = {picture.key for picture in tour.catalog.pictures if picture.product in told and not picture.clip}
    findings = lint(log, pictures=sorted(stills & there), sizes=sizes, min_dwell=min_dwell, link_kbps=link_kbps)
    return {
        "tour": tour.name,
        "tokens": log.tokens,
        "seconds": round(log.events[-1].pts_ms / 1000, 3) if log.events else 0.0,
        "sync_interval": settings.sync_interval,
        "pictures": [msgspec.to_builtins(place) for place in planned(log, sizes)],
        "findings": [msgspec.to_builtins(finding) for finding in findings],
        "ok": not findings,
    }


async def _timed(pipe: TextPipe) -> list[tuple[float, str]]:
    """Every token with its time, from 0."""
    clock = asyncio.get_running_loop().time
    found: list[tuple[float, str]] = []
    async for token in pipe:
        found.append((clock(), token if isinstance(token, str) else token.text))
    return found


async def _sizes(tour: Tour, keys: Sequence[str]) -> dict[str, int]:
    """How many bytes each picture has when it is sent."""
    pipe = CatalogImagePipe(tour.catalog)
    pipe.want(tuple(dict.fromkeys(keys)), final=True)
    try:
        return {image.key: len(image.data) async for image in pipe if isinstance(image, EncodedImage)}
    finally:
        await pipe.aclose()


def plan_text(result: dict[str, Any]) -> str:
    """The same for people."""
    wide = max([len("picture"), *(len(place["key"]) for place in result["pictures"])])
    lines = [
        f"{result['tour']}: {result['tokens']} tokens over {result['seconds']:.1f} s,"
        f" a sync mark every {result['sync_interval']}",
        "",
        f"{'at':>8}  {'token':>5}  {'mark':>5}  {'picture':{wide}}  words",
    ]
    for place in result["pictures"]:
        size = "" if place["size_bytes"] is None else f"  ({place['size_bytes'] / 1024:.0f} KiB)"
        where = f"{place['at']:7.2f}s  {place['anchor']:5}  {place['mark']:5}"
        lines.append(f"{where}  {place['key']:{wide}}  {' '.join(place['words'].split())}{size}")
    lines.append("")
    for finding in result["findings"]:
        where = "" if finding["token"] is None else f"token {finding['token']}: "
        lines.append(f"{finding['code']:13}  {where}{finding['message']}")
    count = len(result["findings"])
    lines.append("nothing to remark" if not count else f"{count} {'remark' if count == 1 else 'remarks'}")
    return "\n".join(lines)
