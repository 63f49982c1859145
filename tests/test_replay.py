"""A replay gives what was recorded, when it was recorded, with bytes that a viewer accepts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from multimodal.cli import main
from multimodal.errors import UsageError
from multimodal.events import AssetReserved, StreamEnd
from multimodal.pipes.catalog import Catalog, load_catalog
from multimodal.replay import Replay, drawn_picture, pictures_of
from multimodal.sync.log import SyncLog
from multimodal.transport.memory import memory_link
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Seen, Viewer
from multimodal.transport.whep import join
from tests.support import run, virtual
from tests.sync.tours import tour

LOG = tour(late="hold", ready={"mug-1": 0.9, "lamp-1": 9.0})
SHEETS = {key: drawn_picture(assets[-1]) for key, assets in LOG.assets.items()}


async def watch(replay: Replay) -> tuple[Seen, float]:
    """Play it over a link in memory; what a viewer saw, and when its stream began."""
    server, client = memory_link()
    viewer = Viewer(client)
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        group.create_task(ViewerSession(replay, server).run())
        watching = group.create_task(viewer.watch())
    return watching.result(), began


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_every_event_comes_at_its_own_time(speed: float) -> None:
    async def scenario() -> None:
        seen, began = await watch(Replay(LOG, SHEETS, speed))
        strip = [
            msgspec.structs.replace(event, variants=()) if isinstance(event, AssetReserved) else event
            for event in seen.events
        ]
        sent = [
            msgspec.structs.replace(event, variants=()) if isinstance(event, AssetReserved) else event
            for event in LOG.events
        ]
        assert strip == sent
        for event, at in zip(seen.events, seen.at, strict=True):
            assert at - began == pytest.approx(event.pts_ms / 1000 / speed, abs=0.05)
        # The lamp's bytes never were there in the recording, so none are sent.
        assert seen.pictures == {key: SHEETS[key].data for key in seen.pictures}
        assert set(seen.pictures) == {e.key for e in LOG.of(AssetReserved) if e.variants}

    virtual(scenario())


def test_a_pause_moves_all_that_follows() -> None:
    async def scenario() -> None:
        replay = Replay(LOG, SHEETS)
        clock = asyncio.get_running_loop().time
        began, at = clock(), []
        async with replay:
            async for bundle in replay.bundles():
                at.append(clock() - began)
                if len(at) == 3:
                    replay.pause()
                    replay.pause()
                    asyncio.get_running_loop().call_later(5.0, replay.resume)
                last = bundle[0].pts_ms / 1000
        assert at[-1] == pytest.approx(last + 5.0, abs=0.01)
        replay.resume()

    virtual(scenario())


def test_closing_ends_it_and_a_broken_recording_gets_an_end() -> None:
    async def scenario() -> None:
        replay = Replay(LOG, {})
        replay.pause()
        asyncio.get_running_loop().call_later(1.0, lambda: asyncio.ensure_future(replay.aclose()))
        assert [bundle async for bundle in replay.bundles()] == []
        cut = msgspec.structs.replace(LOG, events=LOG.events[:20])
        seen, _ = await watch(Replay(cut, {}, speed=10))
        assert len(seen.events) == 21
        assert isinstance(seen.events[-1], StreamEnd)
        assert seen.events[-1].reason == "error"

    virtual(scenario())


def test_what_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to replay"):
        Replay(SyncLog(()), {})
    with pytest.raises(UsageError, match="must be above 0"):
        Replay(LOG, {}, speed=0)


def test_a_drawn_sheet_has_the_size_and_the_key_of_its_picture() -> None:
    asset = AssetReserved(1, "s", 0, 1, 0.0, 0, "<kettle> & co", width_px=1200, height_px=900, alt="a kettle")
    picture = drawn_picture(asset)
    svg = ElementTree.fromstring(picture.data.decode())
    assert (svg.get("width"), svg.get("height")) == ("1200", "900")
    assert (picture.media_type, picture.width_px, picture.height_px) == ("image/svg+xml", 1200, 900)
    assert svg[-1].text == "<kettle> & co"
    huge = drawn_picture(msgspec.structs.replace(asset, width_px=10**9, height_px=0))
    assert (huge.width_px, huge.height_px) == (4096, 800)


def test_pictures_come_from_the_catalogue_where_it_knows_the_key(tmp_path: Path) -> None:
    catalog: Catalog = load_catalog(_shop(tmp_path))
    log = tour()

    async def scenario() -> None:
        pictures, drawn = await pictures_of(log, catalog)
        assert drawn == ["mug-1", "lamp-1"]
        assert pictures["kettle-1"].media_type != "image/svg+xml"
        asset = next(
            event for event in Replay(log, pictures)._events if isinstance(event, AssetReserved) and event.variants
        )
        assert asset.variants[0].sha256 == hashlib.sha256(pictures[asset.key].data).hexdigest()

    run(scenario())


def _shop(folder: Path) -> Path:
    """A catalogue of one product whose only picture is called as the recording calls it."""
    from multimodal.pipes.samples import samples

    picture = sorted(Path(str(samples("kettle"))).glob("*.jpg"))[0]
    (folder / "kettle.jpg").write_bytes(picture.read_bytes())
    (folder / "shop.csv").write_text("id,title,image\nkettle-1,Halo Kettle,kettle.jpg\n")
    return folder / "shop.csv"


def test_the_command_serves_the_player_and_plays_over_webrtc(tmp_path: Path) -> None:
    LOG.write(tmp_path / "tour.jsonl")
    words = ("replay", str(tmp_path / "tour.jsonl"), "--port", "0", "--speed", "3")
    command = [sys.executable, "-m", "multimodal", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        url = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        assert "0 from the demo shop, 2 drawn as plain sheets" in process.stderr.readline()
        with urllib.request.urlopen(url, timeout=20) as page:
            assert "<product-tour" in page.read().decode()
        with urllib.request.urlopen(url + "api/shop", timeout=20) as facts:
            assert json.load(facts)["products"][0]["title"] == "Halo Kettle"

        async def scenario() -> None:
            link, _ = await join(url + "tour/whep/demo")
            seen = await Viewer(link).watch()
            assert seen.text == LOG.text
            assert seen.revealed == ["kettle-1", "mug-1", "lamp-1"]

        run(scenario())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.jsonl"], "cannot read the recording nowhere.jsonl"),
        (["nowhere.jsonl", "--speed", "0"], "--speed 0.0 must be above 0"),
        (["nowhere.jsonl", "--images", "x"], "describe a --catalog"),
    ],
)
def test_wrong_use_is_told(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", *words]) == 2
    assert says in capsys.readouterr().err
