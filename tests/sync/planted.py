"""Faults to test the kit with: a good log, damaged in one way, and what has to be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from multimodal.events import CueMissed, Reveal, Swap, SyncMark, Text
from multimodal.sync.log import Painted, SyncLog
from tests.sync.tours import TOKENS, changed, cues, emitted, index, moved, renumbered, tour, watched

__all__ = ["FAULTS", "Planted", "late_on_a_later_mark", "swapped"]


@dataclass
class Planted:
    """A fault: how to damage a log, who has to notice, and what the message has to say."""

    damage: Callable[[], SyncLog]
    caught_by: Literal["in_sync", "settled", "product", "holds"]
    verdict: str
    cause: str
    words: str = ""


def _reveal(log: SyncLog, number: int = 1) -> int:
    return index(log, Reveal, number)


def late_on_a_later_mark() -> SyncLog:
    log = tour()
    place = _reveal(log)
    mark = next(event for event in log.events[place:] if isinstance(event, SyncMark))
    late = moved(log, place, log.events.index(mark))
    return changed(late, late.events.index(late.of(Reveal)[1]), mark=mark.mark)


def late_off_its_mark() -> SyncLog:
    log = tour()
    return moved(log, _reveal(log), _reveal(log) + 2)


def late_without_a_hold() -> SyncLog:
    log = tour(viewer=False)
    place = _reveal(log)
    events = [
        msgspec.structs.replace(event, pts_ms=event.pts_ms + 300) if number >= place else event
        for number, event in enumerate(log.events)
    ]
    return emitted(log, events)


def late_mark() -> SyncLog:
    """The text stalls between the words and the end that lets their mark out."""
    log = tour(5, tokens=TOKENS[:24], declared=cues(), viewer=False)
    end = index(log, SyncMark, len(log.of(SyncMark)) - 1)
    events = [
        msgspec.structs.replace(event, pts_ms=event.pts_ms + 700) if number >= end else event
        for number, event in enumerate(log.events)
    ]
    return emitted(log, events)


def late_on_the_network() -> SyncLog:
    return watched(tour(), lambda event: 900.0 if isinstance(event, Reveal) and event.cue == 1 else 20.0)


def late_in_the_client() -> SyncLog:
    log = tour()
    seq = log.of(Reveal)[1].seq
    frames: list[Painted] = []
    for receipt in log.painted:
        if receipt.seq >= seq and not any(frame.t_ms > receipt.t_ms for frame in frames):
            # The words of the bundle are painted, the reveal only 800 ms later.
            frames.append(msgspec.structs.replace(receipt, seq=seq - 1))
            frames.append(msgspec.structs.replace(receipt, t_ms=receipt.t_ms + 800, frame=receipt.frame + 48))
        else:
            shift = 800 if frames and frames[-1].seq >= seq else 0
            frames.append(
                msgspec.structs.replace(receipt, t_ms=receipt.t_ms + shift, frame=receipt.frame + shift // 16)
            )
    return msgspec.structs.replace(log, painted=tuple(frames))


def never_painted() -> SyncLog:
    log = tour()
    seq = log.of(Reveal)[2].seq
    return msgspec.structs.replace(log, painted=tuple(item for item in log.painted if item.seq < seq))


def never_arrived() -> SyncLog:
    log = tour()
    seq = log.of(Reveal)[1].seq
    return msgspec.structs.replace(log, arrived=tuple(item for item in log.arrived if item.seq != seq))


def early_by_place() -> SyncLog:
    log = tour()
    words = next(text for text in log.texts if text.text == "Moss ")
    return moved(log, _reveal(log), log.events.index(words))


def early_by_mark() -> SyncLog:
    log = early_by_place()
    return changed(log, _reveal(log), mark=15)


def early_on_the_network() -> SyncLog:
    """Where nothing is known of painting; a player that keeps the order would have waited for the words."""
    log = watched(tour(), lambda event: 700.0 if isinstance(event, Text) and event.token_index == 17 else 20.0)
    return msgspec.structs.replace(log, painted=())


def for_other_words() -> SyncLog:
    log = tour(1)
    return changed(log, _reveal(log), anchor=15)


def swapped() -> SyncLog:
    """Two pictures take each other's cue, in a log without a plan: only the words tell."""
    log = tour()
    first, second = log.of(Reveal)[:2]
    log = changed(log, _reveal(log, 0), key=second.key, product=second.product)
    log = changed(log, _reveal(log, 1), key=first.key, product=first.product)
    return msgspec.structs.replace(log, plan=None)


def swapped_against_the_plan() -> SyncLog:
    log = swapped()
    return msgspec.structs.replace(log, plan=dict(enumerate(cues())))


def wrong_product() -> SyncLog:
    log = tour()
    return changed(log, _reveal(log), product="lamp")


def wrong_picture_of_a_product() -> SyncLog:
    log = tour()
    place = log.events.index(log.assets["mug-1"][-1])
    return msgspec.structs.replace(changed(log, place, product="lamp"), plan=None)


def wrong_picture() -> SyncLog:
    log = tour()
    return changed(log, _reveal(log), key="lamp-1")


def lost() -> SyncLog:
    log = tour()
    place = index(log, Text, 7)
    return emitted(log, [*log.events[:place], *log.events[place + 1 :]])


def lost_on_the_way() -> SyncLog:
    log = tour()
    seq = log.texts[7].seq
    return msgspec.structs.replace(log, arrived=tuple(item for item in log.arrived if item.seq != seq))


def duplicated() -> SyncLog:
    log = tour()
    place = index(log, Text, 7)
    return emitted(log, [*log.events[: place + 1], *log.events[place:]])


def duplicated_on_the_way() -> SyncLog:
    log = tour()
    return msgspec.structs.replace(log, arrived=(*log.arrived[:9], log.arrived[8], *log.arrived[9:]))


def disordered_on_the_way() -> SyncLog:
    log = tour()
    items = list(log.arrived)
    items[8], items[9] = items[9], items[8]
    return msgspec.structs.replace(log, arrived=tuple(items))


def reordered_text() -> SyncLog:
    log = tour(8)
    place = index(log, Text, 9)
    assert isinstance(log.events[place + 1], Text)
    return moved(log, place, place + 1)


def other_text() -> SyncLog:
    log = tour()
    place = index(log, Text, 7)
    return changed(log, place, text="pint ".ljust(len(log.texts[7].text)))


def falling_time() -> SyncLog:
    log = tour(viewer=False)
    place = index(log, Text, 7)
    return changed(log, place, pts_ms=log.events[place].pts_ms - 120)


def second_outcome() -> SyncLog:
    log = tour()
    reveal = log.of(Reveal)[1]
    place = index(log, SyncMark, 8)
    return renumbered(log, [*log.events[:place], reveal, *log.events[place:]])


def missing_outcome() -> SyncLog:
    log = tour()
    return renumbered(log, [event for event in log.events if event is not log.of(Reveal)[1]])


def missing_outcome_without_a_plan() -> SyncLog:
    log = missing_outcome()
    return msgspec.structs.replace(log, plan=None)


def outcome_of_no_cue() -> SyncLog:
    log = tour()
    return changed(log, _reveal(log, 2), cue=7)


def missing_swap() -> SyncLog:
    log = tour(ready={"mug-1": 1.1})
    return renumbered(log, [event for event in log.events if not isinstance(event, Swap)])


def second_swap() -> SyncLog:
    log = tour(ready={"mug-1": 1.1})
    place = index(log, Swap)
    return renumbered(log, [*log.events[: place + 1], *log.events[place:]])


def swap_of_another_picture() -> SyncLog:
    log = tour(ready={"mug-1": 1.1})
    return changed(log, index(log, Swap), key="lamp-1")


def missed_against_its_policy() -> SyncLog:
    log = tour()
    reveal = log.of(Reveal)[1]
    missed = CueMissed(1, "tour", 0, reveal.seq, reveal.pts_ms, reveal.tok, reveal.cue, reveal.key, 17, "late")
    return emitted(log, [missed if event is reveal else event for event in log.events])


def missing_mark() -> SyncLog:
    log = tour()
    mark = log.marks[9]
    return renumbered(log, [event for event in log.events if event is not mark])


def mark_twice() -> SyncLog:
    log = tour()
    place = log.events.index(log.marks[9])
    return renumbered(log, [*log.events[: place + 1], *log.events[place:]])


def text_after_the_end() -> SyncLog:
    log = tour()
    return renumbered(log, [*log.events, Text(1, "tour", 0, 0, 0.0, 0, 29, 1, "Bye.")])


def without_an_end() -> SyncLog:
    log = tour()
    return emitted(log, log.events[:-1])


def hold_that_never_ends() -> SyncLog:
    """The deadline never fires: the words after the mark never come."""
    log = tour(late="hold", ready={"mug-1": 99.0})
    return renumbered(log, log.events[: log.events.index(log.marks[18]) + 1])


def hold_that_runs_over() -> SyncLog:
    """The deadline fires 600 ms late, and everything behind it is late."""
    log = tour(late="hold", ready={"mug-1": 99.0}, viewer=False)
    place = _reveal(log)
    events = [
        msgspec.structs.replace(event, pts_ms=event.pts_ms + 600) if number >= place else event
        for number, event in enumerate(log.events)
    ]
    return emitted(log, events)


def hold_that_ends_early() -> SyncLog:
    """A deadline left over from an earlier hold: the picture is not there and the words go on."""
    log = tour(late="hold", ready={"mug-1": 99.0}, viewer=False)
    reveal = log.of(Reveal)[1]
    assert reveal.preview
    events = [
        msgspec.structs.replace(event, pts_ms=event.pts_ms - 150) if event.pts_ms >= reveal.pts_ms else event
        for event in log.events
    ]
    return emitted(log, events)


def text_kept_beyond_the_hold() -> SyncLog:
    """The picture comes and the hold ends, but its deadline was not cleared: the words wait for it all the same."""
    log = tour(late="hold", ready={"mug-1": 0.98}, viewer=False)
    run = next(text for text in log.texts if text.token_count > 1)
    events = [
        msgspec.structs.replace(event, pts_ms=event.pts_ms + 120) if event.seq >= run.seq else event
        for event in log.events
    ]
    return emitted(log, events)


MUG = r"the Moss Mug"
FAULTS: dict[str, Planted] = {
    "late, a mark later": Planted(
        late_on_a_later_mark, "in_sync", r"'mug-1' came late: 4 tokens and 200 ms", "anchor", MUG
    ),
    "late, off its mark": Planted(
        late_off_its_mark, "in_sync", r"'mug-1' left its mark: \d tokens and \d+ ms", "queue", MUG
    ),
    "late without a hold": Planted(late_without_a_hold, "holds", r"came late: 0 tokens and 300 ms", "queue", MUG),
    "late mark": Planted(late_mark, "in_sync", r"'lamp-1' came late: 0 tokens and 700 ms", "generator", "Ember Lamp"),
    "late on the network": Planted(late_on_the_network, "in_sync", r"came late: 1 token and 8\d\d ms", "network", MUG),
    "late in the client": Planted(late_in_the_client, "in_sync", r"came late: 1 token and 800 ms", "client", MUG),
    "never painted": Planted(never_painted, "in_sync", "'lamp-1' was never painted", "client", "Ember Lamp"),
    "never arrived": Planted(never_arrived, "in_sync", "'mug-1' never arrived", "network", MUG),
    "early by place": Planted(early_by_place, "in_sync", r"came too soon: 2 tokens and \d+ ms ahead", "queue", MUG),
    "early by mark": Planted(early_by_mark, "in_sync", r"came too soon: 2 tokens and \d+ ms ahead", "anchor", MUG),
    "early on the network": Planted(
        early_on_the_network, "in_sync", r"early: 1 token and 680 ms ahead", "network", MUG
    ),
    "for other words": Planted(for_other_words, "in_sync", r"wrong words: 2 tokens and \d+ ms", "anchor", MUG),
    "swapped": Planted(
        swapped, "product", r"wrong product: 'mug-1' \(Moss Mug\) .* about Halo Kettle", "anchor", "Kettle"
    ),
    "swapped, planned": Planted(
        swapped_against_the_plan, "product", "'mug-1' in place of 'kettle-1'", "anchor", "Kettle"
    ),
    "wrong product": Planted(wrong_product, "product", "shown as 'lamp' in place of 'mug'", "anchor", MUG),
    "wrong asset": Planted(wrong_picture_of_a_product, "product", "it is a picture of 'lamp'", "anchor", MUG),
    "wrong picture": Planted(wrong_picture, "product", "wrong picture: 'lamp-1' in place of 'mug-1'", "anchor", MUG),
    "lost": Planted(lost, "settled", r"event lost: seq \d+", "queue", "boils a| in ninety"),
    "lost on the way": Planted(
        lost_on_the_way, "settled", r"event lost: seq \d+ \(text 'litre '\)", "network", "litre"
    ),
    "duplicated": Planted(duplicated, "settled", r"event duplicated: seq \d+ \(text 'litre '\)", "queue", "litre"),
    "duplicated on the way": Planted(duplicated_on_the_way, "settled", "event duplicated: seq 8", "network"),
    "disordered on the way": Planted(disordered_on_the_way, "settled", "event out of order: seq 8", "network"),
    "reordered text": Planted(reordered_text, "settled", "text out of order: token 10 .* where 9 belongs", "queue"),
    "other text": Planted(other_text, "settled", "'pint .* in place of 'litre", "generator"),
    "falling time": Planted(falling_time, "settled", r"time falls by \d+\.\d ms over 0 tokens", "queue"),
    "second outcome": Planted(second_outcome, "settled", "cue 1 has a second outcome", "queue"),
    "missing outcome": Planted(
        missing_outcome, "settled", r"cue 1 \('mug-1' at boundary 17\) has no outcome", "queue", MUG
    ),
    "missing outcome, no plan": Planted(missing_outcome_without_a_plan, "settled", "cue 1 has no outcome", "queue"),
    "outcome of no cue": Planted(outcome_of_no_cue, "settled", "cue 2 .* has no outcome", "queue", "Ember Lamp"),
    "missing swap": Planted(missing_swap, "settled", "the preview of 'mug-1' has no swap", "fetch"),
    "second swap": Planted(second_swap, "settled", "the preview of 'mug-1' has a second swap", "queue"),
    "swap of another": Planted(swap_of_another_picture, "settled", "swapped for another picture, 'lamp-1'", "anchor"),
    "missed unduly": Planted(
        missed_against_its_policy, "settled", "missed as late, but its policy is placeholder", "fetch"
    ),
    "missing mark": Planted(missing_mark, "settled", "mark 9 is missing", "queue", "a litre in| ninety"),
    "mark twice": Planted(mark_twice, "settled", "mark 9 stands twice", "queue", "a litre in| ninety"),
    "text after the end": Planted(
        text_after_the_end, "settled", "text 'Bye.' follows the end", "queue", "evening long. Bye.|"
    ),
    "without an end": Planted(without_an_end, "settled", "the tour has no end", "queue", "all evening long"),
    "hold never ends": Planted(
        hold_that_never_ends, "holds", "the hold at mark 18 never ended", "queue", "Mug, glazed|"
    ),
    "hold runs over": Planted(hold_that_runs_over, "holds", "0 tokens and 850 ms, 250 ms were allowed", "queue", MUG),
    "hold ends early": Planted(
        hold_that_ends_early, "holds", r"0 tokens and 150 ms early, after 100 of 250 ms", "queue", MUG
    ),
    "text kept beyond": Planted(text_kept_beyond_the_hold, "holds", r"text were held 120 ms beyond", "queue"),
}
