"""The commands about plans and recordings: their options. What they do is elsewhere, and loaded when it is called."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from multimodal.errors import UsageError
from multimodal.narrator_options import add_narrator, behind_blocklist, narrator_of

__all__ = ["PORT", "add_commands", "add_shop", "mapping"]

PORT = 8765
PRESETS = ("strict", "default", "relaxed")


def add_commands(commands: Any) -> None:
    """Add `plan`, `check`, `timeline`, `replay`, `redact` and `golden` to the command's sub-parsers."""
    plan = commands.add_parser(
        "plan",
        help="print a tour's timeline without playing it, and what its author may not have meant",
        description="Exit code 1 = there is something to remark.",
    )
    add_shop(plan.add_argument_group("what is toured"))
    add_narrator(plan.add_argument_group("who tells it"))
    plan.add_argument("--sync-interval", type=int, default=3, metavar="N", help="tokens between two sync marks")
    plan.add_argument("--speed", type=float, default=1.0, metavar="X", help="narrate X times as fast (default 1)")
    plan.add_argument(
        "--min-dwell", type=float, default=1.0, metavar="S", help="seconds that a picture should stand (default 1)"
    )
    plan.add_argument(
        "--link-kbps", type=float, metavar="K", help="the viewer's link, for which pictures may be too large"
    )
    plan.add_argument("--json", action="store_true", help="print one JSON object")
    plan.set_defaults(run=_plan)

    check = commands.add_parser("check", help="run the drift kit's assertions on a recording")
    _recording(check)
    _preset(check)
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.set_defaults(run=_check)

    timeline = commands.add_parser("timeline", help="draw a recording as one HTML file")
    _recording(timeline)
    _out(timeline, "OUT.html", "where the page goes")
    _preset(timeline)
    timeline.set_defaults(run=_timeline)

    replay = commands.add_parser(
        "replay",
        help="play a recording in the player, with its original timing",
        description="Serves the player's page; it plays what the recording emitted, at its own times, over WebRTC."
        " A recording holds no picture bytes: they come from the catalogue, and a plain sheet is drawn for other keys.",
    )
    _recording(replay)
    add_shop(replay.add_argument_group("where its pictures come from"))
    replay.add_argument("--speed", type=float, default=1.0, metavar="X", help="play X times as fast (default 1)")
    replay.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"port on 127.0.0.1 (default {PORT}; 0 = any)"
    )
    replay.set_defaults(run=_replay)

    redact = commands.add_parser("redact", help="write a recording without its words, lengths kept")
    _recording(redact)
    _out(redact, "OUT", "where the redacted recording goes")
    redact.set_defaults(run=_redact)

    golden = commands.add_parser(
        "golden",
        help="turn a recording into a golden test",
        description="Writes the recording and a small pytest file that holds it to what it is now; faults are pinned"
        " as they are. Nothing is written over.",
    )
    _recording(golden)
    _out(golden, "DIR", "the folder for both")
    _preset(golden)
    golden.set_defaults(run=_golden)


def add_shop(group: Any) -> None:
    """Add `--catalog`, `--images` and `--map`."""
    group.add_argument(
        "--catalog",
        type=Path,
        metavar="PATH",
        help="a shop's own catalogue, in any format of `multimodal catalog`; default: the demo shop",
    )
    group.add_argument("--images", type=Path, metavar="DIR", help="the folder of its pictures")
    group.add_argument(
        "--map", metavar="title=name,id=slug", help="other column names of its CSV: ours=theirs, comma-separated"
    )


def mapping(options: argparse.Namespace) -> dict[str, str] | None:
    """What `--map` says; None = nothing.

    Raises:
        UsageError: not of the form ours=theirs, or given without a catalogue.
    """
    if options.catalog is None and (options.images or options.map):
        raise UsageError("--images and --map describe a --catalog; name it, or leave them out for the demo shop")
    if options.map is None:
        return None
    pairs = [part.partition("=") for part in options.map.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise UsageError(f"--map {options.map!r} is not of the form title=name,id=slug")
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}


def _recording(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="a recording: multimodal tour --record FILE")


def _out(command: argparse.ArgumentParser, metavar: str, what: str) -> None:
    command.add_argument("-o", "--out", type=Path, required=True, metavar=metavar, help=what)


def _preset(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--preset", choices=PRESETS, default="default", help="by which limits it is judged (default: default)"
    )


def _plan(options: argparse.Namespace) -> int:
    from multimodal.demos.product_tour.tour import Settings, demo_tour, shop_tour
    from multimodal.plan import plan_text, plan_tour

    columns = mapping(options)
    if not options.speed > 0:
        raise UsageError(f"--speed {options.speed} must be above 0")
    who, language, own = narrator_of(options), options.lang, options.catalog
    if not who.planned:
        raise UsageError(f"--narrator {who.name}: a model's words are not known before it speaks; plan has no timeline")
    tour = shop_tour(own, options.images, columns, narrator=who, language=language) if own else demo_tour(who, language)
    settings = Settings(options.sync_interval, speed=options.speed)
    result = plan_tour(
        behind_blocklist(tour, options), settings, min_dwell=options.min_dwell, link_kbps=options.link_kbps
    )
    print(json.dumps(result, ensure_ascii=False) if options.json else plan_text(result))
    return 0 if result["ok"] else 1


def _check(options: argparse.Namespace) -> int:
    from multimodal.recordings import check_recording, verdict_text

    if options.json:
        result = check_recording(options.file, options.preset)
        print(json.dumps(result))
        return 0 if result["ok"] else 1
    ok, text = verdict_text(options.file, options.preset)
    print(text)
    return 0 if ok else 1


def _timeline(options: argparse.Namespace) -> int:
    from multimodal.recordings import write_timeline

    print(write_timeline(options.file, options.out, options.preset))
    return 0


def _redact(options: argparse.Namespace) -> int:
    from multimodal.recordings import write_redacted

    print(write_redacted(options.file, options.out))
    return 0


def _golden(options: argparse.Namespace) -> int:
    from multimodal.recordings import write_golden

    print(write_golden(options.file, options.out, options.preset))
    return 0


def _replay(options: argparse.Namespace) -> int:
    from multimodal.demos.product_tour.tour import demo_tour
    from multimodal.pipes.catalog import load_catalog
    from multimodal.replay import pictures_of, replay_app
    from multimodal.serving.run import serve
    from multimodal.sync.log import SyncLog

    columns = mapping(options)
    if not options.speed > 0:
        raise UsageError(f"--speed {options.speed} must be above 0")
    log = SyncLog.read(options.file)
    own = options.catalog is not None
    catalog = load_catalog(options.catalog, options.images, mapping=columns) if own else demo_tour().catalog
    pictures, drawn = asyncio.run(pictures_of(log, catalog))
    where = str(options.catalog) if own else "the demo shop"
    note = f"pictures: {len(pictures) - len(drawn)} from {where}"
    if drawn:
        names = ", ".join(drawn[:5]) + (", ..." if len(drawn) > 5 else "")
        note += f", {len(drawn)} drawn as plain sheets, for a recording holds no bytes ({names})"
    print(note, file=sys.stderr)
    return serve(replay_app(log, pictures, options.speed), options.port, f"the recording {options.file}")
