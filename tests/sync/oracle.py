"""What the rules say of a scenario, computed another way: by arithmetic on times, without queues or timers.

`expected` gives each token its instant of emission and each cue its outcome with the instant, for cues declared before
the first token. `check_order` holds for every run, late cues included. Both raise AssertionError naming the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from multimodal.events import AnyEvent, CueMissed, Reveal, StreamEnd, StreamStart, Swap, SyncMark, Text
from tests.sync.driving import Scenario

NEVER = 10**9


@dataclass(frozen=True)
class Expected:
    """Instants in milliseconds since the first item."""

    token_ms: list[int]
    outcomes: dict[int, tuple[str, int]]
    swaps: dict[int, tuple[bool, int]]
    end_ms: int


def expected(run: Scenario) -> Expected:
    n, step = len(run.token_ms), run.interval
    marks = sorted({*range(0, n + 1, step), n})
    resolve = {**run.ready_ms, **run.failed_ms}
    outcomes: dict[int, tuple[str, int]] = {}
    previews: dict[int, tuple[str, int]] = {}
    token_ms: list[int] = []
    release = 0
    done: set[int] = set()
    dwell_until, home = -1, -1

    def settle(at: int, now: int, numbers: list[int], crowding: bool) -> int:
        nonlocal dwell_until, home
        for number in numbers:
            anchor, key, late, hold_ms = run.cues[number]
            policy = late or run.late
            known = resolve.get(key, NEVER)
            own = -(-anchor // step) * step
            gone = key in run.failed_ms and known <= now
            if crowding and not gone and at < dwell_until and own != home:
                continue
            if policy == "hold" and not gone:
                now = max(now, min(known, at + (run.max_hold_ms if hold_ms is None else hold_ms)))
            done.add(number)
            if known <= now and key in run.failed_ms:
                outcomes[number] = ("missed:truncated", now)
                continue
            if known > now and policy == "skip":
                outcomes[number] = ("missed:late", now)
                continue
            outcomes[number] = ("reveal" if known <= now else "preview", now)
            if known > now:
                previews[number] = (key, now)
            if own != home:
                dwell_until, home = now + run.min_dwell_ms, own
        return now

    for index, mark in enumerate(marks):
        off_interval_end = mark == n and (mark % step or mark == 0)
        if off_interval_end:
            at = max(run.eof_ms, release if n == 0 or not token_ms else max(token_ms[-1], release))
        else:
            at = max(run.token_ms[0], release) if mark == 0 else token_ms[-1]
        due = [i for _, i in sorted((c[0], i) for i, c in enumerate(run.cues) if c[0] <= mark and i not in done)]
        release = settle(at, at, due, not (off_interval_end and n))
        if mark == n:
            # The text is known to be over: what R10 still holds back comes out now, on this mark.
            left = [i for i in due if i not in done]
            release = settle(at, max(release, run.eof_ms), left, False) if left else release
        following = marks[index + 1] if index + 1 < len(marks) else n
        token_ms += [max(run.token_ms[i], release) for i in range(mark, following)]
    closed = max(release, run.eof_ms)
    for number in range(len(run.cues)):
        if number not in done:
            outcomes[number] = ("missed:beyond_end", closed)
    swaps: dict[int, tuple[bool, int]] = {}
    end = closed
    limit = closed + run.swap_wait_ms
    for number, (key, _) in previews.items():
        known = resolve.get(key, NEVER)
        # A picture that comes at the very instant of the limit goes before the timer.
        swaps[number] = (key in run.ready_ms and known <= limit, min(known, limit))
        end = max(end, swaps[number][1])
    return Expected(token_ms, outcomes, swaps, end)


def check_times(run: Scenario, log: Sequence[AnyEvent]) -> None:
    """Every instant is the one that the rules give (R1-R5)."""
    want = expected(run)
    offset = 0 if run.cues or run.viewer else min([*run.token_ms[:1], run.eof_ms, *first_picture(run)])

    def at(event: AnyEvent) -> int:
        return round(event.pts_ms) + offset

    got_tokens = [at(e) for e in log if isinstance(e, Text) for _ in range(e.token_count)]
    assert got_tokens == want.token_ms, f"R1/R5: tokens left at {got_tokens}, the rules say {want.token_ms}"
    outcomes: dict[int, tuple[str, int]] = {}
    for event in log:
        if isinstance(event, Reveal):
            outcomes[event.cue] = ("preview" if event.preview else "reveal", at(event))
        elif isinstance(event, CueMissed):
            outcomes[event.cue] = (f"missed:{event.reason}", at(event))
    assert outcomes == want.outcomes, f"R2-R5: outcomes {outcomes}, the rules say {want.outcomes}"
    swaps = {e.cue: (e.ok, at(e)) for e in log if isinstance(e, Swap)}
    assert swaps == want.swaps, f"R4b: swaps {swaps}, the rules say {want.swaps}"
    assert at(log[-1]) == want.end_ms, f"R4b: the end came at {at(log[-1])}, the rules say {want.end_ms}"


def first_picture(run: Scenario) -> list[int]:
    return [*run.ready_ms.values(), *run.failed_ms.values()]


def check_order(run: Scenario, log: Sequence[AnyEvent]) -> None:
    """What holds for every run, whenever its cues were declared (R1-R4b, R6, R7)."""
    n, step = len(run.token_ms), run.interval
    assert isinstance(log[0], StreamStart)
    assert [e.seq for e in log] == list(range(len(log))), "R7: seq has a gap"
    assert all(a.pts_ms <= b.pts_ms for a, b in pairwise(log)), "R7: pts falls"
    assert [i for i, e in enumerate(log) if isinstance(e, StreamEnd)] == [len(log) - 1], "R6: the end is not the end"
    assert "".join(e.text for e in log if isinstance(e, Text)) == "".join(f"t{i} " for i in range(n)), "R1"
    marks = [e.mark for e in log if isinstance(e, SyncMark)]
    assert marks == sorted({*range(0, n + 1, step), n}), f"R2: marks at {marks}"
    tokens = mark = 0
    mark_ms = 0.0
    previews: list[int] = []
    outcomes: list[int] = []
    order: list[tuple[int, int]] = []
    for event in log:
        # A picture that failed is missed at its own mark, past reveals that R10 moved to a later one.
        if isinstance(event, Reveal) or (isinstance(event, CueMissed) and not run.min_dwell_ms):
            order.append((event.anchor, event.cue))
        if isinstance(event, Text):
            assert event.token_index == tokens, "R1: out of order"
            assert mark <= tokens < tokens + event.token_count <= (tokens // step + 1) * step, "R1: over a mark"
            tokens += event.token_count
            text_ms = event.pts_ms
        elif isinstance(event, SyncMark):
            assert event.mark == tokens, "R2: a mark away from its boundary"
            on_time = event.mark == 0 or event.mark % step or event.pts_ms == text_ms
            assert on_time, "R2: a mark later than its token"
            mark, mark_ms = event.mark, event.pts_ms
        elif isinstance(event, Reveal):
            assert event.mark == mark == tokens, "R2: a reveal away from its mark"
            assert event.anchor <= event.mark, "R2: before its anchor"
            if event.deferred:
                assert run.min_dwell_ms, "R10: deferred without a dwell"
            elif not event.declared_late:
                assert event.mark - event.anchor < step, "R2: too many tokens after its anchor"
            longest = max([run.max_hold_ms, *(c[3] or 0 for c in run.cues)])
            limit = max(mark_ms, run.eof_ms) if run.min_dwell_ms else mark_ms
            assert event.pts_ms <= limit + longest + 0.001, "R4: a hold beyond its deadline"
            if event.preview:
                previews.append(event.cue)
            outcomes.append(event.cue)
        elif isinstance(event, CueMissed):
            outcomes.append(event.cue)
        elif isinstance(event, Swap):
            assert event.cue in previews, "R4b: a swap without its preview, or a second one"
            previews.remove(event.cue)
        assert event.tok == tokens
    if not run.late_cues:
        assert order == sorted(order), f"R2: outcomes out of (anchor, declared) order: {order}"
    assert not previews, "R4b: a preview without its swap"
    declared = len(run.cues) + len(run.late_cues)
    assert len(outcomes) == len(set(outcomes)), "R3: a cue with two outcomes"
    assert len(outcomes) == declared, "R3: a cue without its outcome"
