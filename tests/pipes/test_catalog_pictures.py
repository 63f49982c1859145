"""A catalogue's pictures: fetched where they have a URL, looked into, and made before anybody asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from multimodal.cli import main
from multimodal.errors import UsageError
from multimodal.pipes.catalog import CatalogImagePipe, load_catalog
from multimodal.pipes.images import ImageStore
from multimodal.pipes.ladder import AVIF, JPEG, WEBP
from multimodal.pipes.remote_pictures import RemotePictures
from multimodal.values import EncodedImage, ImageFailure, ViewerNeeds
from tests.pipes.pictures import data_of, got, quarters, write
from tests.pipes.test_remote_pictures import Web, answer
from tests.support import run


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    server.pages["/mug.jpg"] = answer(200, data_of(quarters(80, 60)))
    server.pages["/gone.jpg"] = answer(404)
    server.pages["/login.jpg"] = answer(200, b"<!DOCTYPE html><html><body>log in</body></html>")
    yield server
    server.close()


@pytest.fixture
def table(web: Web, tmp_path: Path) -> Path:
    """A kettle on disk, and on the web a mug, one that is gone, a web page, and one that no server may be asked for."""
    write(tmp_path / "kettle.jpg", quarters(40, 30))
    rows = ["id,title,image", "kettle,Kettle,kettle.jpg"]
    rows += [f"{name},The {name},{web.url(f'/{name}.jpg')}" for name in ("mug", "gone", "login")]
    rows += ["inside,Inside,http://169.254.169.254/latest.jpg", "odd,Odd,ftp://shop/odd.jpg"]
    (tmp_path / "shop.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "shop.csv"


def fetcher(web: Web) -> RemotePictures:
    return RemotePictures(allow=["127.0.0.1/32"], ports=[web.port], retries=0)


async def everything(pipe: CatalogImagePipe) -> dict[str, EncodedImage | ImageFailure]:
    return {item.key: item async for item in pipe}


def reasons(items: dict[str, EncodedImage | ImageFailure]) -> dict[str, str]:
    return {key: item.reason for key, item in items.items() if isinstance(item, ImageFailure)}


def test_a_picture_with_a_url_and_no_file_keeps_its_url(table: Path) -> None:
    urls = {picture.key: picture.url.rpartition("/")[2] for picture in load_catalog(table).pictures}
    assert urls == {
        "kettle": "",
        "mug": "mug.jpg",
        "gone": "gone.jpg",
        "login": "login.jpg",
        "inside": "latest.jpg",
        "odd": "",
    }


def test_nothing_is_fetched_unless_somebody_may(table: Path, web: Web) -> None:
    items = run(everything(CatalogImagePipe(table, store=ImageStore())))
    assert reasons(items) == {
        **dict.fromkeys(["mug", "gone", "login", "inside"], "not_found"),
        "odd": "refused_address",
    }
    assert not web.asked


def test_pictures_are_fetched_and_each_that_cannot_be_says_why(table: Path, web: Web) -> None:
    remote = fetcher(web)

    async def scenario() -> dict[str, EncodedImage | ImageFailure]:
        return await everything(CatalogImagePipe(table, store=ImageStore(), remote=remote))

    items = run(scenario())
    remote.close()
    assert got(items["mug"]).width_px == 80
    assert got(items["kettle"]).width_px == 40
    assert reasons(items) == {
        "gone": "not_found",
        "login": "html",
        "inside": "refused_address",
        "odd": "refused_address",
    }


def test_warming_makes_every_size_and_format_and_says_what_it_cannot(table: Path, web: Web) -> None:
    store, remote, told = ImageStore(), fetcher(web), list[tuple[int, float]]()

    async def scenario() -> None:
        pipe = CatalogImagePipe(table, store=store, remote=remote)
        warmed = await pipe.warm(["mug", "gone", "kettle"], progress=lambda number, share: told.append((number, share)))
        sizes = len(store.ladder.sizes)
        assert warmed.ready == 2 * 2 * sizes
        assert [refused.reason for refused in warmed.refused] == ["not_found"]
        assert told == [(1, 1 / 3), (2, 2 / 3), (3, 1.0)]
        made = store.stats().encoded
        for formats in ((AVIF, WEBP), (WEBP,)):
            pipe = CatalogImagePipe(table, store=store, remote=remote)
            pipe.fit(ViewerNeeds(formats, 600))
            pipe.want(["mug", "kettle"], final=True)
            assert {got(item).media_type for item in (await everything(pipe)).values()} == {formats[0]}
        assert store.stats().encoded == made, "all of it was there"
        pipe = CatalogImagePipe(table, store=store, remote=remote)
        pipe.fit(ViewerNeeds((JPEG,), 600))
        pipe.want(["mug"], final=True)
        assert got((await everything(pipe))["mug"]).media_type == JPEG
        with pytest.raises(UsageError, match="no product 'zebra'"):
            await pipe.warm(["zebra"])

    run(scenario())
    remote.close()
    assert web.asked["/mug.jpg"] == 1


def test_the_whole_catalogue_is_warmed_in_its_order_and_found_again_on_disk(table: Path, tmp_path: Path) -> None:
    def warm() -> tuple[int, int, int]:
        store = ImageStore(disk=tmp_path / "kept")
        warmed = run(CatalogImagePipe(table, store=store).warm(formats=(WEBP,)))
        return warmed.ready, len(warmed.refused), store.stats().encoded

    sizes = len(ImageStore().ladder.sizes)
    assert warm() == (sizes, 5, sizes)
    assert warm() == (sizes, 5, 0), "a restart encodes nothing"


def test_check_fetches_and_names_every_picture_that_cannot_be_shown(
    table: Path, web: Web, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [
        "--fetch",
        "--fetch-allow",
        "127.0.0.0/8",
        "--fetch-port",
        str(web.port),
        "--referer",
        "https://shop.example/",
    ]
    assert main(["catalog", "check", str(table), *own]) == 1
    out = capsys.readouterr().out
    assert "2 of 6 pictures can be shown" in out
    assert "picture login of login: html: " in out
    assert "picture inside of inside: refused_address: " in out
    assert {headers.get("Referer") for headers in web.headers} == {"https://shop.example/"}
    assert main(["catalog", "check", str(table), "--json", *own]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [entry["key"] for entry in found["pictures_refused"]] == ["gone", "login", "inside", "odd"]
    assert main(["catalog", "check", str(table)]) == 1
    out = capsys.readouterr().out
    assert "1 of 6 pictures can be shown; 4 are remote" in out
    assert "line 7: taken, refused_address: ftp://shop/odd.jpg: its scheme is 'ftp'" in out
    images = ["--images", str(table.parent)]
    assert main(["catalog", "check", str(table), *own, *images]) == 1
    assert "download it" not in capsys.readouterr().out
    assert main(["catalog", "check", str(table), "--fetch"]) == 1
    out = capsys.readouterr().out
    assert f"allow it with --fetch-port {web.port}" in out
    assert main(["catalog", "check", str(table), "--fetch", "--fetch-port", str(web.port)]) == 1
    assert "allow it with --fetch-allow 127.0.0.1" in capsys.readouterr().out
    assert "can be shown" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tour", "--fetch-allow", "10.0.0.0/8"], "give it too"),
        (["tour", "--referer", "https://shop.example/"], "give it too"),
        (["tour", "--fetch", "--fetch-allow", "my house"], "no network"),
        (["tour", "--fetch", "--fetch-port", "0"], "no TCP port"),
        (["tour", "--warm", "0"], "1 or more products"),
        (["tour", "--keep-pictures", "/dev/null/x"], "cannot keep pictures"),
        (["catalog", "check", "nowhere.csv", "--fetch-port", "8080"], "give it too"),
    ],
)
def test_wrong_options_are_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err
