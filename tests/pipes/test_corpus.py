"""Every odd and hostile file that is known of ends shown as it should be, or missed with the right reason."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image

from multimodal import FolderImagePipe, MultiModalStream, ScriptTextPipe
from multimodal.events import AnyEvent, AssetReserved, CueMissed, Reveal
from multimodal.memory import release_memory
from multimodal.pipes import encode_render
from multimodal.pipes.encode import Encoded, encode_picture, look_at_picture
from multimodal.pipes.images import ImageStore
from multimodal.pipes.intake import ImageSettings, PictureRefused
from multimodal.pipes.ladder import AVIF, JPEG, WEBP, Rung
from multimodal.pipes.prepared import PictureFile, PreparedImagePipe, as_text
from multimodal.values import Asset as Described
from multimodal.values import Cue, EncodedImage, ImageFailure
from tests.pipes import corpus
from tests.pipes.corpus import pngs
from tests.pipes.corpus.chart import CHART, WHITE, Odd, delta, delta_2000, patches_of
from tests.pipes.corpus.judge import MOST_DELTA, judge
from tests.pipes.pictures import decoded, quarters, write
from tests.support import run

# Decoders warn about metadata that they skip; a shop's log has them, and they decide nothing.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

MOST_SECONDS = 20.0
"""For hangs; `multimodal bench images` judges the two seconds that a file may take."""


@dataclass
class Passed:
    """What two passes over the corpus came to."""

    folder: Path
    odds: list[Odd]
    results: dict[str, Encoded | PictureRefused] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    resident: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Passed]:
    folder = tmp_path_factory.mktemp("corpus")
    found = Passed(folder, corpus.make(folder))
    for _ in range(3):
        run(_through_a_store(found), 300)
        gc.collect()
        release_memory()
        found.resident.append(_resident())
    yield found
    (folder / "fifo.jpg").unlink()


async def _through_a_store(found: Passed) -> None:
    """One after the other, so that each has its own time."""
    store = ImageStore(cache_bytes=1, time_limit=MOST_SECONDS)
    for odd in found.odds:
        began = time.monotonic()
        found.results[odd.name] = await store.prepare(found.folder / odd.name)
        found.seconds[odd.name] = time.monotonic() - began
    await store.settle()


def _resident() -> int:
    """Bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_corpus_is_large(passed: Passed) -> None:
    assert len(passed.odds) >= 60
    assert sum(not odd.reason for odd in passed.odds) >= 60
    assert len({odd.reason for odd in passed.odds}) >= 12


def test_each_is_shown_as_its_reference_or_missed_with_the_right_reason(passed: Passed) -> None:
    verdicts = [judge(passed.folder, odd, passed.results[odd.name]) for odd in passed.odds]
    assert [verdict for verdict in verdicts if verdict.wrong] == []
    assert sum(verdict.by_hand >= 0 for verdict in verdicts) >= 100
    assert sum(verdict.by_vips >= 0 for verdict in verdicts) >= 90


def shown(passed: Passed) -> Iterator[tuple[Odd, Encoded]]:
    for odd in passed.odds:
        result = passed.results[odd.name]
        if isinstance(result, Encoded):
            yield odd, result


def test_which_of_several_pictures_is_shown_is_said(passed: Passed) -> None:
    notes = {odd.name: result.note for odd, result in shown(passed)}
    for odd, _ in shown(passed):
        what = "page" if odd.name.endswith(".tif") else "frame"
        assert notes[odd.name] == (f"{what} 1 of {odd.frames}" if odd.frames > 1 else ""), odd.name
    assert sum(note != "" for note in notes.values()) >= 6


def test_no_file_takes_long_and_memory_comes_back(passed: Passed) -> None:
    slowest = max(passed.seconds, key=passed.seconds.__getitem__)
    assert passed.seconds[slowest] < MOST_SECONDS, slowest
    # The first pass loads codecs and their tables, and a heap that earlier tests left in pieces may grow once. What
    # leaks does so in every pass; one picture that stayed would be 150 MB.
    grown = [after - before for before, after in pairwise(passed.resident)]
    assert min(grown) < 48 * 2**20, grown


def test_a_tour_of_them_all_goes_on_to_its_end(passed: Passed) -> None:
    folder = passed.folder.parent / "tour"
    folder.mkdir()
    # A folder's key is the name without its suffix, which several of these share.
    keys: dict[str, Odd] = {}
    for number, odd in enumerate(odd for odd in passed.odds if odd.listed):
        suffix = Path(odd.name).suffix if odd.reason != "unknown_format" else ".jpg"
        name = f"{number:03}-{odd.name[:200].removesuffix(suffix)}"
        os.symlink(passed.folder / odd.name, folder / (name + suffix))
        keys[as_text(name)] = odd

    async def tour() -> list[AnyEvent]:
        store = ImageStore(ImageSettings(max_px=64))
        pipe = FolderImagePipe(folder, store=store)
        assert len(pipe.keys()) == len(keys)
        cues = [Cue(place, key) for place, key in enumerate(pipe.keys())]
        text = ScriptTextPipe("word " * (len(cues) + 1))
        async with MultiModalStream(text, pipe, 1, cues=cues, late="hold", max_hold=60.0, preroll=0) as stream:
            events = [event async for event in stream]
        await store.settle()
        return events

    events = run(tour(), 300)
    outcome = {event.key: "" for event in events if isinstance(event, Reveal)}
    outcome |= {event.key: event.reason for event in events if isinstance(event, CueMissed)}
    assert outcome == {key: odd.reason for key, odd in keys.items()}
    for event in events:
        assert msgspec.json.encode(event)
    several = [event for event in events if isinstance(event, AssetReserved) and event.alt.endswith(" of 3)")]
    assert len(several) >= 3


def test_nothing_but_pixels_leaves_in_any_format(passed: Passed) -> None:
    names = ("gps.jpg", "orientation.webp", "late-exif.png", "turned.heic", "wide-gamut.jpg", "wide-gamut.avif")
    for name in names:
        for media_type in (WEBP, AVIF, JPEG):
            encoded = encode_picture(passed.folder / name, ImageSettings(), Rung(media_type, 192))
            assert b"SECRET" not in encoded.data
            image = Image.open(io.BytesIO(encoded.data))
            assert not {"exif", "xmp", "icc_profile", "comment"} & set(image.info), (name, media_type)
            assert not image.getexif()
            # CIEDE2000: AVIF at its usual quality moves a dark blue by 3.2 in CIE76, which is strict there.
            assert delta_2000(patches_of(np.asarray(decoded(encoded.data))), CHART).max() < MOST_DELTA


@pytest.mark.parametrize(("background", "behind"), [("#ffffff", WHITE), ("#101820", (16, 24, 32))])
@pytest.mark.parametrize("media_type", [WEBP, AVIF, JPEG])
def test_what_is_see_through_stands_on_the_page(
    media_type: str, background: str, behind: tuple[int, int, int], passed: Passed
) -> None:
    wanted = [behind if place in {1, 6} else color for place, color in enumerate(CHART)]
    settings = ImageSettings(background=background)
    for name in ("alpha.png", "palette-alpha.png", "alpha.webp", "alpha.tif", "alpha.bmp", "alpha.heic"):
        encoded = encode_picture(passed.folder / name, settings, Rung(media_type, 192))
        far = delta_2000(patches_of(np.asarray(decoded(encoded.data))), wanted).max()
        assert far < MOST_DELTA, (name, far)


def test_what_is_see_through_may_stay_so(passed: Passed) -> None:
    settings = ImageSettings(background="")
    for name in ("alpha.png", "16-bit-grey-key.png", "small-frame.gif", "alpha.avif"):
        for media_type in (WEBP, AVIF):
            made = Image.open(io.BytesIO(encode_picture(passed.folder / name, settings, Rung(media_type, 192)).data))
            alpha = np.asarray(made.convert("RGBA"))[..., 3]
            assert alpha.min() < 5, name
            assert alpha.max() > 250, name


MOVING = ("moving.gif", "moving.png", "moving.webp", "moving.avif")


@pytest.mark.parametrize("name", [*MOVING, "default-apart.png", "two-pages.tif"])
def test_a_chosen_frame_is_shown(name: str, passed: Passed) -> None:
    for frame, last in ((1, 1), (99, 2 if name in MOVING else 1)):
        settings = ImageSettings(frame=frame)
        encoded = encode_picture(passed.folder / name, settings)
        # The second is the chart backwards, the third has its rows exchanged.
        wanted = CHART[::-1] if last == 1 else CHART[4:] + CHART[:4]
        far = delta(patches_of(np.asarray(decoded(encoded.data))), wanted).max()
        assert far < MOST_DELTA
        assert f" {last + 1} of " in encoded.note
        assert look_at_picture(passed.folder / name, settings).note == encoded.note


def test_frames_are_counted_before_any_is_decoded(passed: Passed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("PIL.ImageFile.ImageFile.load")
    for name in (*MOVING, "two-pages.tif"):
        with pytest.raises(PictureRefused) as caught:
            encode_picture(passed.folder / name, ImageSettings(max_frames=1))
        assert caught.value.reason == "too_many_frames"


def test_a_file_of_millions_of_parts_is_refused_at_once(tmp_path: Path) -> None:
    hollow = pngs.SIGNATURE + pngs.chunk(b"IHDR", bytes(3) + b"\1" + bytes(3) + b"\1\x08\2\0\0\0")
    hollow += pngs.chunk(b"IDAT", b"") * 1_000_000
    path = write(tmp_path / "hollow.png", hollow)
    began = time.process_time()
    with pytest.raises(PictureRefused, match="parts"):
        encode_picture(path, ImageSettings())
    assert time.process_time() - began < 5


def test_heic_without_its_library_says_what_to_install(passed: Passed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(PictureRefused, match=r"pip install 'multimodal-stream\[heic\]'") as caught:
        encode_picture(passed.folder / "plain.heic", ImageSettings())
    assert caught.value.reason == "heic"


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jpg", quarters())
    path.chmod(0)
    code = f"""
import os, sys
from pathlib import Path
from multimodal.pipes.encode import encode_picture
from multimodal.pipes.intake import ImageSettings, PictureRefused
if os.geteuid() == 0:
    os.setuid(65534)  # root may read everything
try:
    encode_picture(Path({str(path)!r}), ImageSettings())
except PictureRefused as refused:
    print(refused.reason, refused)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("unreadable "), done.stderr
    assert "Permission denied" in done.stdout


@pytest.mark.parametrize("workers", [1, 2])
def test_decoders_that_hang_are_given_up_and_the_tour_goes_on(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}-{'hang' if number in (1, 2) else 'fine'}" for number in range(6)]
    for name in names:
        write(tmp_path / f"{name}.jpg", quarters())
    wake = threading.Event()
    decode = encode_render._decoded

    def hang(opened: encode_render.Opened) -> Any:
        if "hang" in opened.path.name:
            wake.wait(30)
        return decode(opened)

    monkeypatch.setattr(encode_render, "_decoded", hang)

    async def tour() -> dict[str, str]:
        store = ImageStore(workers=workers, time_limit=1.5)
        pipe = FolderImagePipe(tmp_path, store=store)
        cues = [Cue(place, key) for place, key in enumerate(pipe.keys())]
        async with MultiModalStream(
            ScriptTextPipe("word " * 8), pipe, 1, cues=cues, late="hold", max_hold=30.0, preroll=0
        ) as stream:
            events = [event async for event in stream]
        found = {event.key: "" for event in events if isinstance(event, Reveal)}
        return found | {event.key: event.reason for event in events if isinstance(event, CueMissed)}

    try:
        outcome = run(tour(), 60)
    finally:
        wake.set()
    assert outcome == {name: "timeout" if "hang" in name else "" for name in names}


def test_what_a_process_cannot_name_is_shown_all_the_same(tmp_path: Path) -> None:
    """A folder copied from an old system: bytes in a name that are no text."""
    write(tmp_path / os.fsdecode(b"caf\xe9.jpg"), quarters())
    write(tmp_path / os.fsdecode(b"caf\xe8.jpg"), b"")

    async def scenario() -> list[Described | EncodedImage | ImageFailure]:
        pipe = FolderImagePipe(tmp_path, store=ImageStore())
        return [*await pipe.describe(pipe.keys()), *[item async for item in pipe]]

    items = run(scenario())
    assert [item.key for item in items] == ["caf\\udce9", "caf\\udce8", "caf\\udce9"]
    for item in items:
        assert msgspec.json.encode(item)


def test_frames_are_told_in_the_alternative_text(passed: Passed) -> None:
    async def scenario() -> list[str]:
        pictures = [
            PictureFile("a", passed.folder / "moving.gif", alt="Fennel mug"),
            PictureFile("b", passed.folder / "plain.gif", alt="Fennel mug"),
            PictureFile("c", passed.folder / "moving.webp"),
        ]
        pipe = PreparedImagePipe(pictures, store=ImageStore())
        described = [asset.alt for asset in await pipe.describe(["a", "b", "c"])]
        assert described == [getattr(item, "alt", item) async for item in pipe]
        return described

    assert run(scenario()) == ["Fennel mug (frame 1 of 3)", "Fennel mug", ""]


def test_no_error_of_a_library_stands_for_a_verdict(passed: Passed) -> None:
    """`ImageStore` calls what it did not expect by the name of its class."""
    for result in passed.results.values():
        assert "Error: " not in str(result)
