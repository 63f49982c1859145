"""From notes and screenshots to a report; receipts are only compared, never believed."""

from __future__ import annotations

from typing import Any

import pytest

from multimodal.events import Reveal
from multimodal.glass import Glass, Pair, agree, claims, same_frame_share
from multimodal.glass_judge import Verdict
from multimodal.glass_world import BLOCK_PX
from tests.glass.films import PICTURE, WIDTH, WORD, shot, shots

FULL = (PICTURE[0] - 15, PICTURE[1] - 11, PICTURE[2] * 1.25, PICTURE[3] * 1.25)
"""A slot whose inner part, which is looked at, is the picture."""


def reveal(cue: int = 0, key: str = "k", mark: int = 3, preview: bool = False) -> Reveal:
    return Reveal(1, "s", 0, 5, 0.0, mark, cue=cue, key=key, product="", anchor=mark, mark=mark, preview=preview)


def word(n: int, tok: int = 2, hidden: bool = False) -> dict[str, Any]:
    return {"kind": "word", "n": n, "tok": tok, "box": list(WORD), "hidden": hidden}


def pic(n: int, key: str = "k", ident: int = 0, hidden: bool = False) -> dict[str, Any]:
    return {"kind": "pic", "n": n, "key": key, "box": list(FULL), "hidden": hidden, "id": ident}


def glass(notes: list[dict[str, Any]], taken: list[bytes]) -> Glass:
    made = Glass(WIDTH, BLOCK_PX)
    made.notes.extend(notes)
    made.shots.extend(taken)
    return made


def verdict(notes: list[dict[str, Any]], taken: list[bytes], one: Reveal | None = None) -> Pair:
    return glass(notes, taken).report([one or reveal()]).pairs[0]


def test_word_and_picture_in_one_frame() -> None:
    assert verdict([word(20), pic(20)], shots(range(10, 60), 20, 20)).verdict == "same"


def test_a_picture_that_is_painted_later_than_the_page_says() -> None:
    """The DOM had both at frame 20; on the glass the picture came at 27."""
    found = verdict([word(20), pic(20)], shots(range(10, 60), 20, 27))
    assert (found.verdict, found.apart_frames) == ("apart", 7)


def test_without_a_counter_nothing_is_ever_the_same() -> None:
    taken = [shot(None, word=n >= 20, picture=n >= 20) for n in range(10, 60)]
    found = glass([word(20), pic(20)], taken).report([reveal()])
    assert (found.undetermined, found.same_frame_share, found.frames) == (1, 0.0, 0)


def test_without_screenshots_nothing_is_ever_the_same() -> None:
    assert verdict([word(20), pic(20)], []).verdict == "undetermined"


def test_without_notes_nothing_is_ever_the_same() -> None:
    assert verdict([], shots(range(10, 60), 20, 20)).verdict == "undetermined"


def test_a_gap_counts_as_a_miss() -> None:
    found = glass([word(20), pic(20)], shots([*range(10, 19), *range(20, 60)], 20, 20)).report([reveal()])
    assert (found.undetermined, found.same_frame_share, found.frames_lost) == (1, 0.0, 1)


def test_a_picture_after_another_of_the_same_bytes_is_not_judged() -> None:
    """The film shows no change; whether the second came cannot be seen on it."""
    notes, taken = [pic(12, "a"), word(20), pic(20, ident=1)], shots(range(10, 60), 20, 12)
    assert verdict(notes, taken).verdict == "apart"
    unlike = glass(notes, taken).report([reveal()], digests={"a": "1", "k": "2"})
    assert unlike.pairs[0].verdict == "apart"
    alike = glass(notes, taken).report([reveal()], digests={"a": "1", "k": "1"})
    assert (alike.pairs[0].verdict, alike.not_judged) == ("not judged", 1)
    assert alike.pairs[0].why == "a picture of the same bytes was on the glass before"


@pytest.mark.parametrize("hidden", [(True, False), (False, True), (True, True)])
def test_a_hidden_page_is_not_judged(hidden: tuple[bool, bool]) -> None:
    found = verdict([word(20, hidden=hidden[0]), pic(20, hidden=hidden[1])], shots(range(10, 60), 20, 20))
    assert (found.verdict, found.why) == ("not judged", "the page was hidden")


def test_a_picture_that_stays_is_not_judged_but_one_that_never_comes_is() -> None:
    taken = shots(range(10, 400), 300, 20)
    assert verdict([pic(20), word(300)], taken).why == "the picture was on the glass before"
    gone = verdict([pic(20), pic(60, "other", 1), word(300)], taken)
    assert (gone.verdict, gone.why) == ("apart", "the page never held the picture for a whole frame")


def test_a_placeholder_without_a_preview_is_not_judged() -> None:
    taken = shots(range(10, 70), 20, 1000)
    assert verdict([word(20), pic(20)], taken, reveal(preview=True)).verdict == "not judged"
    assert verdict([word(20), pic(20)], taken).verdict == "apart"


def test_the_picture_of_a_later_reveal_is_not_taken_for_an_earlier_one() -> None:
    """The same key twice: each reveal is judged by the showing next to its own word."""
    notes = [word(20, tok=2), pic(20, ident=0), {"kind": "gone", "n": 30, "id": 0}, word(320, tok=5), pic(320, ident=1)]
    taken = [shot(n, word=n >= 20, picture=20 <= n < 30 or n >= 320) for n in [*range(10, 60), *range(310, 360)]]
    found = glass(notes, taken).report([reveal(0), reveal(1, mark=6)])
    assert [pair.why for pair in found.pairs] == ["", "word: nothing changed where it should stand"]


def test_the_opening_has_no_words_and_is_counted_apart() -> None:
    found = glass([], []).report([reveal(mark=0), reveal(1)])
    assert (found.opening, len(found.pairs)) == (1, 1)


def test_shifts_and_gaps_are_reported() -> None:
    notes = [{"kind": "shift", "value": 0.25}, {"kind": "shift", "value": 0.5}, {"kind": "gap", "n": 3, "ms": 83.34}]
    found = glass(notes, []).report([])
    assert (found.layout_shift, found.raf_gaps_ms, found.same_frame_share) == (0.75, (83.3,), 0.0)


def log(word_frame: int, picture_frame: int) -> list[dict[str, Any]]:
    text = {"kind": "text", "seq": 4, "token_index": 1, "token_count": 2}
    shown = {"kind": "reveal", "seq": 6, "cue": 0, "mark": 3}
    painted = [
        {"vantage": "painted", "t_ms": 0.0, "seq": 3, "frame": 1},
        {"vantage": "painted", "t_ms": 0.0, "seq": 4 if word_frame != picture_frame else 6, "frame": word_frame},
        {"vantage": "painted", "t_ms": 0.0, "seq": 9, "frame": picture_frame},
    ]
    return [{"vantage": "arrived", "t_ms": 0.0, "event": event} for event in (text, shown)] + painted


def test_what_receipts_claim() -> None:
    assert claims(log(7, 7)) == {0: True}
    assert claims(log(7, 8)) == {0: False}
    assert claims(log(7, 8)[:3]) == {0: False}, "never confirmed is not confirmed"
    assert claims([]) == {}


PAIRS: dict[Verdict, Pair] = {name: Pair(0, "k", 3, name) for name in ("same", "apart", "undetermined", "not judged")}


def test_agreement_is_over_pairs_that_pixels_judged() -> None:
    same, apart, unknown = PAIRS["same"], PAIRS["apart"], PAIRS["undetermined"]
    assert agree([same, unknown], log(7, 7)) == 1.0
    assert agree([apart], log(7, 7)) == 0.0
    assert agree([apart], log(7, 8)) == 1.0
    assert agree([same, apart], log(7, 7)) == 0.5
    assert agree([same], []) == 0.0, "a missing receipt agrees with nothing"
    assert agree([unknown], log(7, 7)) == 0.0


def test_disagreements_are_counted() -> None:
    notes, taken = [word(20), pic(20)], shots(range(10, 60), 20, 27)
    assert glass(notes, taken).report([reveal()], log(7, 7)).disagreements == 1
    assert glass(notes, taken).report([reveal()], log(7, 8)).disagreements == 0
    assert glass(notes, taken).report([reveal()]).disagreements is None


def test_the_share_counts_undetermined_as_misses_and_leaves_out_what_was_not_judged() -> None:
    assert same_frame_share(PAIRS.values()) == pytest.approx(1 / 3)
    assert same_frame_share([PAIRS["not judged"]]) == 0.0


def test_a_clip_is_counted_apart_and_neither_agrees_nor_disagrees() -> None:
    """A video's first frame is painted two frames after its element is shown."""
    receipts: list[dict[str, Any]] = [
        {"event": {"kind": "text", "token_index": 2, "token_count": 1, "seq": 4}},
        {"event": {"kind": "reveal", "cue": 0, "mark": 3, "seq": 5}},
        {"vantage": "painted", "seq": 5, "frame": 1},
    ]
    filmed = glass([word(20), pic(20)], shots(range(10, 60), 20, 22))
    judged = filmed.report([reveal()], receipts)
    assert (judged.clips, judged.disagreements, judged.pairs[0].apart_frames) == (0, 1, 2)
    apart = filmed.report([reveal()], receipts, {"k"})
    assert (apart.clips, apart.disagreements, apart.pairs, apart.opening) == (1, 0, (), 0)
    opening = filmed.report([reveal(mark=0)], receipts, {"k"})
    assert (opening.clips, opening.opening) == (0, 1)
