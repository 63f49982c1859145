"""The aligner's rules, one table per rule number, and the worked example as a golden log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from multimodal.errors import UsageError
from multimodal.events import AnyEvent, CueMissed, Reveal, StreamEnd, Swap, SyncMark, Text
from multimodal.sync.aligner import Aligner
from multimodal.sync.rehearsal import SlowPictureAligner
from multimodal.values import Asset, Cue, Lane, LatePolicy, Token
from multimodal.wire import Bye, Hello, Ready
from tests.sync.driving import (
    FIRST,
    PICTURES,
    TOKENS,
    Feed,
    cue,
    drive,
    eof,
    failed,
    hello,
    image,
    picture,
    ready,
    token,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "worked_example.txt"
Item = tuple[float, int, Feed]


def told(log: Sequence[AnyEvent], *, times: bool = False) -> str:
    """A log as the golden file writes it."""
    lines: dict[float, list[str]] = {}
    for event in log:
        match event:
            case Text(text=text):
                word = text
            case SyncMark(mark=mark):
                word = f"sync{mark}"
            case Reveal(key=key, preview=preview):
                word = f"{key}(preview)" if preview else key
            case Swap(key=key, ok=ok, reason=reason):
                word = f"swap{key}" if ok else f"swap{key}(no,{reason})"
            case CueMissed(key=key, reason=reason):
                word = f"missed({key},{reason})"
            case StreamEnd():
                word = "end"
            case _:
                continue
        lines.setdefault(event.pts_ms, []).append(word)
    if times:
        return "\n".join(f"{at:g} {' '.join(words)}" for at, words in lines.items())
    return " ".join(word for words in lines.values() for word in words)


def tokens(count: int, gap: float = 0.05, *, end: bool = True) -> list[Item]:
    items: list[Item] = [(round(i * gap, 6), TOKENS, token(f"t{i}")) for i in range(count)]
    if end:
        items.append((round(max(count - 1, 0) * gap, 6), TOKENS, eof))
    return items


def first(*feeds: Feed) -> list[Item]:
    return [(0.0, FIRST, feed) for feed in feeds]


@pytest.mark.parametrize(
    ("title", "late", "ready_at"),
    [
        ("placeholder, B ready 120 ms after mark 6", "placeholder", 0.37),
        ("hold 0.25, B ready 120 ms after mark 6", "hold", 0.37),
        ("hold 0.25, B ready 800 ms after mark 6", "hold", 1.05),
        ("skip, B ready 120 ms after mark 6", "skip", 0.37),
    ],
)
def test_the_worked_example(title: str, late: LatePolicy, ready_at: float) -> None:
    sections = dict(part.split("]\n", 1) for part in GOLDEN.read_text().split("[")[1:])
    cues = first(*(cue(at, key) for key, at in {"A": 0, "B": 4, "C": 4, "D": 11, "E": 12}.items()))
    pictures = first(*(picture(key) for key in "ACDE"))
    log = drive(Aligner(3, late=late), [*cues, *pictures, *tokens(12), (ready_at, PICTURES, picture("B"))])
    assert told(log, times=True) == sections[title].strip()
    drifts = {e.key: e.mark - e.anchor for e in log if isinstance(e, Reveal)}
    assert drifts == {key: drift for key, drift in zip("ABCDE", [0, 2, 2, 1, 0], strict=True) if key in drifts}


@pytest.mark.parametrize(
    ("rule", "interval", "items", "want"),
    [
        ("R1 empty tokens are tokens", 2, [(0.0, TOKENS, token("")), *tokens(1)], "sync0  t0 sync2 end"),
        ("R2 no text at all", 3, [(0.0, TOKENS, eof)], "sync0 end"),
        ("R2 the end falls on a mark: once", 3, tokens(3), "sync0 t0 t1 t2 sync3 end"),
        ("R2 the end falls between marks", 3, tokens(4), "sync0 t0 t1 t2 sync3 t3 sync4 end"),
        (
            "R2 interval 1: exactly at the anchor",
            1,
            [*first(cue(1, "A"), picture("A")), *tokens(2)],
            "sync0 t0 sync1 A t1 sync2 end",
        ),
        (
            "R2 by (anchor, declared)",
            3,
            [*first(cue(2, "B"), cue(1, "A"), cue(2, "C"), picture("A"), picture("B"), picture("C")), *tokens(3)],
            "sync0 t0 t1 t2 sync3 A B C end",
        ),
        (
            "R3 beyond the end",
            3,
            [*first(cue(5, "A"), picture("A")), *tokens(4)],
            "sync0 t0 t1 t2 sync3 t3 sync4 missed(A,beyond_end) end",
        ),
        (
            "R3 a failed picture",
            3,
            [*first(cue(1, "A"), failed("A", "truncated")), *tokens(3)],
            "sync0 t0 t1 t2 sync3 missed(A,truncated) end",
        ),
        (
            "R3 declared after its mark",
            2,
            [*first(picture("A")), *tokens(4), (0.12, FIRST, cue(1, "A"))],
            "sync0 t0 t1 sync2 t2 t3 sync4 A end",
        ),
        (
            "R3 declared after the end mark",
            2,
            [*first(picture("A")), *tokens(2, end=False), (0.1, FIRST, cue(2, "A")), (0.2, TOKENS, eof)],
            "sync0 t0 t1 sync2 missed(A,too_late) end",
        ),
        (
            "R3 declared while the end waits for a swap",
            2,
            [
                *first(cue(0, "A")),
                *tokens(2),
                (0.1, FIRST, cue(1, "B")),
                (0.1, FIRST, cue(9, "C")),
                (0.2, PICTURES, picture("A")),
            ],
            "sync0 A(preview) t0 t1 sync2 missed(B,too_late) missed(C,beyond_end) swapA end",
        ),
        (
            "R3 joins a held mark",
            2,
            [
                *first(cue(2, "A", "hold", 0.5), picture("B"), picture("C")),
                *tokens(3),
                (0.1, FIRST, cue(1, "B")),
                (0.1, FIRST, cue(2, "C")),
                (0.3, PICTURES, picture("A")),
            ],
            "sync0 t0 t1 sync2 B A C t2 sync3 end",
        ),
        (
            "R4b the end waits for a swap",
            1,
            [*first(cue(0, "A")), *tokens(1), (0.4, PICTURES, picture("A"))],
            "sync0 A(preview) t0 sync1 swapA end",
        ),
        (
            "R4b but not for ever",
            1,
            [*first(cue(0, "A")), *tokens(1)],
            "sync0 A(preview) t0 sync1 swapA(no,swap_wait) end",
        ),
        (
            "R4b a failure is a swap too",
            1,
            [*first(cue(0, "A")), *tokens(1), (0.1, PICTURES, failed("A", "html"))],
            "sync0 A(preview) t0 sync1 swapA(no,html) end",
        ),
        (
            "R4b two previews of one picture",
            1,
            [*first(cue(0, "A"), cue(1, "A")), *tokens(1), (0.1, PICTURES, picture("A"))],
            "sync0 A(preview) t0 sync1 A(preview) swapA swapA end",
        ),
        (
            "R4 swaps pass a hold",
            2,
            [
                *first(cue(0, "A"), cue(2, "B", "hold", 0.5)),
                *tokens(3),
                (0.2, PICTURES, picture("A")),
                (0.3, PICTURES, picture("B")),
            ],
            "sync0 A(preview) t0 t1 sync2 swapA B t2 sync3 end",
        ),
        (
            "R5 a failure ends a hold",
            2,
            [*first(cue(2, "B", "hold", 0.5)), *tokens(3), (0.3, PICTURES, failed("B"))],
            "sync0 t0 t1 sync2 missed(B,truncated) t2 sync3 end",
        ),
        (
            "R4 a hold at mark 0 holds the first word",
            2,
            [*first(cue(0, "A", "hold", 0.2)), *tokens(2)],
            "sync0 A(preview) t0t1 sync2 swapA(no,swap_wait) end",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("R") else "",
)
def test_rules(rule: str, interval: int, items: list[Item], want: str) -> None:
    assert told(drive(Aligner(interval), items)) == want, rule


def test_r3_flags_only_what_missed_its_own_mark() -> None:
    items = [*first(picture("A"), picture("B"), cue(4, "H", "hold", 0.5)), *tokens(6)]
    items += [(0.2, FIRST, cue(1, "A")), (0.2, FIRST, cue(3, "B"))]
    flags = {e.key: e.declared_late for e in drive(Aligner(2), items) if isinstance(e, Reveal)}
    assert flags == {"A": True, "B": False, "H": False}


@pytest.mark.parametrize(
    ("viewers", "want"),
    [
        (0, "sync0 t0 sync1 A t1 sync2 end"),
        (1, "sync0 t0 sync1 A(preview) t1 sync2 swapA end"),
        (2, "sync0 t0 sync1 A t1 sync2 end"),
    ],
)
def test_r4_readiness_is_the_one_viewers_word(viewers: int, want: str) -> None:
    items = [*first(*[hello] * viewers, cue(1, "A"), picture("A")), *tokens(2), (0.2, PICTURES, ready("A"))]
    assert told(drive(Aligner(1), items)) == want


def test_r4_a_viewer_that_leaves_is_not_waited_for() -> None:
    def bye(aligner: Aligner, now: float) -> None:
        aligner.feed_ack(Bye(), now)

    items = [*first(hello, cue(1, "A", "hold", 9.0), picture("A")), *tokens(2), (0.3, PICTURES, bye)]
    assert told(drive(Aligner(1), items), times=True) == "0 sync0 t0 sync1\n300 A t1 sync2 end"


def test_r4_what_a_viewer_cannot_decode_has_failed() -> None:
    def broken(aligner: Aligner, now: float) -> None:
        aligner.feed_ack(Ready("A", ok=False, reason="decode"), now)

    items = [*first(hello, cue(2, "A"), picture("A")), (0.01, PICTURES, broken), *tokens(2)]
    assert told(drive(Aligner(1), items)) == "sync0 t0 sync1 t1 sync2 missed(A,decode) end"


@pytest.mark.parametrize("late", ["placeholder", "hold", "skip"])
def test_a_picture_of_another_product_is_never_shown(late: LatePolicy) -> None:
    def wrong(aligner: Aligner, now: float) -> None:
        aligner.feed_image(image("A", product="mug"), now)

    def about_the_kettle(aligner: Aligner, now: float) -> None:
        aligner.feed_cue(Cue(1, "A", product="kettle"), now)

    early = drive(Aligner(1, late=late), [*first(about_the_kettle, wrong), *tokens(2)])
    assert "missed(A,wrong_product)" in told(early)
    after = told(drive(Aligner(1, late=late), [*first(about_the_kettle), *tokens(2), (0.4, PICTURES, wrong)]))
    assert ("swapA(no,wrong_product)" in after) == (late != "skip")


def test_unused_pictures_are_listed_at_the_end() -> None:
    items = [*first(picture("A"), picture("B"), cue(0, "A"), failed("C")), *tokens(1)]
    end = drive(Aligner(3), items)[-1]
    assert isinstance(end, StreamEnd)
    assert end.unused == ("B",)


def test_a_description_after_the_bytes_says_nothing_new() -> None:
    aligner = Aligner(3)
    aligner.feed_image(image("A"), 0.0)
    aligner.feed_asset(Asset("A", "", 4, 3, "picture A"), 0.0)
    aligner.feed_image(image("A"), 0.0)
    assert [e.kind for e in aligner.events()] == ["start", "asset"]


def test_a_broken_text_ends_with_its_reason() -> None:
    aligner = Aligner(2)
    aligner.feed_token(Token("a"), 0.0)
    aligner.feed_error("text_pipe", "the cable was cut", 0.1, fatal=True)
    aligner.feed_eof(0.1)
    log = aligner.events()
    assert [e.kind for e in log] == ["start", "sync", "text", "error", "sync", "end"]
    assert isinstance(log[-1], StreamEnd)
    assert log[-1].reason == "error"


def test_high_water_asks_to_stop_pulling() -> None:
    aligner = Aligner(1, high_water=4)
    aligner.feed_cue(Cue(1, "A", "hold", 5.0), 0.0)
    for i in range(4):
        aligner.feed_token(Token(f"t{i}"), 0.0)
        assert not aligner.paused
    aligner.feed_token(Token("t4"), 0.0)
    assert aligner.paused
    assert aligner.snapshot().tokens_in - aligner.snapshot().tokens_out == 4
    aligner.handle_timer(5.0)
    assert not aligner.paused


def test_slow_pictures_are_ready_a_while_after_their_mark_and_the_preroll_is_blind_to_it() -> None:
    aligner = SlowPictureAligner(0.8, 3, late="placeholder")
    items = [*first(cue(2, "A"), picture("A"), cue(3, "A")), *tokens(30)]
    assert told(drive(aligner, items), times=True).splitlines()[2:4] == [
        "100 t2 sync3 A(preview) A(preview)",
        "150 t3",
    ]
    assert "900 t18 swapA swapA" in told(drive(SlowPictureAligner(0.8, 3), items), times=True)
    fresh = SlowPictureAligner(0.8, 3)
    fresh.feed_ack(Hello(), 0.0)
    fresh.feed_image(image("A"), 0.0)
    assert fresh.unready(["A"]) == ["A"]
    fresh.feed_ack(Ready("A"), 0.1)
    assert fresh.unready(["A"]) == []


@pytest.mark.parametrize(
    ("misuse", "says"),
    [
        (lambda: Aligner(0), "at least 1"),
        (
            lambda: Aligner("3"),  # type: ignore[arg-type]
            "whole number",
        ),
        (
            lambda: Aligner(late="never"),  # type: ignore[arg-type]
            "placeholder, hold, skip",
        ),
        (lambda: Aligner(max_hold=-1), "0 or more"),
        (lambda: Aligner(min_dwell=-1), "0 or more"),
        (lambda: Cue(-1, "A"), "negative"),
        (lambda: Cue(1, ""), "empty"),
        (
            lambda: Cue(1, "A", "maybe"),  # type: ignore[arg-type]
            "placeholder, hold, skip",
        ),
        (lambda: Cue(1, "A", max_hold=float("nan")), "0 or more"),
        (lambda: SlowPictureAligner(0.0), "above 0"),
    ],
)
def test_misuse_is_refused(misuse: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        misuse()  # type: ignore[operator]


def test_order_of_calls_is_checked() -> None:
    aligner = Aligner()
    aligner.feed_token(Token("a"), 1.0)
    with pytest.raises(UsageError, match="monotonic"):
        aligner.feed_token(Token("b"), 0.5)
    aligner.feed_eof(1.0)
    with pytest.raises(UsageError, match="after the end"):
        aligner.feed_token(Token("b"), 1.0)
    with pytest.raises(UsageError, match="ended"):
        aligner.feed_cue(Cue(0, "A"), 1.0)
    aligner.events()
    for late in (picture("A"), failed("B"), ready("A"), hello, eof):
        late(aligner, 2.0)
    assert aligner.events() == []


def test_r1_a_run_never_mixes_lanes() -> None:
    """A hold lets out what waited behind it: filler words and content, each with their own lane."""
    words: list[tuple[str, Lane]] = [
        ("Um, ", "low"),
        ("well, ", "low"),
        ("the ", "main"),
        ("kettle", "main"),
        (".", "main"),
    ]
    aligner = Aligner(4)
    aligner.feed_cue(Cue(0, "A", "hold", 0.2), 0.0)
    for text, lane in words:
        aligner.feed_token(Token(text, lane=lane), 0.0)
    aligner.handle_timer(0.2)
    told = [(e.token_index, e.token_count, e.text, e.lane) for e in aligner.events() if isinstance(e, Text)]
    # The last comes after the mark at 4, over which no text reaches.
    assert told == [(0, 2, "Um, well, ", "low"), (2, 2, "the kettle", "main"), (4, 1, ".", "main")]
