"""The timeline is one page that loads nothing, runs nothing, and shows what the recording holds."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html import unescape
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.events import Interrupted, ProductBrief, Reveal, Text
from multimodal.sync.clocks import ClockSample
from multimodal.sync.log import Ready, SyncLog
from multimodal.sync.timeline import timeline_html
from multimodal.sync.verdict import faults_of
from tests.sync.tours import TOKENS, changed, index, tour


def drawing(page: str) -> ElementTree.Element:
    """The page's timeline, read as strictly as XML is."""
    return ElementTree.fromstring(re.findall(r"<svg width.*?</svg>", page, re.DOTALL)[0])


def classes(page: str) -> list[str]:
    return [str(element.get("class")) for element in drawing(page).iter() if element.get("class")]


def x_of(page: str, kind: str) -> list[float]:
    """Where the marks of a kind stand: their first coordinate."""
    found = []
    for element in drawing(page).iter():
        if element.get("class") == kind:
            place = element.get("cx") or element.get("x") or re.findall(r"M([\d.-]+)", element.get("d") or "")[0]
            found.append(float(place))
    return found


class Reader(HTMLParser):
    """Notes every tag and every attribute that could load something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "data", "action")]
        assert not [name for name, _ in attrs if name.startswith("on")]


def test_it_is_one_page_that_loads_and_runs_nothing() -> None:
    page = timeline_html(changed(tour(), index(tour(), Reveal), mark=99))
    reader = Reader()
    reader.feed(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(reader.tags)
    assert all(address.startswith("#") for address in reader.addresses)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert "prefers-color-scheme:dark" in page


def test_words_marks_reveals_and_frames_stand_at_their_times() -> None:
    log = tour()
    page = timeline_html(log)
    words = next(element for element in drawing(page).iter() if element.tag == "g")
    assert [" ".join((word.text or "").split()) for word in words] == [token.strip() for token in TOKENS]
    assert classes(page).count("mark") == len(log.marks)
    assert classes(page).count("reveal") == 3
    reveals, painted = x_of(page, "reveal"), x_of(page, "painted")
    times = [event.pts_ms for event in log.of(Reveal)]
    scale = (reveals[2] - reveals[0]) / (times[2] - times[0])
    assert reveals[1] - reveals[0] == pytest.approx((times[1] - times[0]) * scale, abs=0.2)
    assert all(after >= before for before, after in zip(reveals, painted, strict=True))
    assert "In sync by the preset default." in page


def test_requests_bytes_readiness_holds_previews_swaps_and_misses_are_drawn() -> None:
    held = tour(late="hold", ready={"mug-1": 0.9, "lamp-1": 9.0})
    drawn = classes(timeline_html(held))
    assert drawn.count("hold") == 2
    assert drawn.count("reveal preview") == 1
    assert drawn.count("swap bad") == 1
    late = timeline_html(tour(ready={"mug-1": 2.0}))
    assert classes(late).count("swap") == 1
    skipped = timeline_html(tour(late="skip", ready={"mug-1": 99.0}))
    assert classes(skipped).count("missed") == 1
    assert "missed: late" in skipped
    told = msgspec.structs.replace(tour(), ready=(Ready(40.0, "mug-1"), Ready(41.0, "lamp-1", False, "undecodable")))
    page = timeline_html(told)
    assert classes(page).count("ready") == 1
    assert classes(page).count("ready bad") == 1
    assert classes(page).count("request") == 3
    assert classes(page).count("bytes") == 3


def test_an_interruption_is_a_line_across() -> None:
    log = tour()
    end = log.events[-1]
    cut = Interrupted(1, "tour", 1, end.seq, end.pts_ms, end.tok)
    page = timeline_html(msgspec.structs.replace(log, events=(*log.events[:-1], cut)))
    assert classes(page).count("turn") == 1
    assert "epoch 1 begins" in page


def test_faults_are_flagged_listed_and_linked() -> None:
    log = changed(tour(), index(tour(), Reveal), product="lamp")
    faults = faults_of(log)
    page = timeline_html(log)
    assert faults
    assert classes(page).count("flag") == len(faults)
    assert [f'id="fault-{number}"' in page for number in range(1, len(faults) + 1)] == [True] * len(faults)
    assert f"{len(faults)} fault" in page
    assert "In sync" not in page


def test_it_is_readable_without_seeing_it() -> None:
    page = timeline_html(tour())
    svg = drawing(page)
    assert svg.get("role") == "img"
    title, about = svg[0], svg[1]
    assert svg.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"
    assert "29 pieces of text" in (about.text or "")
    assert page.count("<tr>") == 4
    assert 'tabindex="0" role="region"' in page
    assert '<html lang="en">' in page


def test_how_the_clocks_were_aligned_is_told() -> None:
    log = tour()
    assert "no pings recorded" in timeline_html(log)
    pinged = msgspec.structs.replace(log, pings=(ClockSample(0, 20, 4),))
    assert "viewer's times by 1 pings, ±2.0 ms" in unescape(timeline_html(pinged))
    assert "cannot be drawn" in timeline_html(msgspec.structs.replace(log, arrived=()))


def test_what_a_recording_says_cannot_become_markup() -> None:
    evil = "<script>alert(1)</script>\"'&"
    log = tour()
    start = log.events[0]
    log = changed(log, 0, products=(*start.products, ProductBrief(evil, evil)), sid=evil)  # type: ignore[union-attr]
    log = changed(log, index(log, Text, 2), text=evil)
    log = changed(log, index(log, Reveal), key=evil, product=evil)
    log = msgspec.structs.replace(log, source=f"/tmp/{evil}", truncated=evil, ready=(Ready(1.0, evil, False, evil),))
    page = timeline_html(log)
    reader = Reader()
    reader.feed(page)
    assert "script" not in reader.tags
    assert drawing(page) is not None


def test_a_long_tour_is_wide_and_a_very_long_one_bounded() -> None:
    long = tour(tokens=[f"word{number} " for number in range(400)])
    width = float(drawing(timeline_html(long)).get("width") or 0)
    assert 400 * 40 < width < 400 * 100
    burst = tour(tokens=["wordy " * 40] * 3000, declared=[])
    assert float(drawing(timeline_html(burst)).get("width") or 0) <= 150_400


def test_nothing_makes_a_page_too() -> None:
    page = timeline_html(SyncLog(()))
    assert 'id="fault-1"' in page
    with pytest.raises(UsageError, match="preset 'wild' is unknown"):
        timeline_html(tour(), "wild")


@settings(deadline=None, max_examples=40)
@given(
    tokens=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8), min_size=1, max_size=40),
    ready=st.floats(0, 3),
    late=st.sampled_from(["placeholder", "hold", "skip"]),
)
def test_any_tour_gives_a_drawing_that_parses(tokens: list[str], ready: float, late: str) -> None:
    log = tour(late=late, ready={"kettle-1": ready}, tokens=tokens)  # type: ignore[arg-type]
    assert drawing(timeline_html(log)) is not None
