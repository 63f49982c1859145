"""Render the demo catalogue's pictures: `python -m scene --out pictures` from the folder above this one."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scene", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures; made if missing")
    parser.add_argument("--only", action="append", default=[], metavar="KEY", help="a key or its beginning; repeatable")
    parser.add_argument("--samples-set", action="store_true", help="the three small kettle pictures instead")
    parser.add_argument("--turns", action="store_true", help="the turntable clips instead, each as WebM and MP4")
    parser.add_argument("--keep", type=Path, help="with --turns: a folder for the single frames, as PNG")
    parser.add_argument(
        "--size", type=int, default=0, help="pixels a side (default 960; 400 for the samples set, 320 for clips)"
    )
    parser.add_argument("--spp", type=int, default=0, help="samples a pixel, instead of each shot's own")
    parser.add_argument("--variant", default="scalar_rgb", help="renderer variant; the committed files are scalar_rgb")
    # The renderer cuts the picture into blocks by the number of threads, and each block has its own seed.
    parser.add_argument("--threads", type=int, default=2, help="the README says which files were made with how many")
    parser.add_argument("--contact", type=Path, help="also write all pictures of this run as one sheet")
    args = parser.parse_args(argv)

    import drjit as dr
    import mitsuba as mi

    mi.set_variant(args.variant)
    dr.set_thread_count(args.threads)
    # Only now: materials and studio build renderer objects, which exist once a variant is chosen.
    from . import studio
    from .mesh import Surface
    from .shots import MODELS, SAMPLES, SHOTS, TURNS

    listed = TURNS if args.turns else SAMPLES if args.samples_set else SHOTS
    shots = [shot for shot in listed if not args.only or shot.key.startswith(tuple(args.only))]
    if not shots:
        parser.error("no shot has such a key")
    size = args.size or (320 if args.turns else 400 if args.samples_set else 960)
    args.out.mkdir(parents=True, exist_ok=True)
    sheet = []
    models: dict[str, list[Surface]] = {}
    for shot in shots:
        began = time.perf_counter()
        if shot.model not in models:
            models[shot.model] = studio.prepared(MODELS[shot.model]())
        if args.turns:
            from .clips import CODECS, encode, frames

            turn = []
            for number, frame in enumerate(frames(shot, models[shot.model], size, args.spp or shot.samples)):
                turn.append(frame)
                if args.keep:
                    args.keep.mkdir(parents=True, exist_ok=True)
                    frame.save(args.keep / f"{shot.key}-{number:02}.png")
            sizes = [encode(turn, args.out / f"{shot.key}{suffix}") for suffix in CODECS]
            print(f"{shot.key}: {sizes} bytes, {time.perf_counter() - began:.0f} s", flush=True)
            sheet.append(turn[0])
            continue
        light = studio.radiance(shot, models[shot.model], size, args.spp or shot.samples)
        picture = studio.developed(light, shot.exposure, shot.seed)
        count = studio.save(picture, args.out / f"{shot.key}.jpg", 82 if args.samples_set else 86)
        print(f"{shot.key}: {count} bytes, {time.perf_counter() - began:.0f} s", flush=True)
        sheet.append(picture)
    if args.contact:
        from PIL import Image

        across = min(4, len(sheet))
        page = Image.new("RGB", (across * size, -(-len(sheet) // across) * size))
        for index, picture in enumerate(sheet):
            page.paste(picture, (index % across * size, index // across * size))
        page.save(args.contact)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
