"""Tours over a simulated network, on virtual time: stream, session, link in memory and viewer in one process."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.errors import SyncError
from multimodal.sync.link import LinkProfile, Network
from multimodal.sync.log import SyncLog
from multimodal.sync.virtual import VirtualClock

if TYPE_CHECKING:
    from multimodal.transport.memory import MemoryLink

__all__ = ["LinkPlayer"]


class LinkPlayer:
    """Plays tours over networks.

    Args:
        clock: the virtual clock that they run on.
        made: told of every log.
    """

    def __init__(self, clock: VirtualClock, made: Callable[[SyncLog], object]) -> None:
        self._clock = clock
        self._made = made

    def pair(
        self, profile: str | LinkProfile | Network | None = None, *, seed: int = 0
    ) -> tuple[MemoryLink, MemoryLink]:
        """The server's and the viewer's end of a road, for a test that sends by itself.

        Args:
            profile: the network between them: a name of `multimodal.sync.link.PROFILES`, one profile for both
                directions, or both; None = a perfect one.
            seed: of all chance.
        """
        from multimodal.transport.memory import memory_link

        async def make() -> tuple[MemoryLink, MemoryLink]:
            return memory_link(profile, seed=seed)

        return self._clock.run(make())

    def __call__(
        self,
        profile: str | LinkProfile | Network | None = None,
        *,
        seed: int = 0,
        decode: float | Callable[[str], float | None] | None = 0.0,
        limit: float = 600.0,
        **stream: Any,
    ) -> SyncLog:
        """Play a tour over a network to a viewer; gives its log of all three vantage points.

        Args:
            profile, seed: as for `pair`.
            decode: seconds that the viewer's decoding of a picture takes, or a function of its key; None = never ready.
            limit: virtual seconds that the tour may take.
            stream: the arguments of `multimodal.MultiModalStream`.

        Raises:
            ChannelClosedError: the network cut the tour off.
            PipeError: a pipe failed.
            SyncError: the tour did not end within `limit`.
        """
        try:
            log = self._clock.run(self._play(profile, seed, decode, stream), limit)
        except TimeoutError as error:
            raise SyncError(
                f"the tour did not end within limit={limit:g} virtual seconds on this network;"
                " look for a picture or a pipe that never comes, or give a higher limit"
            ) from error
        self._made(log)
        return log

    async def _play(
        self,
        profile: str | LinkProfile | Network | None,
        seed: int,
        decode: float | Callable[[str], float | None] | None,
        arguments: dict[str, Any],
    ) -> SyncLog:
        from multimodal.stream import MultiModalStream
        from multimodal.transport.memory import memory_link
        from multimodal.transport.session import ViewerSession
        from multimodal.transport.viewer import Viewer

        lines: list[dict[str, Any]] = []
        server, client = memory_link(profile, seed=seed)
        stream = MultiModalStream(**arguments)
        session = ViewerSession(stream, server, on_record=lines.append)
        viewer = Viewer(client, decode=decode)
        serving = asyncio.ensure_future(session.run())
        try:
            await viewer.watch()
        finally:
            # The session ends by itself once its viewer is gone; what it raises is the tour's own failure.
            await serving
        return msgspec.structs.replace(_read(lines), plan=stream.plan)


def _read(lines: list[dict[str, Any]]) -> SyncLog:
    """The recording that a server would have written."""
    with tempfile.TemporaryDirectory(prefix="multimodal-") as folder:
        file = Path(folder) / "tour.jsonl"
        file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        return msgspec.structs.replace(SyncLog.read(file), source="")
