"""The turntable clips of the demo: short, small, and pictures all around."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multimodal.pipes.catalog import CatalogImagePipe
from multimodal.pipes.video_pipe import VideoImagePipe
from multimodal.values import EncodedImage, ViewerNeeds
from tests.support import run

DEMO = Path(__file__).resolve().parents[2] / "assets" / "demo"
PRODUCTS = [product["id"] for product in json.loads((DEMO / "catalog.json").read_text(encoding="utf-8"))["products"]]
CLIPS = sorted((DEMO / "clips").glob("*"))


def test_two_products_turn_in_both_formats() -> None:
    assert len(CLIPS) == 4
    assert len({clip.stem for clip in CLIPS}) == 2


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)
def test_a_clip_turns_once_and_its_frames_are_pictures(clip: Path) -> None:
    assert 20_000 < clip.stat().st_size <= 120_000

    async def scenario() -> list[EncodedImage]:
        pipe = VideoImagePipe(clip, views=8, product=clip.stem.removesuffix("-turn"))
        assert (pipe.facts.width_px, pipe.facts.height_px) == (320, 320)
        assert pipe.facts.seconds == pytest.approx(3.0, abs=0.1)
        found = [item async for item in pipe]
        assert all(isinstance(item, EncodedImage) for item in found)
        return [item for item in found if isinstance(item, EncodedImage)]

    views = run(scenario())
    assert [view.key for view in views] == [f"{clip.stem}-{number}" for number in range(1, 9)]
    assert len({view.sha256 for view in views}) == 8
    assert {view.product for view in views} == {clip.stem.removesuffix("-turn")}
    assert {view.product for view in views} <= set(PRODUCTS)


@pytest.mark.parametrize("media_type", ["video/webm", "video/mp4"])
def test_a_viewer_who_can_play_it_gets_the_catalogue_s_clip(media_type: str) -> None:
    async def scenario() -> list[str]:
        pipe = CatalogImagePipe(DEMO / "catalog.json")
        pipe.fit(ViewerNeeds(("image/webp", media_type), 400))
        pipe.want(["halo-kettle-hero", "halo-kettle-turn"], final=True)
        found = {item.key: item async for item in pipe}
        return [getattr(found[key], "media_type", "") for key in ("halo-kettle-hero", "halo-kettle-turn")]

    assert run(scenario()) == ["image/webp", media_type]
