"""A tour that is watched together: one telling for all who come while it lasts, another for who comes after its end."""

from __future__ import annotations

import asyncio

from multimodal.events import Snapshot, StreamEnd
from multimodal.serving.limits import Quotas
from multimodal.transport.viewer import Viewer
from multimodal.transport.whep import join
from tests.serving.test_app import WORDS, Served, check, told
from tests.transport.leaks import until


def test_who_comes_while_it_lasts_joins_and_who_comes_after_it_hears_another() -> None:
    async def scenario(served: Served) -> None:
        first, _ = await join(f"{served.base}/tour/whep/demo")
        one = Viewer(first, leave_at_end=False)
        watching = asyncio.ensure_future(one.watch())
        await until(lambda: len(one.seen.events) > 5)
        second, _ = await join(f"{served.base}/tour/whep/demo")
        seen = await Viewer(second).watch()
        assert isinstance(seen.events[0], Snapshot)
        assert seen.text == "".join(WORDS)
        # The first one stays to look at the end, and holds the session.
        await until(lambda: isinstance(one.seen.events[-1], StreamEnd))
        third, _ = await join(f"{served.base}/tour/whep/demo")
        again = await Viewer(third).watch()
        assert again.text == "".join(WORDS)
        assert not isinstance(again.events[0], Snapshot)
        assert again.events[0].sid != one.seen.events[0].sid == seen.events[0].sid
        watching.cancel()
        await asyncio.wait([watching])

    # Three seconds of words: time for the second one to come.
    check(scenario, make_stream=lambda tour: told(WORDS, 0.1), shared={"demo"}, keep=1.0, quotas=Quotas.unlimited())
