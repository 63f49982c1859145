"""Which encoding a viewer gets (L1-L4), and that it is what is made, once."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from pathlib import Path

import pytest
from PIL import Image

from multimodal.errors import UsageError
from multimodal.pipes.encode import Encoded, encode_picture
from multimodal.pipes.folder import FolderImagePipe
from multimodal.pipes.images import ImageStore
from multimodal.pipes.intake import ImageSettings
from multimodal.pipes.ladder import AVIF, JPEG, WEBP, Ladder, Rung
from multimodal.values import EncodedImage, ViewerNeeds
from tests.pipes.pictures import decoded, near, pixel, quarters, write
from tests.support import run

ALL = (AVIF, WEBP, JPEG, "image/png")


@pytest.mark.parametrize(
    ("viewer", "formats", "px"),
    [
        (None, (WEBP,), 1280),  # L4
        (ViewerNeeds(), (WEBP,), 1280),
        (ViewerNeeds(ALL, 390), (AVIF, WEBP), 640),  # L1, L3
        (ViewerNeeds(ALL, 320), (AVIF, WEBP), 320),
        (ViewerNeeds(ALL, 321), (AVIF, WEBP), 640),
        (ViewerNeeds(ALL, 5000), (AVIF, WEBP), 1280),
        (ViewerNeeds(ALL, 5000, save_data=True), (AVIF, WEBP), 320),
        (ViewerNeeds((JPEG, "image/png"), 900), (JPEG,), 960),  # L2
        (ViewerNeeds((WEBP,), 900), (WEBP,), 960),
    ],
)
def test_the_encoding_that_suits(viewer: ViewerNeeds | None, formats: tuple[str, ...], px: int) -> None:
    rungs = Ladder().choose(viewer)
    assert tuple(rung.media_type for rung in rungs) == formats
    assert {rung.max_px for rung in rungs} == {px}
    assert all(rung.budget_bytes == dict(Ladder().sizes)[px] * 1024 for rung in rungs)


@pytest.mark.parametrize(
    ("max_px", "sizes"),
    [
        (1280, ((320, 16), (640, 48), (960, 96), (1280, 160))),
        (800, ((320, 16), (640, 48), (800, 96))),
        (200, ((200, 16),)),
        (2560, ((320, 16), (640, 48), (960, 96), (1280, 160), (2560, 640))),
    ],
)
def test_its_largest_rung_is_what_the_settings_say(max_px: int, sizes: tuple[tuple[int, int], ...]) -> None:
    assert Ladder(max_px).sizes == sizes
    assert [rung.max_px for rung in Ladder(max_px).every((WEBP, AVIF))] == [px for px, _ in sizes for _ in (WEBP, AVIF)]


@pytest.mark.parametrize("budgets", [(), ((640, 48), (320, 16)), ((320, 16), (320, 20)), ((0, 16),), ((320, 0),)])
def test_a_ladder_that_does_not_ascend_is_refused(budgets: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(UsageError, match="ascend"):
        Ladder(1280, budgets)


@pytest.mark.parametrize("media_type", [WEBP, AVIF, JPEG])
def test_each_format_is_made_the_same_twice(media_type: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", quarters(600, 400), "PNG")
    rung = Rung(media_type, 320)
    first, again = (encode_picture(path, ImageSettings(), rung) for _ in range(2))
    assert first == again
    assert (first.media_type, first.width_px, first.height_px) == (media_type, 320, 213)
    with Image.open(path) as wanted:
        for x, y in ((0.2, 0.2), (0.8, 0.2), (0.2, 0.8), (0.8, 0.8)):
            assert near(pixel(decoded(first.data), x, y), pixel(wanted, x, y))


def test_a_picture_above_its_budget_loses_quality_and_not_size(tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", Image.effect_noise((640, 640), 40).convert("RGB"), "PNG")
    free = encode_picture(path, ImageSettings(), Rung(WEBP, 640))
    bound = encode_picture(path, ImageSettings(), Rung(WEBP, 640, len(free.data) * 4 // 5))
    assert len(bound.data) <= len(free.data) * 4 // 5
    assert (bound.width_px, bound.height_px) == (640, 640)
    # There is a floor: noise that no quality makes small enough is sent as it is.
    assert len(encode_picture(path, ImageSettings(), Rung(WEBP, 640, 10)).data) > 10


@pytest.mark.parametrize("px", [320, 640, 960])
def test_avif_takes_fewer_bytes_than_webp_or_it_would_not_be_worth_making(px: int) -> None:
    folder = Path(str(files("multimodal.assets"))) / "demo" / "pictures"
    paths = sorted(folder.glob("*-hero.jpg"))[::4]
    avif, webp = (
        sum(len(encode_picture(path, ImageSettings(), Rung(kind, px)).data) for path in paths) for kind in (AVIF, WEBP)
    )
    assert avif < 0.97 * webp


@pytest.mark.parametrize(
    ("background", "media_type", "seen"),
    [
        ("#ffffff", WEBP, (255, 255, 255, 255)),
        ("#23211e", WEBP, (0x23, 0x21, 0x1E, 255)),
        ("", WEBP, (0, 0, 0, 0)),
        ("", AVIF, (0, 0, 0, 0)),
        ("", JPEG, (255, 255, 255, 255)),
    ],
)
def test_what_is_see_through_shows_the_pages_colour_or_stays_so(
    background: str, media_type: str, seen: tuple[int, ...], tmp_path: Path
) -> None:
    image = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    image.paste((200, 30, 30, 255), (32, 0, 64, 64))
    path = write(tmp_path / "a.png", image, "PNG")
    encoded = encode_picture(path, ImageSettings(background=background), Rung(media_type, 64))
    with Image.open(write(tmp_path / "out", encoded.data)) as shown:
        left, right = shown.convert("RGBA").getpixel((8, 32)), shown.convert("RGBA").getpixel((56, 32))
    assert isinstance(left, tuple)
    assert isinstance(right, tuple)
    assert left[3] == seen[3]
    assert seen[3] == 0 or near(left[:3], seen[:3], 6)
    assert near(right[:3], (200, 30, 30), 12)
    # Behind a picture that is see-through, a slot filled with its colour would show.
    assert (encoded.color == "") == (seen[3] == 0)


def test_its_dominant_colour_is_one_that_is_in_it(tmp_path: Path) -> None:
    image = Image.new("RGB", (300, 200), (40, 90, 160))
    image.paste((250, 250, 250), (0, 0, 100, 200))
    color = encode_picture(write(tmp_path / "a.png", image, "PNG"), ImageSettings()).color
    assert near(tuple(int(color[i : i + 2], 16) for i in (1, 3, 5)), (40, 90, 160), 12)


def test_a_background_that_is_no_colour_is_refused() -> None:
    with pytest.raises(UsageError, match="background='white' is no colour"):
        ImageSettings(background="white")


def test_a_pipe_gives_what_suits_its_viewer_and_each_encoding_is_made_once(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.jpg", quarters(1200, 800))

    async def play(store: ImageStore, viewer: ViewerNeeds | None) -> list[EncodedImage]:
        pipe = FolderImagePipe(tmp_path, store=store)
        if viewer is not None:
            pipe.fit(viewer)
        assets = await pipe.describe(pipe.keys())
        images = [item async for item in pipe if isinstance(item, EncodedImage)]
        for asset, image in zip(assets, images, strict=True):
            assert (asset.width_px, asset.height_px) == (image.width_px, image.height_px)
            assert (asset.placeholder, asset.color) == (image.placeholder, image.color)
        return images

    async def scenario() -> None:
        store = ImageStore()
        phone, desktop = ViewerNeeds(ALL, 600), ViewerNeeds((WEBP,), 2000)
        viewers = [phone, desktop, None, phone, ViewerNeeds((WEBP,), 600)]
        played = await asyncio.gather(*(play(store, viewer) for viewer in viewers))
        assert [{image.width_px for image in images} for images in played] == [{640}, {1200}, {1200}, {640}, {640}]
        assert played[0] == played[3] == played[4]
        assert {image.media_type for images in played for image in images} == {WEBP}, "no AVIF was made beforehand"
        assert store.stats().encoded == 4
        # L3: once it was made beforehand, who decodes AVIF gets it, and nobody else.
        warmed = await store.warm([tmp_path / "a.jpg", tmp_path / "no.jpg"], [Rung(AVIF, 640, 48 * 1024)])
        assert warmed.ready == 1
        assert [refused.reason for refused in warmed.refused] == ["not_found"]
        assert [image.media_type for image in await play(store, phone)] == [AVIF, WEBP]
        assert [image.media_type for image in await play(store, ViewerNeeds((WEBP,), 600))] == [WEBP, WEBP]
        assert store.stats().encoded == 5

    run(scenario())


def test_the_memory_is_configured_while_it_runs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jpg", quarters(1200, 800))

    async def scenario() -> None:
        store = ImageStore()
        assert isinstance(await store.prepare(path), Encoded)
        assert store.stats().memory.entries == 2, "the picture, and what was seen of it"
        store.configure(cache_bytes=1)
        assert store.stats().memory.entries == 0
        with pytest.raises(UsageError, match="keep_free"):
            store.configure(keep_free=1.5)

    run(scenario())
