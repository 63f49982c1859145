"""The independent check: did the picture appear in the same frame as its word? Captured pixels decide.

The page's own receipts can be wrong or lie (a receipt for a picture that was not decoded yet, or never painted), so
nothing here reads them to reach a verdict. A frame counter is drawn into a corner of the page from an isolated world,
Chromium's trace takes a screenshot of every frame, and the pixels of each word and picture are compared from
screenshot to screenshot. The method counts a frame it did not capture against the page, never for it.

Limits of Chromium's trace screenshots (measured, version 156): at most 500 px on the longer side (larger viewports are
scaled down), and at most 450 per trace. So the check runs best in a viewport of 500 x 500, and the trace is started
anew, which loses 2-4 frames, at a calm moment: when no picture has changed for a while.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.errors import UsageError
from multimodal.events import Reveal
from multimodal.glass_camera import Camera
from multimodal.glass_judge import Film, Pair, Sight, Spot, Verdict, judge, nearest, sight
from multimodal.glass_world import BINDING, BLOCK_PX, WORLD, world_script

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["VIEWPORT", "Glass", "GlassReport", "Pair", "agree", "claims", "watch"]

VIEWPORT = {"width": 500, "height": 500}
"""The largest viewport whose trace screenshots are not scaled down."""

_SHOT_LIMIT_PX = 500


class GlassReport(msgspec.Struct, frozen=True):
    """What the glass showed.

    Args:
        pairs: one per reveal that has words before its mark.
        same_frame_share: same / (same + apart + undetermined); 0 where no pair could be judged.
        undetermined: pairs whose frames were not captured or not readable; they count as misses.
        not_judged: pairs of a hidden page, or without anything to see.
        opening: reveals on mark 0, which have no words before them.
        clips: reveals of clips, which are no pairs: a browser paints the first frame of a video a frame or two after
            its element is shown, whoever shows it.
        disagreements: pairs that pixels and receipts judge differently; None without receipts.
        layout_shift: the sum of layout shifts that no input caused.
        raf_gaps_ms: intervals of more than 50 ms between two animation frames.
        frames: screenshots read.
        frames_lost: frames between the first and the last screenshot of which there is none.
    """

    pairs: tuple[Pair, ...]
    same_frame_share: float
    undetermined: int
    not_judged: int
    opening: int
    disagreements: int | None
    layout_shift: float
    raf_gaps_ms: tuple[float, ...]
    frames: int
    frames_lost: int
    clips: int = 0


def same_frame_share(pairs: Iterable[Pair]) -> float:
    """The share of `same` among the pairs that count: all but `not judged`; 0 where there is none."""
    counted = [pair.verdict == "same" for pair in pairs if pair.verdict != "not judged"]
    return sum(counted) / len(counted) if counted else 0.0


def claims(log: Iterable[Mapping[str, Any]]) -> dict[int, bool]:
    """What a recording's receipts say: cue -> whether its reveal and the last word before its mark share a frame.

    One whose frame applied a later mark's picture too never was on the glass, and claims nothing.

    Args:
        log: lines of the player's log or of a recording: those with an `event`, and those of vantage `painted`.
    """
    word_seq: dict[int, int] = {}
    reveals: list[tuple[int, int, int]] = []
    frames: list[tuple[int, Any]] = []
    for line in log:
        if line.get("vantage") == "painted":
            frames.append((line["seq"], line["frame"]))
            continue
        event = line.get("event") or {}
        if event.get("kind") == "text":
            for tok in range(event["token_index"], event["token_index"] + event["token_count"]):
                word_seq[tok] = event["seq"]
        elif event.get("kind") == "reveal":
            reveals.append((event["cue"], event["mark"], event["seq"]))

    def frame_of(seq: int) -> Any:
        return next((frame for last, frame in frames if last >= seq), None)

    claimed = {}
    last_mark: dict[Any, int] = {}
    for cue, mark, seq in reversed(reveals):
        frame = frame_of(seq)
        stayed = last_mark.setdefault(frame, mark) == mark
        if mark - 1 in word_seq:
            claimed[cue] = frame is not None and stayed and frame == frame_of(word_seq[mark - 1])
    return claimed


def agree(pairs: Iterable[Pair], receipts: Iterable[Mapping[str, Any]]) -> float:
    """The share of pairs that pixels judged (same or apart) and that the receipts judge alike; 0 where there is none.

    Args:
        pairs: from a `GlassReport`.
        receipts: the player's log, as `claims` takes it; a missing receipt agrees with nothing.
    """
    claimed = claims(receipts)
    judged = [pair for pair in pairs if pair.verdict in ("same", "apart")]
    alike = sum(claimed.get(pair.cue) == (pair.verdict == "same") for pair in judged)
    return alike / len(judged) if judged else 0.0


class Glass:
    """What `watch` collected; `report` may be called once its block has ended."""

    def __init__(self, width_px: int, cell_px: int) -> None:
        self.notes: list[dict[str, Any]] = []
        self.shots: list[bytes] = []
        self._width_px = width_px
        self._cell_px = cell_px

    def report(
        self,
        reveals: Iterable[Reveal],
        receipts: Sequence[Mapping[str, Any]] | None = None,
        clips: Collection[str] = (),
        digests: Mapping[str, str] | None = None,
    ) -> GlassReport:
        """Judge every reveal against the captured pixels (CPU: about 2 ms per screenshot; run it in a thread).

        Args:
            reveals: what was emitted: which picture belongs to which mark. Taken from the sender, not from the page.
            receipts: the player's log, only to count where it disagrees with the pixels.
            clips: keys of the pictures that are videos: they are counted, and not judged by pixels.
            digests: of the pictures' bytes, by key: where two alike follow each other nothing is to be seen.
        """
        film = Film(self.shots, self._width_px, self._cell_px)
        words, pictures = _spots(self.notes)
        everything = list(reveals)
        marked = [reveal for reveal in everything if reveal.mark > 0]
        stills = [reveal for reveal in marked if reveal.key not in clips]
        pairs = [_pair(film, words, pictures, reveal, digests or {}) for reveal in stills]
        disagreements = None
        if receipts is not None:
            claimed = claims(receipts)
            disagreements = sum(
                claimed.get(pair.cue) != (pair.verdict == "same") for pair in pairs if pair.verdict in ("same", "apart")
            )
        return GlassReport(
            pairs=tuple(pairs),
            same_frame_share=same_frame_share(pairs),
            undetermined=sum(pair.verdict == "undetermined" for pair in pairs),
            not_judged=sum(pair.verdict == "not judged" for pair in pairs),
            opening=len(everything) - len(marked),
            disagreements=disagreements,
            layout_shift=sum(note["value"] for note in self.notes if note["kind"] == "shift"),
            raf_gaps_ms=tuple(round(note["ms"], 1) for note in self.notes if note["kind"] == "gap"),
            frames=len(film),
            frames_lost=film.lost,
            clips=len(marked) - len(stills),
        )


def _spots(notes: Iterable[Mapping[str, Any]]) -> tuple[dict[int, Spot], dict[str, list[Spot]]]:
    """Where words and pictures stood. The first word of a number counts: one watch, one tour."""
    left: dict[Any, int] = {}
    placed: list[tuple[Any, Mapping[str, Any]]] = []
    for note in notes:
        if note["kind"] == "word":
            placed.append((("tok", note["tok"]), note))
        elif note["kind"] == "pic":
            placed.append((("id", note["id"]), note))
        elif note["kind"] == "gone":
            left.setdefault(("id", note["id"]) if "id" in note else ("tok", note["tok"]), note["n"])
    words: dict[int, Spot] = {}
    pictures: defaultdict[str, list[Spot]] = defaultdict(list)
    for name, note in placed:
        x, y, width, height = note["box"]
        if note["kind"] == "word":
            words.setdefault(note["tok"], Spot(note["n"], (x, y, width, height), note["hidden"], left.get(name)))
        else:
            # Without its rim: rounded corners and shadows belong to the slot, which is there before the picture.
            inner = (x + width * 0.1, y + height * 0.1, width * 0.8, height * 0.8)
            pictures[note["key"]].append(Spot(note["n"], inner, note["hidden"], left.get(name)))
    return words, pictures


def _pair(
    film: Film,
    words: Mapping[int, Spot],
    pictures: Mapping[str, Sequence[Spot]],
    reveal: Reveal,
    digests: Mapping[str, str],
) -> Pair:
    tok = reveal.mark - 1
    word = words.get(tok)
    spots = pictures.get(reveal.key, ())
    picture = nearest(spots, word.n) if word is not None else None
    verdict: Verdict
    frames: int | None = None
    if word is not None and (word.hidden or (picture is not None and picture.hidden)):
        verdict, why = "not judged", "the page was hidden"
    elif word is not None and picture is None and _stays(pictures, reveal.key, word.n):
        verdict, why = "not judged", "the picture was on the glass before"
    elif picture is not None and _repeats(pictures, reveal.key, picture.n, digests):
        verdict, why = "not judged", "a picture of the same bytes was on the glass before"
    else:
        seen_word: Sight | None = sight(film, word) if word is not None else None
        seen_picture: Sight | None = sight(film, picture) if picture is not None else None
        verdict, frames, why = judge(seen_word, seen_picture)
        if verdict == "apart" and frames is None and reveal.preview:
            verdict, why = "not judged", "a placeholder with nothing to see"
    return Pair(reveal.cue, reveal.key, reveal.mark, verdict, frames, why, reveal.preview)


def _stays(pictures: Mapping[str, Sequence[Spot]], key: str, n: int) -> bool:
    """Whether `key` was the last picture to appear before frame `n`."""
    return _last(pictures, n + 1) == key


def _repeats(pictures: Mapping[str, Sequence[Spot]], key: str, n: int, digests: Mapping[str, str]) -> bool:
    """Whether the picture that `key` took the place of at frame `n` has the same bytes."""
    before = _last(pictures, n)
    return before not in ("", key) and key in digests and digests.get(before) == digests[key]


def _last(pictures: Mapping[str, Sequence[Spot]], n: int) -> str:
    """The last picture to appear before frame `n`; "" = none did."""
    shown = [(spot.n, name) for name, spots in pictures.items() for spot in spots if spot.n < n]
    return max(shown)[1] if shown else ""


@asynccontextmanager
async def watch(page: Page, *, host: str = "product-tour") -> AsyncIterator[Glass]:
    """Film a page of Chromium while the block runs: start it before the tour, play one tour in it.

    Args:
        page: of Playwright's async API; its viewport is best `VIEWPORT`.
        host: CSS selector of the player's element, whose open shadow root holds words and pictures.

    Raises:
        UsageError: the page has no viewport size, or another trace is running in this browser.
    """
    size = page.viewport_size
    if size is None:
        raise UsageError("the pixel check needs a page with a viewport size, such as multimodal.glass.VIEWPORT")
    scale = -(-max(size["width"], size["height"]) // _SHOT_LIMIT_PX)
    glass = Glass(size["width"], BLOCK_PX * scale)
    cdp = await page.context.new_cdp_session(page)
    try:
        camera = Camera(cdp, glass.notes, glass.shots)
        await cdp.send("Runtime.enable")
        await cdp.send("Page.enable")
        cdp.on("Runtime.bindingCalled", camera.noted)
        await cdp.send("Runtime.addBinding", {"name": BINDING, "executionContextName": WORLD})
        script = await cdp.send(
            "Page.addScriptToEvaluateOnNewDocument",
            {"source": world_script(host, scale), "worldName": WORLD, "runImmediately": True},
        )
        await camera.start()
        # No TaskGroup: it would wrap what the caller's block raises into a group. It ends with the block.
        turning = asyncio.create_task(camera.turn())
        try:
            yield glass
        finally:
            # Not cancelled: between two traces that would leave none to end.
            camera.ending = True
            await asyncio.gather(turning, return_exceptions=True)
            if not page.is_closed():
                await camera.stop()
                await cdp.send("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})
    finally:
        if not page.is_closed():
            await cdp.detach()
