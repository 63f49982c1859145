"""A shelf gives back what was put there, from memory or from its file, and grows no larger than it was told."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.shelf import Shelf
from multimodal.values import EncodedImage


def image(number: int, size: int) -> EncodedImage:
    return EncodedImage(f"p{number}", bytes([number % 251 + 1]) * size, "image/webp", 30, 20, alt=f"picture {number}")


@given(sizes=st.lists(st.integers(1, 400), min_size=1, max_size=40), keep=st.integers(0, 2000))
def test_everything_comes_back_as_it_was(sizes: list[int], keep: int) -> None:
    shelf = Shelf(keep)
    images = [image(number, size) for number, size in enumerate(sizes)]
    try:
        for each in images:
            shelf.put(each)
            assert shelf.held_bytes <= max(keep, len(each.data))
        assert [shelf.get(each.key) for each in images] == images
        assert list(shelf.keys()) == [each.key for each in images]
        assert len(shelf) == len(images)
        assert "p0" in shelf
        assert shelf.get("another") is None
    finally:
        shelf.close()


def test_a_small_one_opens_no_file_and_a_closed_one_none_again() -> None:
    before = len(os.listdir("/proc/self/fd"))
    shelf = Shelf(1000)
    shelf.put(image(0, 600))
    assert len(os.listdir("/proc/self/fd")) == before
    shelf.put(image(1, 600))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    shelf.close()
    shelf.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert shelf.get("p0") is None
    assert shelf.get("p1") == image(1, 600)


def test_without_room_pictures_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    shelf = Shelf(100)
    for number in range(5):
        shelf.put(image(number, 100))
    assert [shelf.get(f"p{number}") for number in range(5)] == [image(number, 100) for number in range(5)]
    shelf.close()


def test_a_bound_below_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="0 or more"):
        Shelf(-1)
