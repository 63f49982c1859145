"""The command `multimodal`. It reads options and calls; what it calls is elsewhere (`multimodal.commands` has more)."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multimodal._version import __version__
from multimodal.catalog_command import add_catalog
from multimodal.commands import PORT, add_commands, add_shop, mapping
from multimodal.errors import MultiModalError, UsageError
from multimodal.model_commands import add_model_commands
from multimodal.narrator_options import (
    add_narrator,
    behind_blocklist,
    blocklist_of,
    narrator_of,
    narrator_words,
    tell_servers,
)
from multimodal.picture_options import (
    add_fetch,
    add_store,
    picture_words,
    remote_of,
    store_of,
    telling_failures,
    warm_up,
)
from multimodal.token_command import add_token
from multimodal.values import LATE_POLICIES

if TYPE_CHECKING:
    from multimodal.demos.product_tour.tour import Tour

__all__ = ["main", "parser"]

BENCHES = {
    "aligner": "cost per token of the aligner alone, from 1,000 to 100,000 tokens",
    "batch": "many sessions on one engine, beside generate, the bare manager, transformers serve and vLLM",
    "cancel": "answers given up at random steps and at 100 a second: what is left of them",
    "catalog": "import of 25,000 products in every format: products a second and peak memory",
    "connect": "30 connects of a real Chromium: offer to first event, beside waiting for all candidates",
    "detok": "text of token ids at 250 and 4,000 tokens, beside transformers' TextStreamer",
    "estimate": "what `multimodal estimate` says, beside the memory and speed of real processes",
    "first-text": "when the first text is there: blocking generate beside a stream processor, pictures on",
    "guard": "fact guard and word filter: cost of a token and of a sentence, hold-back, recall, false alarms",
    "hol": "how long words wait while pictures flow: eight disciplines, five roads, aiortc and Chromium",
    "images": "a 3000-px photograph to 800 px beside plain Pillow and pyvips, and 195 odd files",
    "import-time": "what `import multimodal` costs and loads",
    "int8": "a trained model in int8 beside float32: size, speed, perplexity, the same text or not",
    "journal": "an append of one bundle in memory and on Redis, a replay, bytes of an event",
    "links": "a real Chromium behind bad networks, with a hidden tab, and lost last words",
    "local-tour": "the local narrator's tour in Chromium: first text, pictures, drift; viewers that one model serves",
    "loss": "one lost datagram with words or with the first event: until it is shown, beside bare aiortc",
    "narrator": "the local narrator on 100 unseen fact sheets: exact, and what it got wrong",
    "overflow": "200 answers for consumers at half their speed, beside clearing the queue and dropping a tenth",
    "paint": "word/picture pairs on captured pixels, with planted faults in the same run",
    "picture-cache": "lru, size and hybrid on a trace of 2,000 pictures; what `keep_free` costs and buys",
    "player-size": "bytes of the browser's player, minified and compressed",
    "sessions": "10,000 sessions with callbacks of every kind: what they leave behind, whom a slow callback delays",
    "slow-client": "2,000 words for a Chromium throttled four times: does skew grow",
    "slow-tour": "the whole demo catalogue at 4 Mb/s: pictures decoded before their words, first text unharmed",
    "stream": "cost per token of a whole in-process stream, beside pipecat's",
    "sweeps": "what each setting of a stream processor moves, a table for every one",
    "text-layer": "ids to aligned text: detok, stops, fillers, chunks and sync, at 250 and 4,000 tokens",
    "tour": "the whole matrix of `tour --check`: catalogues, sync intervals, slow pictures",
    "transport": "the road on loopback: set-up, and how long words wait while pictures flow",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0 = done and good, 1 = done and not good, 2 = wrong use or a failure.

    Args:
        argv: the words after the command's name; None = those of this process.
    """
    options = parser().parse_args(argv)
    try:
        code: int = options.run(options)
    except MultiModalError as error:
        print(f"multimodal {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has heard enough; Python would complain once more while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = argparse.ArgumentParser(
        prog="multimodal",
        description="Product tours whose pictures appear exactly with their words.",
        epilog="Every command has its own --help.",
    )
    top.add_argument("--version", action="version", version=f"multimodal-stream {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_tour(commands.add_parser("tour", help="serve a product tour on loopback, or check one in a browser"))
    add_commands(commands)
    add_model_commands(commands)
    add_catalog(commands)
    add_token(commands)
    bench = commands.add_parser("bench", help="run a benchmark", formatter_class=argparse.RawDescriptionHelpFormatter)
    bench.epilog = "benchmarks:\n" + "\n".join(f"  {name:12} {what}" for name, what in BENCHES.items())
    bench.add_argument("name", choices=sorted(BENCHES), metavar="NAME", help="which; see below")
    bench.add_argument("--json", action="store_true", help="print one JSON object on stdout, everything else on stderr")
    bench.add_argument(
        "--quick", action="store_true", help="a short run that shows it works; its figures judge nothing"
    )
    bench.set_defaults(run=_bench)
    return top


def _add_tour(tour: argparse.ArgumentParser) -> None:
    shop = tour.add_argument_group("what is toured")
    add_shop(shop)
    add_narrator(tour.add_argument_group("who tells it"))
    pictures = tour.add_argument_group("its pictures")
    add_fetch(pictures)
    add_store(pictures)
    how = tour.add_argument_group("how it is played")
    how.add_argument(
        "--sync-interval", type=int, default=3, metavar="N", help="tokens between two sync marks (default 3)"
    )
    how.add_argument(
        "--late", choices=LATE_POLICIES, default="placeholder", help="what a picture that is not ready does"
    )
    how.add_argument(
        "--slow-images", type=float, default=0.0, metavar="MS", help="rehearse: each picture is ready MS after its mark"
    )
    how.add_argument("--speed", type=float, default=1.0, metavar="X", help="narrate X times as fast (default 1)")
    how.add_argument("--port", type=int, default=None, metavar="N", help=f"port on 127.0.0.1 (default {PORT}; 0 = any)")
    proof = tour.add_argument_group("proof")
    proof.add_argument(
        "--check", action="store_true", help="play it once in headless Chromium and judge what was painted"
    )
    proof.add_argument("--json", action="store_true", help="with --check: print one JSON object")
    proof.add_argument(
        "--record", type=Path, metavar="FILE", help="write each tour's recording (a further one as FILE.2, ...)"
    )
    tour.set_defaults(run=_tour)


def _tour(options: argparse.Namespace) -> int:
    if options.json and not options.check:
        raise UsageError("--json needs --check: it is the check that has something to print")
    narrator = narrator_of(options)
    blocklist_of(options)
    mapping(options)
    if not options.slow_images >= 0:
        raise UsageError(f"--slow-images {options.slow_images} must be 0 or more milliseconds")
    if not options.speed > 0:
        raise UsageError(f"--speed {options.speed} must be above 0")
    tell_servers(narrator)
    if options.check:
        from multimodal.check import check_tour, summary
        from multimodal.demos.product_tour.narrators import LOCAL

        if options.blocklist is not None:
            _tour_of(options)  # for what it says of titles: nobody hears the server say it
        if options.narrator == LOCAL:
            from multimodal.pipes.narrator_model import narrator_model

            narrator_model()  # here, where what it says is seen, and the server's time to start is not spent on it
        result = asyncio.run(check_tour(serve_arguments(options), record=options.record))
        print(json.dumps(result) if options.json else summary(result))
        return 0 if result["ok"] else 1
    return _serve(options)


def _tour_of(options: argparse.Namespace) -> Tour:
    from multimodal.demos.product_tour.tour import demo_tour, shop_tour

    columns, own = mapping(options), options.catalog
    who, language = narrator_of(options), options.lang
    tour = (
        shop_tour(own, options.images, columns, fetch=options.fetch, narrator=who, language=language)
        if own
        else demo_tour(who, language)
    )
    return behind_blocklist(tour, options)


def _serve(options: argparse.Namespace) -> int:
    import msgspec

    from multimodal.demos.product_tour.narrators import LOCAL
    from multimodal.demos.product_tour.tour import Settings, tour_app
    from multimodal.pipes.images import shared_store
    from multimodal.serving.run import Recordings, serve

    tour = _tour_of(options)
    settings = Settings(options.sync_interval, options.late, options.slow_images / 1000, options.speed)
    if options.catalog:
        print(f"{options.catalog}: {tour.catalog.report()}", file=sys.stderr)
    store, fetched = store_of(options)
    tour = msgspec.structs.replace(tour, store=store or shared_store(), remote=remote_of(options, fetched))
    if options.narrator == LOCAL:
        print("reading the narrator's model", file=sys.stderr, flush=True)
    tour.prepare()
    # One stream is made and thrown away, so that a wrong option is told here and not to the first viewer.
    asyncio.run(tour.stream(settings).aclose())
    recordings = Recordings(options.record) if options.record else None
    if options.warm is not None and tour.store is not None:
        warm_up(tour.image_pipe(), [product.id for product in tour.shown[: options.warm]], tour.store)
    app = tour_app(tour, settings, recordings.begin if recordings else None)
    with telling_failures():
        return serve(app, PORT if options.port is None else options.port, f"the {tour.name} tour")


def serve_arguments(options: argparse.Namespace) -> list[str]:
    """The options of `tour` that a server started by --check needs, as words."""
    words = ["--sync-interval", str(options.sync_interval), "--late", options.late, "--speed", str(options.speed)]
    words += ["--slow-images", str(options.slow_images), "--port", str(options.port or 0)]
    for name in ("catalog", "images", "map"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    return words + narrator_words(options) + picture_words(options)


def _bench(options: argparse.Namespace) -> int:
    module = importlib.import_module(f"multimodal.bench.{options.name.replace('-', '_')}")
    result: dict[str, Any] = module.run(options)
    if options.json:
        print(json.dumps(result))
    else:
        for entry in result["figures"]:
            bar = (
                ""
                if entry["limit"] is None
                else f"  ({'at most' if entry['better'] == 'lower' else 'at least'} {entry['limit']:g})"
            )
            print(f"{'ok  ' if entry['ok'] else 'FAIL'} {entry['what']}: {entry['value']:g} {entry['unit']}{bar}")
    return 0 if result["ok"] else 1
