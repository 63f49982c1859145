"""Pictures from a real server on loopback: what comes, what does not and why, and how often it is asked."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.images import ImageStore
from multimodal.pipes.intake import PictureRefused
from multimodal.pipes.prepared import PictureFile, PreparedImagePipe
from multimodal.pipes.remote_pictures import RemotePictures
from tests.pipes.pictures import data_of, quarters
from tests.support import run

PICTURE = data_of(quarters())


class Web:
    """A server whose answers are functions of the request; counts what it was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.pages: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked[self.path] += 1
                web.headers.append(dict(self.headers.items()))
                web.pages[self.path](self)

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # who hangs up is meant to
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def answer(status: int = 200, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def send(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return send


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.close()


def fetch(web: Web, *paths: str, **options: Any) -> list[Path | PictureRefused]:
    async def scenario() -> list[Path | PictureRefused]:
        settings = {"allow": ["127.0.0.1/32"], "ports": [web.port], **options}
        remote = RemotePictures(**settings)
        try:
            return [await remote.fetch(path if "://" in path else web.url(path)) for path in paths]
        finally:
            await remote.settle()
            remote.close()

    return run(scenario())


def why(result: Path | PictureRefused) -> str:
    assert isinstance(result, PictureRefused), result
    return result.reason


def test_a_picture_comes_whole_and_is_asked_for_once(web: Web, tmp_path: Path) -> None:
    web.pages["/a.jpg"] = answer(200, PICTURE, Content_Type="application/octet-stream")

    async def scenario() -> None:
        remote = RemotePictures(tmp_path, allow=["127.0.0.1/32"], ports=[web.port])
        url = web.url("/a.jpg")
        assert remote.known(url) is None
        results = await asyncio.gather(*(remote.fetch(url) for _ in range(8)))
        assert len(set(map(str, results))) == 1
        path = remote.known(url)
        assert path is not None
        assert path.read_bytes() == PICTURE
        remote.close()
        again = RemotePictures(tmp_path, allow=["127.0.0.1/32"], ports=[web.port])
        assert await again.fetch(url) == path
        again.close()
        stale = RemotePictures(tmp_path, allow=["127.0.0.1/32"], ports=[web.port], max_age=0)
        assert await stale.fetch(url) == path
        stale.close()

    run(scenario())
    assert web.asked["/a.jpg"] == 2, "once by eight, never by the next, once more when it was too old"


def test_the_shops_headers_are_sent_and_none_of_ours_asks_for_compression(web: Web, tmp_path: Path) -> None:
    web.pages["/a.jpg"] = answer(200, PICTURE)
    fetch(web, "/a.jpg", folder=tmp_path, headers={"Referer": "https://shop.example/", "User-Agent": "Shop/1"})
    assert web.headers[0]["Referer"] == "https://shop.example/"
    assert web.headers[0]["User-Agent"] == "Shop/1"
    assert web.headers[0]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("status", "reason", "asked"),
    [
        (403, "forbidden", 1),
        (401, "forbidden", 1),
        (404, "not_found", 1),
        (410, "not_found", 1),
        (418, "unreadable", 1),
        (500, "server_error", 3),
        (503, "server_error", 3),
        (429, "busy", 3),
    ],
)
def test_each_refusal_has_its_own_word(web: Web, status: int, reason: str, asked: int, tmp_path: Path) -> None:
    web.pages["/a.jpg"] = answer(status, b"no", Retry_After="0")
    (result,) = fetch(web, "/a.jpg", folder=tmp_path)
    assert why(result) == reason
    assert str(status) in str(result)
    assert web.asked["/a.jpg"] == asked, "a failure of the server is tried again, a refusal is not"


def test_a_server_that_recovers_gives_its_picture(web: Web, tmp_path: Path) -> None:
    answers = iter([answer(503), answer(429, b"", Retry_After="0"), answer(200, PICTURE)])
    web.pages["/a.jpg"] = lambda request: next(answers)(request)
    (result,) = fetch(web, "/a.jpg", folder=tmp_path)
    assert isinstance(result, Path)


def test_a_server_that_asks_for_a_long_wait_is_not_waited_for(web: Web, tmp_path: Path) -> None:
    web.pages["/a.jpg"] = answer(503, b"", Retry_After="3600")
    (result,) = fetch(web, "/a.jpg", folder=tmp_path)
    assert why(result) == "server_error"
    assert web.asked["/a.jpg"] == 1


def test_a_web_page_instead_of_a_picture(web: Web, tmp_path: Path) -> None:
    web.pages["/a.jpg"] = answer(200, b"<!doctype html><html>please log in</html>", Content_Type="image/jpeg")
    assert why(fetch(web, "/a.jpg", folder=tmp_path)[0]) == "html"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("announced", [True, False])
def test_more_bytes_than_allowed(web: Web, announced: bool, tmp_path: Path) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(1000):
            request.wfile.write(b"x" * 10_000)

    web.pages["/a.jpg"] = answer(200, b"x" * 100_001) if announced else endless
    assert why(fetch(web, "/a.jpg", folder=tmp_path, max_bytes=100_000)[0]) == "too_many_bytes"
    assert list(tmp_path.iterdir()) == []


def test_a_compressed_bomb_is_counted_unpacked(web: Web, tmp_path: Path) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    web.pages["/a.jpg"] = answer(200, bomb, Content_Encoding="gzip")
    assert len(bomb) < 100_000
    assert why(fetch(web, "/a.jpg", folder=tmp_path, max_bytes=1_000_000)[0]) == "too_many_bytes"


def test_an_answer_that_breaks_off_is_not_taken_for_whole_nor_asked_for_again(web: Web, tmp_path: Path) -> None:
    web.pages["/a.jpg"] = answer(200, PICTURE, Content_Length=str(len(PICTURE) + 5))
    assert why(fetch(web, "/a.jpg", folder=tmp_path)[0]) == "truncated"
    assert web.asked["/a.jpg"] == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_silent_or_slow(web: Web, tmp_path: Path) -> None:
    def silent(request: BaseHTTPRequestHandler) -> None:
        time.sleep(0.6)

    def trickle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(40):
            request.wfile.write(b"\xff\xd8\xff")
            request.wfile.flush()
            time.sleep(0.05)

    web.pages |= {"/silent.jpg": silent, "/trickle.jpg": trickle}
    results = fetch(web, "/silent.jpg", "/trickle.jpg", folder=tmp_path, time_limit=0.5, connect=0.2, retries=0)
    assert [why(result) for result in results] == ["timeout", "timeout"]


def test_nobody_listens(tmp_path: Path) -> None:
    gone = Web()
    gone.close()
    (result,) = fetch(gone, "/a.jpg", folder=tmp_path, retries=1)
    assert why(result) == "unreachable"


@pytest.mark.parametrize(
    ("target", "reason", "told"),
    [
        ("http://127.0.0.2:{port}/a.jpg", "refused_address", "127.0.0.2 is not on the public internet"),
        ("http://[::1]:{port}/a.jpg", "refused_address", "::1"),
        ("http://169.254.169.254:{port}/latest/meta-data/", "refused_address", "169.254.169.254"),
        ("http://127.0.0.1:22/", "refused_address", "port is 22"),
        ("file:///etc/passwd", "refused_address", "scheme is 'file'"),
        ("http://u:p@127.0.0.1:{port}/a.jpg", "refused_address", "user name"),
        ("//127.0.0.3:{port}/a.jpg", "refused_address", "127.0.0.3"),
        ("/loop.jpg", "too_many_redirects", "more than 5"),
        ("", "unreadable", "without a target"),
    ],
)
def test_a_redirect_leads_nowhere_that_a_url_may_not(
    web: Web, target: str, reason: str, told: str, tmp_path: Path
) -> None:
    web.pages["/loop.jpg"] = answer(302, Location="/loop.jpg")
    web.pages["/a.jpg"] = answer(302, Location=target.format(port=web.port))
    (result,) = fetch(web, "/a.jpg", folder=tmp_path)
    assert why(result) == reason
    assert told in str(result)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_picture_is_followed(web: Web, status: int, tmp_path: Path) -> None:
    web.pages["/a.jpg"] = answer(status, Location="b.jpg")
    web.pages["/b.jpg"] = answer(200, PICTURE)
    (result,) = fetch(web, "/a.jpg", folder=tmp_path)
    assert isinstance(result, Path)
    assert result.read_bytes() == PICTURE


def test_a_folder_of_its_own_goes_with_it(web: Web) -> None:
    web.pages["/a.jpg"] = answer(200, PICTURE)

    def play() -> Path:
        remote = RemotePictures(allow=["127.0.0.1/32"], ports=[web.port])

        async def scenario() -> None:
            assert isinstance(await remote.fetch(web.url("/a.jpg")), Path)
            await remote.settle()

        run(scenario())
        remote.close()
        assert len(list(remote.folder.iterdir())) == 1
        return remote.folder

    folder = play()
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize(
    "options", [{"max_bytes": 0}, {"workers": 0}, {"retries": -1}, {"time_limit": 0}, {"max_age": -1}]
)
def test_refuses_wrong_arguments(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        RemotePictures(tmp_path, **options)


def test_a_pipe_fetches_what_has_a_url_and_says_why_others_do_not_come(web: Web, tmp_path: Path) -> None:
    web.pages |= {
        "/a.jpg": answer(200, PICTURE),
        "/gone.jpg": answer(404),
        "/page.jpg": answer(200, b"<html>no</html>"),
    }
    names = ("a", "gone", "page")
    pictures = [
        PictureFile(name, None, name, name, ("not_found", "no file"), web.url(f"/{name}.jpg")) for name in names
    ]
    pictures.append(PictureFile("none", None, problem=("not_found", "no file")))

    async def play(remote: RemotePictures | None) -> dict[str, str]:
        pipe = PreparedImagePipe(pictures, store=ImageStore(), remote=remote)
        return {item.key: getattr(item, "reason", item.__class__.__name__) async for item in pipe}

    async def scenario() -> None:
        remote = RemotePictures(tmp_path, allow=["127.0.0.1/32"], ports=[web.port])
        expected = {"a": "EncodedImage", "gone": "not_found", "page": "html", "none": "not_found"}
        assert await play(remote) == expected
        described = await PreparedImagePipe(pictures, store=ImageStore(), remote=remote).describe(["a", "gone"])
        assert [asset.key for asset in described] == ["a"], "what was fetched is known"
        assert await play(None) == {**expected, "a": "not_found", "page": "not_found"}
        # Closed while it fetches: nothing runs on.
        web.pages["/slow.jpg"] = lambda request: time.sleep(0.3)
        slow = PreparedImagePipe([PictureFile("slow", None, url=web.url("/slow.jpg"))], remote=remote)
        slow.want(["slow"])
        await asyncio.sleep(0.05)
        await slow.aclose()
        remote.close()

    run(scenario())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("multimodal-")]
