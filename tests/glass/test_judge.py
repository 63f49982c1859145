"""The eye itself, on drawn screenshots: counters, gaps, first sights, verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from multimodal.glass_judge import Film, Sight, Spot, Verdict, judge, nearest, read_counter, sight
from tests.glass.films import PICTURE, WIDTH, WORD, film, shot


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 4095), st.sampled_from([1.0, 0.7, 1.5]))
def test_a_counter_survives_jpeg_and_scaling(n: int, scale: float) -> None:
    assert Film([shot(n, scale=scale)], WIDTH).counters == [n]


@pytest.mark.parametrize(
    "picture",
    [
        np.full((20, 300), 255, np.uint8),
        np.zeros((20, 300), np.uint8),
        np.full((20, 300), 128, np.uint8),
        np.zeros((4, 300), np.uint8),
        np.zeros((20, 60), np.uint8),
        np.zeros((20, 300, 3), np.uint8),
    ],
    ids=["white", "black", "grey", "too low", "too narrow", "not grey levels"],
)
def test_what_is_no_counter_is_not_read(picture: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    assert read_counter(picture) is None


def test_a_counter_with_a_wrong_parity_is_not_read() -> None:
    assert Film([shot(5, parity=1)], WIDTH).unreadable == 1


def test_a_film_unwraps_counters_and_leaves_out_what_it_cannot_read() -> None:
    taken = [shot(4094), shot(4095), shot(None), b"not a picture", shot(0), shot(4095), shot(3)]
    seen = Film(taken, WIDTH)
    assert seen.counters == [4094, 4095, 4096, 4099]
    assert (len(seen), seen.unreadable, seen.lost) == (4, 3, 2)


def test_a_patch_outside_the_viewport_is_empty() -> None:
    seen = film(range(3), 0, 0)
    assert seen.patch(0, (10.0, -50.0, 20.0, 20.0)).size == 0
    assert seen.patch(0, (10.0, 500.0, 20.0, 20.0)).size == 0


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_first_sight_of_a_word_and_of_a_picture(scale: float) -> None:
    seen = film(range(10, 40), 21, 24, scale=scale)
    word, picture = sight(seen, Spot(20, WORD)), sight(seen, Spot(20, PICTURE))
    assert (word.counter, word.gap) == (21, False)
    assert (picture.counter, picture.gap) == (24, False)


def test_a_missing_screenshot_before_the_first_sight_is_a_gap() -> None:
    assert sight(film([*range(10, 20), *range(21, 40)], 20, 20), Spot(20, WORD)).gap


def test_a_missing_screenshot_elsewhere_is_none() -> None:
    assert not sight(film([*range(10, 17), *range(18, 25), *range(27, 40)], 20, 20), Spot(20, WORD)).gap


def test_a_picture_that_flickers_counts_from_when_it_stays() -> None:
    taken = [shot(n, picture=n == 20 or n >= 24) for n in range(10, 40)]
    assert sight(Film(taken, WIDTH), Spot(20, PICTURE)).counter == 24


@pytest.mark.parametrize(
    ("frames", "spot", "why"),
    [
        (range(20, 40), Spot(20, WORD), "no screenshot from before it"),
        (range(5, 15), Spot(40, WORD), "no screenshot while it stood there"),
        (range(10, 40), Spot(20, (-99.0, 0.0, 9.0, 9.0)), "outside the viewport"),
        (range(10, 40), Spot(20, WORD, until=20), "no screenshot while it stood there"),
    ],
)
def test_what_was_not_filmed_is_a_gap(frames: Sequence[int], spot: Spot, why: str) -> None:
    found = sight(film([n for n in frames if n != 19 or spot.until is None], 20, 20), spot)
    assert (found.index, found.gap) == (None, True)
    assert found.why == why


def test_what_never_changes_is_not_seen() -> None:
    found = sight(film(range(10, 70), 20, 1000), Spot(20, PICTURE))
    assert (found.index, found.gap, found.why) == (None, False, "nothing changed where it should stand")


def test_a_spot_is_looked_at_only_while_it_stands_there() -> None:
    """The picture is gone again at frame 26: what comes later is another one's."""
    taken = [shot(n, picture=21 <= n < 26) for n in range(10, 60)]
    assert sight(Film(taken, WIDTH), Spot(20, PICTURE, until=26)).counter == 21
    assert sight(Film(taken, WIDTH), Spot(20, PICTURE)).index is None


AT_20, AT_23, UNSEEN = Sight(10, 20), Sight(13, 23), Sight(why="nothing changed")
AT_20_AGAIN = Sight(11, 20)
AFTER_A_GAP, LATE_AFTER_A_GAP = Sight(10, 20, True, "missing"), Sight(13, 23, True, "missing")
NOT_FILMED = Sight(None, None, True, "not filmed")


@pytest.mark.parametrize(
    ("word", "picture", "verdict", "frames"),
    [
        (AT_20, AT_20, "same", 0),
        (AT_20, AT_23, "apart", 3),
        (AT_23, AT_20, "apart", -3),
        (AT_20, AT_20_AGAIN, "apart", 1),
        (AT_20_AGAIN, AT_20, "apart", -1),
        (AT_20, UNSEEN, "apart", None),
        (AT_20, None, "apart", None),
        (AT_20, LATE_AFTER_A_GAP, "apart", 3),
        (AFTER_A_GAP, AT_23, "apart", 3),
        (AFTER_A_GAP, AFTER_A_GAP, "undetermined", None),
        (AFTER_A_GAP, AT_20, "undetermined", None),
        (AT_20, AFTER_A_GAP, "undetermined", None),
        (AT_20, NOT_FILMED, "undetermined", None),
        (NOT_FILMED, AT_20, "undetermined", None),
        (UNSEEN, AT_20, "undetermined", None),
        (None, AT_20, "undetermined", None),
    ],
)
def test_verdicts(word: Sight | None, picture: Sight | None, verdict: Verdict, frames: int | None) -> None:
    found, apart, why = judge(word, picture)
    assert (found, apart) == (verdict, frames)
    assert bool(why) == (verdict != "same")


def test_the_nearest_spot_is_taken_and_none_from_far_away() -> None:
    spots = [Spot(5, PICTURE), Spot(100, PICTURE), Spot(300, PICTURE)]
    assert nearest(spots, 110) == spots[1]
    assert nearest(spots, 1000) is None
    assert nearest([], 3) is None


def test_a_scaled_film_is_read_with_its_own_cells() -> None:
    big = Image.new("L", (WIDTH, 200), 255)
    assert read_counter(np.asarray(big), 4.0) is None
    assert film(range(4), 0, 0, scale=0.5).counters == [0, 1, 2, 3]
