"""A picture that the viewer holds from an earlier tour costs the road nothing."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from multimodal import wire
from multimodal.errors import RemoteProtocolError
from multimodal.transport.client import ViewerProtocol
from multimodal.transport.viewer import Viewer
from tests.support import virtual
from tests.transport.test_session import Raw, Stage


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_what_the_viewer_holds_is_not_sent_and_is_shown_all_the_same() -> None:
    async def scenario() -> None:
        stage = Stage()
        held = [image.data for image in stage.pictures[:3]]
        viewer = Viewer(stage.client, held=held)
        seen = await stage.play(viewer)
        assert seen.revealed == [f"p{i}" for i in range(5)]
        assert seen.pictures == {image.key: image.data for image in stage.pictures}
        assert viewer.protocol.picture_bytes == sum(len(image.data) for image in stage.pictures[3:])
        assert stage.session.pictures_kept == 3
        ready = [record["key"] for record in stage.records if record["vantage"] == "ready"]
        assert sorted(ready) == [f"p{i}" for i in range(5)], "the aligner waits for its ready like for any other's"

    virtual(scenario())


def test_a_picture_of_another_content_is_sent_although_its_key_is_the_same() -> None:
    async def scenario() -> None:
        stage = Stage(sizes=(20_000,))
        viewer = Viewer(stage.client, held=[b"x" * 20_000])
        seen = await stage.play(viewer)
        assert seen.pictures == {"p0": stage.pictures[0].data}
        assert stage.session.pictures_kept == 0

    virtual(scenario())


def test_what_the_viewer_held_and_lost_is_sent_when_it_says_so() -> None:
    async def scenario() -> None:
        stage = Stage(sizes=(20_000,))
        raw = Raw(stage.client)
        raw.say(wire.Hello(have=(digest(stage.pictures[0].data)[: wire.HAVE_CHARS],)))
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.session.run())
            await raw.listen(seconds=1.0)
            assert raw.parts == 0
            raw.say(wire.Need("p0"))
            await raw.listen(seconds=1.0)
            assert raw.parts == 20
            raw.say(wire.Need("nobody"))
            await raw.listen(seconds=1.0)
            assert stage.session.malformed == 1
            raw.say(wire.Bye("enough"))

    virtual(scenario())


def test_a_hello_names_a_bounded_number_of_pictures() -> None:
    pictures = [number.to_bytes(2, "big") for number in range(wire.HAVE_LIMIT + 5)]
    hello = wire.decode_client(ViewerProtocol(held=pictures).outgoing()[0])
    assert isinstance(hello, wire.Hello)
    assert hello.have == tuple(digest(data)[: wire.HAVE_CHARS] for data in pictures[5:]), "the newest"
    with pytest.raises(RemoteProtocolError, match="malformed"):
        wire.decode_client(wire.encode(wire.Hello(have=("0" * 16,) * (wire.HAVE_LIMIT + 1))))
