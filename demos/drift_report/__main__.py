"""The command: plays the tours, and serves the report or writes it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from multimodal.demos.drift_report.page import CSP, files_of
from multimodal.demos.drift_report.play import CONDITIONS, DEFAULT, choose, play, prepare
from multimodal.demos.product_tour.tour import demo_tour
from multimodal.errors import MultiModalError, UsageError

__all__ = ["app_of", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0 = done, 2 = wrong use or a failure.

    Args:
        argv: the words after the command's name; None = those of this process.
    """
    options = _parser().parse_args(argv)
    try:
        return _run(options)
    except MultiModalError as error:
        print(f"drift_report: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m multimodal.demos.drift_report",
        description="Play one tour under several network conditions and show their drift timelines side by side.",
    )
    parser.add_argument("--speed", type=float, default=1.0, help="of the narration (default 1)")
    parser.add_argument(
        "--profiles",
        default=",".join(DEFAULT),
        help=f"under what it is played (default %(default)s); there are: {', '.join(CONDITIONS)}",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write the files there instead of serving")
    parser.add_argument("--port", type=int, default=0, help="of the page on 127.0.0.1 (default: any free one)")
    return parser


def _run(options: argparse.Namespace) -> int:
    conditions = choose(options.profiles.split(","))
    if not options.speed > 0:
        raise UsageError(f"--speed {options.speed} must be above 0")
    tour = demo_tour()
    pictures = asyncio.run(prepare(tour))
    logs = {}
    for name, condition in conditions.items():
        print(f"playing: {condition.title}, {condition.about}", file=sys.stderr, flush=True)
        logs[name] = play(tour, pictures, name, condition, speed=options.speed)
    files = files_of(tour, conditions, logs)
    if options.output is not None:
        _write(options.output, files)
        print(f"wrote {len(files)} files; open {options.output / 'index.html'}")
        return 0
    from multimodal.serving.run import serve

    return serve(app_of(files), options.port, "the drift report")


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write the report to {folder}: {error.strerror or error}") from error


def app_of(files: Mapping[str, bytes]) -> Starlette:
    """The report's files as an application, `index.html` at its root."""

    def fixed(name: str, data: bytes) -> Route:
        kind = "text/html" if name.endswith(".html") else "application/x-ndjson"
        headers = {"Content-Security-Policy": f"{CSP}; frame-ancestors 'self'", "X-Content-Type-Options": "nosniff"}

        async def answer(_: Request) -> Response:
            return Response(data, media_type=kind, headers=headers)

        return Route("/" if name == "index.html" else f"/{name}", answer)

    return Starlette(routes=[fixed(name, data) for name, data in files.items()])


if __name__ == "__main__":
    sys.exit(main())
