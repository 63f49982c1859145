"""The benchmarks of pictures: what they measure is what they say they measure."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from multimodal.bench import images, picture_cache


def test_the_photograph_compresses_as_photographs_do() -> None:
    data = images.photograph(1500)
    assert data == images.photograph(1500)
    assert data != images.photograph(1500, seed=2)
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.size == (1500, 1125)
        pixels = np.asarray(picture.convert("L"), dtype=np.float32)
    # Phone and shop photographs of quality 90 take 0.15 to 0.5 bytes a pixel; a flat render takes 0.03.
    assert 0.15 < len(data) / pixels.size < 0.5
    assert pixels.std() > 30
    grain = pixels[1:, 1:] - pixels[:-1, :-1]
    assert np.median(np.abs(grain)) > 1.5


def test_the_three_ways_make_the_same_picture(tmp_path: Path) -> None:
    path = tmp_path / "photograph.jpg"
    path.write_bytes(images.photograph(1600))
    found = []
    for way in (images._ours(path), images._ours(path, look=True), images._pillow(path), images._pyvips(path)):
        with Image.open(io.BytesIO(way())) as picture:
            assert (picture.format, picture.size) == ("WEBP", (800, 600))
            found.append(np.asarray(picture.convert("RGB"), dtype=np.float32))
    for other in found[1:]:
        assert np.abs(found[0] - other).mean() < 4


def test_they_take_turns_and_each_is_measured() -> None:
    calls: list[str] = []

    def way(name: str) -> images.Work:
        out = io.BytesIO()
        Image.new("RGB", (8, 6)).save(out, "WEBP")

        def work() -> bytes:
            calls.append(name)
            return out.getvalue()

        return work

    taken = images._in_turn({"a": way("a"), "b": way("b")}, 3)
    assert calls == ["a", "b"] * 4
    assert set(taken) == {"a", "b"}
    assert taken["a"]["size"] == "8 x 6"


def test_the_trace_is_the_same_for_every_policy_and_hybrid_wins() -> None:
    for seed in range(2):
        rates = picture_cache._replayed(0.9, 20_000, seed)
        assert rates == picture_cache._replayed(0.9, 20_000, seed)
        assert rates["hybrid"]["requests"] >= max(rates["lru"]["requests"], rates["size"]["requests"])
        assert rates["hybrid"]["bytes"] >= 0.95 * rates["lru"]["bytes"]


def test_hits_are_counted_behind_the_first_fifth() -> None:
    sizes = [2000] * 10
    # Ten in turn in room for one: the least recently used is always the next.
    assert picture_cache._hits("lru", sizes, list(range(10)) * 50)["requests"] == 0
    # One picture for ever is a hit each time once the first fifth has passed.
    assert picture_cache._hits("lru", sizes, [3] * 100) == {"requests": 1.0, "bytes": 1.0}
