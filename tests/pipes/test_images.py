"""The picture store: once for all, bounded in threads, bytes and time, and nothing left running."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from multimodal.errors import UsageError
from multimodal.pipes import images
from multimodal.pipes.encode import Encoded, Look, encode_picture
from multimodal.pipes.images import ImageStore, shared_store
from multimodal.pipes.intake import ImageSettings, PictureRefused
from multimodal.pipes.workshop import NICENESS, STUCK_AT_MOST
from tests.pipes.pictures import picture_threads, quarters, reaches, write
from tests.support import run


def slowly(seconds: float, log: list[str]) -> Callable[..., Encoded]:
    def encode(path: Path, settings: ImageSettings, *suits: Any) -> Encoded:
        log.append(path.name)
        time.sleep(seconds)
        return encode_picture(path, settings, *suits)

    return encode


def test_many_askers_share_one_preparation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(images, "encode_picture", slowly(0.05, log))
    path = write(tmp_path / "a.jpg", quarters())

    async def scenario() -> None:
        store = ImageStore()
        results = await asyncio.gather(*(store.prepare(path) for _ in range(5)))
        assert all(result is results[0] for result in results)
        assert await store.prepare(path) is results[0]
        assert log == ["a.jpg"]
        # The look comes with the encode, and agrees with it.
        look = await store.look(path)
        assert isinstance(look, Look)
        assert isinstance(results[0], Encoded)
        assert look.placeholder == results[0].placeholder
        # A file that was replaced is another picture.
        write(path, quarters(32, 32))
        os.utime(path, ns=(1, 1))
        fresh = await store.prepare(path)
        assert isinstance(fresh, Encoded)
        assert fresh.width_px == 32

    run(scenario())


def test_the_cache_outlives_an_event_loop_and_is_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    monkeypatch.setattr(images, "encode_picture", slowly(0, log))
    noise = Image.effect_noise((400, 300), 90)
    paths = [write(tmp_path / f"{name}.jpg", noise) for name in "abc"]
    size = len(encode_picture(paths[0], ImageSettings()).data)
    store = ImageStore(cache_bytes=int(2.5 * size), keep_free=0, workers=1)

    async def ask(*wanted: Path) -> None:
        for path in wanted:
            assert isinstance(await store.prepare(path), Encoded)

    a, b, c = paths
    run(ask(a, b))
    run(ask(a))  # used again, so that b is the one to go
    assert log == ["a.jpg", "b.jpg"]
    run(ask(c, a))
    assert log == ["a.jpg", "b.jpg", "c.jpg"]
    run(ask(b))
    assert log[3:] == ["b.jpg"]


def test_looks_go_before_encodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(images, "encode_picture", slowly(0.1, log))
    paths = [write(tmp_path / f"{n}.jpg", quarters()) for n in range(4)]

    async def scenario() -> None:
        store = ImageStore(workers=1)
        encodes = [store.prepare(path) for path in paths]
        looks = [store.look(path) for path in paths]
        await asyncio.gather(*looks)
        assert sum(future.done() for future in encodes) <= 1
        await asyncio.gather(*encodes)
        assert log == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]

    run(scenario())


def test_no_more_threads_than_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    lock = threading.Lock()
    now = 0

    def encode(path: Path, settings: ImageSettings, *suits: Any) -> Encoded:
        nonlocal now
        with lock:
            now += 1
            running.append(now)
        time.sleep(0.02)
        with lock:
            now -= 1
        return encode_picture(path, settings, *suits)

    monkeypatch.setattr(images, "encode_picture", encode)
    paths = [write(tmp_path / f"{n}.jpg", quarters()) for n in range(12)]

    async def scenario() -> None:
        store = ImageStore(workers=3)
        await asyncio.gather(*(store.prepare(path) for path in paths))
        await store.settle()

    run(scenario())
    assert max(running) == 3


def test_cancelled_wishes_are_dropped_unless_another_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    monkeypatch.setattr(images, "encode_picture", slowly(0.1, log))
    paths = [write(tmp_path / f"{n}.jpg", quarters()) for n in range(4)]

    async def scenario() -> None:
        store = ImageStore(workers=1)
        first, shared, dropped, _ = [store.prepare(path) for path in paths]
        again = store.prepare(paths[1])
        await reaches(log, 1)
        for future in (first, shared, dropped):
            future.cancel()
        await asyncio.sleep(0)
        assert isinstance(await again, Encoded)
        await store.settle()
        await reaches(log, 3)
        assert log == ["0.jpg", "1.jpg", "3.jpg"]
        revived = await store.prepare(paths[2])
        assert isinstance(revived, Encoded)
        await store.settle()
        assert picture_threads() == 0

    run(scenario())


def test_settling_waits_for_abandoned_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(images, "encode_picture", slowly(0.2, log))
    path = write(tmp_path / "a.jpg", quarters())

    async def scenario() -> None:
        store = ImageStore()
        future = store.prepare(path)
        await reaches(log, 1)
        assert picture_threads() == 1
        future.cancel()
        await asyncio.sleep(0)
        await asyncio.gather(store.settle(), store.settle())
        assert picture_threads() == 0
        assert isinstance(await store.prepare(path), Encoded)
        assert log == ["a.jpg"]  # the work was not for nothing

    run(scenario())


def test_a_picture_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "encode_picture", slowly(3.0, []))
    paths = [write(tmp_path / f"{number}.jpg", quarters()) for number in range(STUCK_AT_MOST + 2)]

    async def scenario() -> None:
        store = ImageStore(workers=1, time_limit=0.1)
        results = await asyncio.gather(*(store.prepare(path) for path in paths))
        # Others stand in for those that are stuck, up to a number.
        for result, said in zip(results, ["preparing it took"] * 5 + ["no worker was free"], strict=True):
            assert isinstance(result, PictureRefused)
            assert result.reason == "timeout"
            assert said in str(result)
        begun = time.monotonic()
        await store.settle()  # a stuck decoder is left to itself
        assert time.monotonic() - begun < 2.0

    run(scenario())


@pytest.mark.parametrize("error", [RuntimeError("codec fell over"), MemoryError(), UserWarning("odd")])
def test_whatever_a_codec_raises_is_a_refusal(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> Encoded:
        raise error

    monkeypatch.setattr(images, "encode_picture", explode)
    path = write(tmp_path / "a.jpg", quarters())

    async def scenario() -> None:
        result = await ImageStore().prepare(path)
        assert isinstance(result, PictureRefused)
        assert result.reason == "unreadable"
        assert type(error).__name__ in str(result)

    run(scenario())


def test_refusals_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "late.jpg"

    async def scenario() -> None:
        store = ImageStore()
        missing = await store.prepare(path)
        assert isinstance(missing, PictureRefused)
        assert missing.reason == "not_found"
        write(path, quarters())
        assert isinstance(await store.prepare(path), Encoded)

    run(scenario())


def test_an_event_loop_may_end_before_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "encode_picture", slowly(0.1, []))
    path = write(tmp_path / "a.jpg", quarters())
    store = ImageStore()

    async def leave() -> None:
        store.prepare(path)
        await asyncio.sleep(0.02)

    run(leave())

    async def come_back() -> None:
        assert isinstance(await store.prepare(path), Encoded)

    run(come_back())


def test_all_pipes_of_a_process_share_a_store() -> None:
    assert shared_store() is shared_store()


@pytest.mark.parametrize("options", [{"workers": 0}, {"cache_bytes": -1}, {"time_limit": 0.0}])
def test_refuses_wrong_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        ImageStore(**options)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
def test_words_go_before_pictures_on_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def encode(path: Path, settings: ImageSettings, *suits: Any) -> Encoded:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return encode_picture(path, settings, *suits)

    monkeypatch.setattr(images, "encode_picture", encode)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    path = write(tmp_path / "a.jpg", quarters())

    async def scenario() -> None:
        assert isinstance(await ImageStore().prepare(path), Encoded)

    run(scenario())
    assert seen == [min(19, max(own, NICENESS))]
    assert os.getpriority(os.PRIO_PROCESS, 0) == own, "the process's own thread keeps its priority"
