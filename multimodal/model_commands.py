"""The commands about this machine, `estimate` and `doctor`: their options; the rest is elsewhere."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import msgspec

from multimodal.commands import PORT
from multimodal.errors import UsageError
from multimodal.network_options import add_network, check_network, run_network

__all__ = ["add_model_commands"]

_SIZES = {
    "layers": "layers",
    "kv_heads": "key/value heads of a layer",
    "head_dim": "numbers in one head",
    "hidden": "width of a layer",
    "vocab": "tokens of the vocabulary",
}


def add_model_commands(commands: Any) -> None:
    """Add `estimate` and `doctor` to the command's sub-parsers."""
    estimate = commands.add_parser(
        "estimate",
        help="say what memory a language model will take and how fast it can be, before it is loaded",
        description="Reads config.json and the headers of safetensors or GGUF; loads no weights. Exit code 1 = it does"
        " not fit.",
    )
    estimate.add_argument(
        "model", nargs="?", metavar="MODEL", help="a folder, a .gguf file, or a hub's name in its cache"
    )
    estimate.add_argument("--quant", choices=["int8"], help="linear layers in one byte a weight")
    estimate.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], help="default: float32")
    estimate.add_argument("--context", type=int, metavar="N", help="tokens of a session (default 2048, or the model's)")
    estimate.add_argument("--sessions", type=int, default=1, metavar="N", help="sessions at once (default 1)")
    estimate.add_argument("--memory", metavar="4G", help="what it may take (default: what this machine has available)")
    estimate.add_argument(
        "--no-bandwidth", action="store_true", help="do not measure the memory's speed (half a second, 256 MiB)"
    )
    estimate.add_argument("--json", action="store_true", help="print one JSON object")
    elsewhere = estimate.add_argument_group("a model that is not here")
    elsewhere.add_argument("--params", metavar="7B", help="its weights")
    for name, what in _SIZES.items():
        elsewhere.add_argument(f"--{name.replace('_', '-')}", type=int, default=0, metavar="N", help=what)
    estimate.set_defaults(run=_estimate)

    doctor = commands.add_parser(
        "doctor",
        help="examine libraries, processor, memory, where a model's time to the first text goes; or the network",
        description="Takes about a minute, with --network a few seconds. Exit code 1 = something is broken; it is named"
        " in the last lines.",
    )
    doctor.add_argument("--model", metavar="MODEL", help="a folder, a .gguf file, or a hub's name in its cache")
    doctor.add_argument(
        "--ttft", action="store_true", help="load it, ask twice, and take the time to its first text apart"
    )
    doctor.add_argument("--prompt", metavar="TEXT", help="what it is asked")
    doctor.add_argument("--quant", choices=["int8"], help="linear layers in one byte a weight")
    doctor.add_argument(
        "--no-measure", action="store_true", help="only look; do not time processor, threads and memory"
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    add_network(doctor)
    doctor.set_defaults(run=_doctor)


def _estimate(options: argparse.Namespace) -> int:
    from multimodal.estimate import estimate, text_of
    from multimodal.memory import memory_bandwidth, parse_memory

    found = estimate(
        _shape(options),
        quant_mode=options.quant,
        dtype=options.dtype,
        context=options.context,
        sessions=options.sessions,
        memory=None if options.memory is None else parse_memory(options.memory),
        bandwidth=math.nan if options.no_bandwidth else memory_bandwidth(),
    )
    print(json.dumps(_plain(msgspec.to_builtins(found))) if options.json else text_of(found))
    return 0 if found.fits else 1


def _doctor(options: argparse.Namespace) -> int:
    from multimodal.doctor import examine, report_text

    check_network(options)
    if options.network:
        return run_network(options, PORT)
    if options.model is None and (options.ttft or options.prompt is not None or options.quant is not None):
        raise UsageError("--ttft, --prompt and --quant are about a --model; name one")
    report = examine(
        options.model,
        ttft=options.ttft,
        prompt=options.prompt,
        quant_mode=options.quant,
        measure=not options.no_measure,
    )
    print(json.dumps(_plain(report.as_dict())) if options.json else report_text(report))
    return 0 if report.ok else 1


def _shape(options: argparse.Namespace) -> Any:
    from multimodal.memory import parse_count
    from multimodal.weights import ModelShape, read_shape

    sizes = {name: getattr(options, name) for name in _SIZES}
    if options.model is not None:
        if options.params is not None or any(sizes.values()):
            raise UsageError(f"{options.model} says its own sizes; leave --params and the other sizes out")
        return read_shape(options.model)
    if options.params is None:
        raise UsageError("name a MODEL, or give --params 7B --layers 32 --kv-heads 8 --head-dim 128")
    tables = sizes["vocab"] * sizes["hidden"]
    parameters = parse_count(options.params)
    if 2 * tables > parameters:
        raise UsageError(
            f"--vocab x --hidden are {tables:,} weights, twice that is more than --params {options.params}"
        )
    return ModelShape(
        name=f"a model of {options.params}",
        parameters=parameters,
        # Sizes do not tell whether the head shares the table; a head of its own is the larger case.
        linear=parameters - tables if tables else 0,
        looked_up=tables,
        vocabulary=sizes["vocab"],
        layers=sizes["layers"],
        kv_heads=sizes["kv_heads"],
        head_dim=sizes["head_dim"],
        hidden=sizes["hidden"],
        intermediate=4 * sizes["hidden"],
    )


def _plain(value: Any) -> Any:
    """JSON has no nan: what is not known is null there."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
