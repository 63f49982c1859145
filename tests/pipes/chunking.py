"""Plays token streams through a chunker, and says which rule a run breaks: by what was known when, not by its code."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multimodal.pipes.chunker import PATIENCE, Chunker
from multimodal.pipes.fillers import FillerScorer
from multimodal.values import Token

CORPORA = Path(__file__).parent / "corpora"
HESITATIONS = ("u", "h", "m", "e", "嗯", "呃", "唔")
SLACK = 1e-9


@dataclass
class Narration:
    """A labelled text: where it may end well, and what must stay whole, in code points."""

    text: str
    good: set[int]
    whole: list[tuple[int, int]]

    def __str__(self) -> str:
        return self.text[:20]


@dataclass
class Run:
    """What a chunker made of a stream: (instant, tokens) for each time something left."""

    tokens: list[Token]
    arrived: list[float]
    settings: dict[str, Any]
    groups: list[tuple[float, list[Token]]] = field(default_factory=list)
    fed_before: list[int] = field(default_factory=list)  # tokens fed when a group left
    held_after: list[tuple[int, int, float]] = field(default_factory=list)  # (tokens fed, tokens out, instant)
    flushed: bool = False

    @property
    def out(self) -> list[Token]:
        return [token for _, group in self.groups for token in group]

    @property
    def left(self) -> list[float]:
        return [at for at, group in self.groups for _ in group]

    @property
    def texts(self) -> list[str]:
        return ["".join(token.text for token in group) for _, group in self.groups]

    @property
    def shown(self) -> list[str]:
        """Groups as text, low tokens in <>."""
        return ["".join(f"<{t.text}>" if t.lane == "low" else t.text for t in group) for _, group in self.groups]


def narrations(name: str) -> list[Narration]:
    parsed = []
    for part in _lines(name).split("\n---\n"):
        text, good, whole, opened = "", set[int](), list[tuple[int, int]](), 0
        for character in part.strip("\n"):
            if character == "|":
                good.add(len(text))
            elif character == "{":
                opened = len(text)
            elif character == "}":
                whole.append((opened, len(text)))
            else:
                text += character
                if character == "\n" and len(text) - 1 in good:
                    good.add(len(text))
        parsed.append(Narration(text, good | {len(text)}, whole))
    return parsed


def labelled_fillers(name: str) -> list[tuple[str, list[tuple[int, int]]]]:
    """(text, spans of its fillers) for each line."""
    parsed = []
    for line in _lines(name).splitlines():
        text, spans, opened = "", list[tuple[int, int]](), 0
        for character in line:
            if character == "<":
                opened = len(text)
            elif character == ">":
                spans.append((opened, len(text)))
            else:
                text += character
        parsed.append((text, spans))
    return parsed


def _lines(name: str) -> str:
    whole = (CORPORA / name).read_text(encoding="utf-8")
    return "\n".join(line for line in whole.splitlines() if not line.startswith("# "))


def split(text: str, chance: random.Random, most: int = 4, empty: float = 0.0) -> list[str]:
    """Pieces of 1 to `most` characters, with empty ones between them."""
    pieces, place = [], 0
    while place < len(text):
        while chance.random() < empty:
            pieces.append("")
        size = chance.randint(1, most)
        pieces.append(text[place : place + size])
        place += size
    return pieces


def play(
    pieces: Sequence[str],
    gaps: Sequence[float] | float = 0.02,
    *,
    make: Callable[..., Chunker] = Chunker,
    changes: dict[int, dict[str, Any]] | None = None,
    spurious: Sequence[float] = (),
    last: bool = False,
    stall: float = 0.0,
    **settings: Any,
) -> Run:
    """Feed the pieces, `gaps` seconds apart, with every timer on time; flush `stall` seconds after the last."""
    chunker = make(**settings)
    tokens = [Token(text, last=last and number == len(pieces) - 1) for number, text in enumerate(pieces)]
    run = Run(tokens, [], settings)
    now, extra = 0.0, sorted(spurious)
    out = 0

    def left(tokens: list[Token], at: float) -> None:
        nonlocal out
        out += len(tokens)
        if tokens:
            run.groups.append((at, tokens))
            run.fed_before.append(len(run.arrived))
        run.held_after.append((len(run.arrived), out, at))

    def timers(until: float, limit: int = 10_000) -> None:
        for _ in range(limit):
            due = chunker.next_timer()
            calls = [at for at in (due, *extra[:1]) if at is not None and at < until]
            if not calls:
                return
            at = min(calls)
            if extra and at == extra[0]:
                extra.pop(0)
            left(chunker.handle_timer(at), at)
        raise AssertionError("C4: a timer that is over is set again and again")

    for number, token in enumerate(tokens):
        now += gaps if isinstance(gaps, float | int) else gaps[number % len(gaps)]
        timers(now)
        if changes and number in changes:
            chunker.configure(**changes[number])
        run.arrived.append(now)
        left(chunker.feed(token, now), now)
        due = chunker.next_timer()
        assert due is None or due > now, f"C4: at {now} the next timer is {due}, which is over"
    timers(now + stall)
    run.flushed = True
    left(chunker.flush(), now + stall)
    return run


def check(run: Run, whole: Sequence[tuple[int, int]] = (), never: Sequence[tuple[int, int]] = ()) -> None:
    """Every rule that can be judged from outside.

    Args:
        run: of fixed settings.
        whole: units that are to stay whole as far as the caps allow (C5).
        never: markers and clusters.

    Raises:
        AssertionError: names the rule.
    """
    tokens, out = run.tokens, run.out
    assert "".join(token.text for token in out) == "".join(token.text for token in tokens), "C2: the text differs"
    assert [token.text for token in out] == [token.text for token in tokens], "C2: tokens were joined or split"
    _check_times(run, whole, never)
    _check_cuts(run, whole, never)
    _check_marks(run)
    _check_first(run, never)


def _ends(run: Run) -> list[int]:
    ends, end = [], 0
    for token in run.tokens:
        end += len(token.text)
        ends.append(end)
    return ends


def _next_word(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    while place < len(text) and not text[place].isspace():
        place += 1
    return place


def _check_times(run: Run, whole: Sequence[tuple[int, int]], never: Sequence[tuple[int, int]]) -> None:
    wait = run.settings.get("max_wait", 0.4)
    filler_wait = run.settings.get("filler_wait")
    filler_wait = 2 * wait if filler_wait is None else filler_wait
    ends = _ends(run)
    text = "".join(token.text for token in run.tokens)
    # A number waits for the word behind it, which may be its unit (B2).
    whole = [(first, _next_word(text, last)) for first, last in whole]
    # A list item's label waits for its first word.
    whole += [found.span() for found in re.finditer(r"(?m)^- *\S*", text)]
    # A bracket may be the beginning of a marker until the next character is there.
    never = [*never, *((place, place + 1) for place, character in enumerate(text) if character == "[")]
    for index, (token, at) in enumerate(zip(run.out, run.left, strict=True)):
        # What its word was known to be makes the difference: until then it has the time of content.
        most = max(wait, filler_wait) if token.lane == "low" else wait
        start = ends[index] - len(token.text)
        if any(first <= ends[index] and start <= last for first, last in whole):
            most = max(most, PATIENCE * wait)
        if any(first <= ends[index] and start <= last for first, last in never):
            continue
        late = at - run.arrived[index]
        assert late <= most + SLACK, f"C4: token {index} {token.text!r} waited {late:.3f} s of {most:.3f}"


def _check_cuts(run: Run, whole: Sequence[tuple[int, int]], never: Sequence[tuple[int, int]]) -> None:
    size, wait = run.settings.get("size", 32), run.settings.get("max_wait", 0.4)
    if size == 1 and not run.settings.get("priority_threshold", 0.3):
        return
    ends, cut, count = _ends(run), 0, 0
    text = "".join(token.text for token in run.tokens)
    for number, (at, group) in enumerate(run.groups[:-1] if run.flushed else run.groups):
        first, count = count, count + len(group)
        cut = ends[count - 1]
        for begin, end in never:
            assert not begin < cut < end, f"C5: a cut at {cut} inside {begin}-{end}, which is never cut"
        for begin, end in whole:
            if not begin < cut < end or (cut == begin + 1 and text[begin].isalpha()):
                continue  # of one letter nobody can tell that an address begins there
            head = next(index for index in range(len(ends)) if ends[index] > begin)
            # What leaves at one instant may be several chunks: the unit alone has to reach the cap.
            alone = head <= first + _fillers(run, first) and run.fed_before[number] - first >= size
            full = size == 1 or alone or count - head >= size
            patient = at - run.arrived[max(head, first)] >= PATIENCE * wait - SLACK
            opening = number == 0 or _only_fillers(run, text[: ends[head - 1] if head else 0])
            assert full or patient or opening, f"C5: a cut at {cut} inside {begin}-{end}, and no cap was reached"


def _only_fillers(run: Run, text: str) -> bool:
    """Nothing but fillers, judged by what stands behind them or not, and the signs around them."""
    text = re.sub(r"(?i)\[\[show:[^\]]*\]\]", "", text)
    scorer = FillerScorer()
    least = 1 - run.settings.get("priority_threshold", 0.3)
    for filler in [*scorer.feed(text + ","), *scorer.flush()]:
        if filler.score > least:
            text = text[: filler.start] + " " * (filler.end - filler.start) + text[filler.end :]
    return not any(character.isalnum() for character in text)


def _fillers(run: Run, first: int) -> int:
    count = 0
    while run.out[first + count].lane == "low":
        count += 1
    return count


def _check_marks(run: Run) -> None:
    every = run.settings.get("sync_interval")
    if not every:
        return
    ends, out = _ends(run), run.out
    scorer, known = FillerScorer(), [0]
    for token in run.tokens:
        if token.text:
            scorer.feed(token.text)
        known.append(scorer.open)
    for fed, gone, _ in run.held_after:
        before = out[gone : fed // every * every]
        # A token without text is judged with the next that has some.
        needs = [next((i for i in range(gone + n, len(out)) if out[i].text), len(out)) for n in range(len(before))]
        judged = all(index < fed and ends[index] <= known[fed] for index in needs)
        low = bool(before) and all(token.lane == "low" for token in before)
        assert not (low and judged), f"C8: after {fed} tokens {[token.text for token in before]} stayed behind a mark"


def _check_first(run: Run, never: Sequence[tuple[int, int]]) -> None:
    """C1: the first token with content leaves when it comes."""
    ends = _ends(run)
    text = "".join(token.text for token in run.tokens)
    never = [span for span in never if text[span[0]] == "["]
    for index, (token, at) in enumerate(zip(run.out, run.left, strict=True)):
        start = ends[index] - len(token.text)
        hidden = any(first <= start and ends[index] <= last for first, last in never)
        if token.lane == "low" or not token.text.strip() or hidden:
            continue
        in_marker = any(first < ends[index] and start < last for first, last in never)
        letters = "".join(filter(str.isalnum, token.text)).lower()
        hesitates = run.settings.get("priority_threshold", 0.3) and letters[:1] in HESITATIONS
        if in_marker or (not any(c.isalnum() for c in token.text) and index) or token.text.endswith("["):
            return  # what a marker, or a sign behind a filler, has to wait for is judged elsewhere
        known = next((run.arrived[i] for i in range(index + 1, len(ends)) if run.tokens[i].text), at)
        latest = known if hesitates else run.arrived[index]
        assert at <= latest + SLACK, f"C1: the first content {token.text!r} waited {at - run.arrived[index]:.3f} s"
        return
