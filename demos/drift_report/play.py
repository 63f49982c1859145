"""One tour under a condition: a simulated network, slow pictures or a hidden tab, on a virtual clock.

Between server and viewer stands the link in memory (`multimodal.transport.memory`). The viewer is the one in Python: it
has no screen, takes `DECODE` for every picture, and paints each bundle whole in the instant in which it arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from multimodal.demos.product_tour.tour import Settings, Tour
from multimodal.errors import UsageError
from multimodal.pipes.catalog import CatalogImagePipe
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptedPicture
from multimodal.sync.link import PROFILES, Network
from multimodal.sync.linked import LinkPlayer
from multimodal.sync.log import SyncLog
from multimodal.sync.virtual import VirtualClock

__all__ = ["CONDITIONS", "DEFAULT", "Condition", "choose", "play", "prepare"]

DECODE = 0.02
"""Seconds that the viewer's decoding of a picture takes: a photograph of 800 pixels on a modest phone."""
SLOW_CDN = 2.0
"""Seconds behind its first mark at which a picture of the slow CDN is ready."""
HIDDEN = (0.25, 0.5)
"""The part of the tour for which the tab is hidden."""


class Condition(msgspec.Struct, frozen=True):
    """What a tour is played under.

    Args:
        title: for people.
        about: what it does, in a few words.
        network: between server and viewer.
        slow_images: seconds, as for `multimodal.MultiModalStream`.
        hidden: shares of the tour between which the viewer's tab is hidden; None = never.
    """

    title: str
    about: str
    network: Network
    slow_images: float = 0.0
    hidden: tuple[float, float] | None = None


CONDITIONS: Mapping[str, Condition] = {
    "good": Condition("Good", "20 Mb/s, round trip 4 ms", PROFILES["good"]),
    "4g": Condition("4G", "9 Mb/s, round trip 170 ms", PROFILES["4g"]),
    "lossy": Condition("Lossy", "2 % lost each way, round trip 60 ms", PROFILES["lossy"]),
    "slow-cdn": Condition(
        "Slow CDN", f"pictures ready only {SLOW_CDN:g} s after their words", PROFILES["good"], slow_images=SLOW_CDN
    ),
    "hidden-tab": Condition("Hidden tab", "out of sight for a quarter of the tour", PROFILES["good"], hidden=HIDDEN),
    "slow": Condition("Slow", "4 Mb/s, round trip 100 ms", PROFILES["slow"]),
    "jittery": Condition("Jittery", "up to 300 ms of jitter each way", PROFILES["jittery"]),
}
DEFAULT = ("good", "4g", "lossy", "slow-cdn", "hidden-tab")


def choose(names: Sequence[str]) -> dict[str, Condition]:
    """The conditions of these names, in this order; capitals are as good as small letters.

    Raises:
        UsageError: there is no such condition, or none was named.
    """
    chosen = {}
    for name in (name.strip().lower() for name in names):
        if name not in CONDITIONS:
            raise UsageError(f"there is no profile {name!r}; there are: {', '.join(CONDITIONS)}")
        chosen[name] = CONDITIONS[name]
    if not chosen:
        raise UsageError(f"no profile was named; there are: {', '.join(CONDITIONS)}")
    return chosen


async def prepare(tour: Tour) -> list[ScriptedPicture]:
    """The tour's pictures, ready to send. In real time: worker threads and a virtual clock do not mix."""
    return [picture async for picture in CatalogImagePipe(tour.catalog)]


def play(
    tour: Tour, pictures: Sequence[ScriptedPicture], name: str, condition: Condition, *, speed: float = 1.0
) -> SyncLog:
    """The recording of the tour under a condition, the same every time.

    Args:
        tour: what is told.
        pictures: what `prepare` gave.
        name: becomes the recording's, as `NAME.jsonl`.
        condition: under which it is played.
        speed: of the narration.

    Raises:
        UsageError: `speed` is not above 0.
        SyncError: the tour came to no end.
    """
    settings = Settings(speed=speed, slow_images=condition.slow_images)
    with VirtualClock() as clock:
        log = LinkPlayer(clock, lambda made: None)(
            condition.network,
            decode=DECODE,
            limit=3600.0 / min(speed, 1.0) if speed > 0 else 1.0,
            text_pipe=tour.text_pipe(settings),
            image_pipe=PlannedScriptImagePipe(pictures, products=tour.catalog.products),
            sync_interval=settings.sync_interval,
            cues=tour.plan.cues,
            slow_images=settings.slow_images,
        )
    if condition.hidden is not None:
        log = _hide(log, *condition.hidden)
    return msgspec.structs.replace(log, source=f"{name}.jsonl")


def _hide(log: SyncLog, begin: float, end: float) -> SyncLog:
    """Hidden, the player puts into the page at once whatever arrives, as this viewer always does; its receipts say so.

    So the receipts are all that differs.
    """
    last_ms = max((receipt.t_ms for receipt in log.painted), default=0.0)
    painted = tuple(
        msgspec.structs.replace(receipt, visible=False) if begin * last_ms <= receipt.t_ms < end * last_ms else receipt
        for receipt in log.painted
    )
    return msgspec.structs.replace(log, painted=painted)
