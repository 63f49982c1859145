"""The command `multimodal catalog`: a shop's files imported, checked and shown. Options and printing only."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multimodal.errors import UsageError
from multimodal.picture_options import add_fetch, inspect_pictures, remote_of

if TYPE_CHECKING:
    from multimodal.pipes.catalog import Catalog, Progress, RowProblem
    from multimodal.pipes.remote_pictures import RemotePictures
    from multimodal.values import Product

__all__ = ["add_catalog"]


def add_catalog(commands: Any) -> None:
    """Add `catalog` with `import`, `check` and `show` to the command's sub-parsers."""
    catalog = commands.add_parser("catalog", help="import, check or show a shop's catalogue, in whatever format it is")
    kinds = catalog.add_subparsers(dest="action", required=True, metavar="ACTION")

    imported = kinds.add_parser(
        "import",
        help="write a catalogue in our own JSON",
        description="Rows that cannot be taken are named on stderr, and fail nothing else.",
    )
    _files(imported)
    imported.add_argument(
        "-o", "--out", type=Path, default=Path("catalog.json"), metavar="OUT.json", help="default: catalog.json"
    )
    imported.add_argument("--force", action="store_true", help="write over OUT.json")
    imported.set_defaults(run=_import)

    check = kinds.add_parser(
        "check",
        help="name what is wrong with a catalogue, line by line",
        description="Exit code 1 = rows are left out, none is a product, or a picture cannot be shown.",
    )
    _files(check)
    pictures = check.add_argument_group("pictures: every file is looked into; --fetch fetches those that have none")
    add_fetch(pictures)
    pictures.add_argument("--no-pictures", action="store_true", help="look into none")
    check.add_argument("--limit", type=int, default=0, metavar="N", help="name at most N problems (default 0 = all)")
    check.set_defaults(run=_check)

    show = kinds.add_parser("show", help="print a catalogue's products, or one of them")
    _files(show)
    show.add_argument("--product", metavar="ID", help="this one, with all that is known of it")
    show.add_argument("--limit", type=int, default=0, metavar="N", help="at most N products (default 0 = all)")
    show.set_defaults(run=_show)


def _files(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "file", type=Path, nargs="+", metavar="FILE", help="a file, the pages of one catalogue, or their folder"
    )
    command.add_argument("--images", type=Path, metavar="DIR", help="the folder of its pictures")
    command.add_argument(
        "--map",
        metavar="OURS=THEIRS,...",
        help="columns of a table under other names: title=name,id=slug,image=assets; further facts: facts=care+power",
    )
    command.add_argument(
        "--format",
        metavar="F",
        help="as content tells, else: json, yaml, csv, google, shopify, json-ld, woocommerce, woocommerce-csv",
    )
    command.add_argument("--encoding", metavar="E", help="of its text, such as gb18030 (default: as content tells)")
    command.add_argument("--currency", default="", metavar="C", help="of prices that name none, such as EUR")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def _loaded(options: argparse.Namespace) -> Catalog:
    from multimodal.pipes.catalog import load_catalog

    columns = None
    if options.map is not None:
        pairs = [part.partition("=") for part in options.map.split(",")]
        if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
            raise UsageError(f"--map {options.map!r} is not of the form title=name,id=slug")
        columns = {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
    if getattr(options, "limit", 0) < 0:
        raise UsageError(f"--limit {options.limit} must be 0 or more")
    with _bar() as progress:
        return load_catalog(
            options.file,
            options.images,
            mapping=columns,
            format=options.format,
            encoding=options.encoding,
            currency=options.currency,
            progress=progress,
            empty=options.action == "check",
            fetch=getattr(options, "fetch", False),
        )


@contextmanager
def _bar() -> Iterator[Progress | None]:
    """A progress bar on a terminal's stderr; none where there is no terminal, or no tqdm."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    # disable=None: not on what is no terminal.
    shape = "{desc}: {percentage:3.0f}%|{bar}| {postfix}, {elapsed}<{remaining}"
    with tqdm(total=1.0, desc="reading", bar_format=shape, leave=False, disable=None) as bar:

        def progress(rows: int, share: float) -> None:
            bar.set_postfix_str(f"{rows:,} rows", refresh=False)
            bar.update(share - bar.n)
            if share == 1.0:
                bar.refresh()

        yield progress


def _import(options: argparse.Namespace) -> int:
    from multimodal.pipes.feed_write import write_catalog

    if options.out.exists() and not options.force:  # told before an hour of reading, not after
        raise UsageError(f"{options.out} is there already; name another with --out, or replace it with --force")
    catalog = _loaded(options)
    write_catalog(catalog, options.out, replace=options.force)
    if options.json:
        print(json.dumps({"out": str(options.out), **_summary(catalog)}, ensure_ascii=False))
    else:
        print(f"{options.out}: {catalog.report()}", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    if options.no_pictures and options.fetch:
        raise UsageError("--no-pictures looks into no picture, and --fetch into every one; give one of them")
    remote = remote_of(options)
    try:
        catalog = _loaded(options)
        summary = _summary(catalog)
        if not options.no_pictures:
            summary["pictures_refused"] = _refused(catalog, remote)
            summary["pictures_remote"] = 0 if remote else _remote(catalog)
            summary["ok"] = summary["ok"] and not summary["pictures_refused"]
    finally:
        if remote is not None:
            remote.close()
    if options.json:
        print(json.dumps(summary, ensure_ascii=False))
        return 0 if summary["ok"] else 1
    limit = options.limit or sys.maxsize
    print(f"{', '.join(catalog.formats)}: {catalog.report(limit)}")
    if not options.no_pictures:
        print("\n".join(_shown(summary, limit)))
    return 0 if summary["ok"] else 1


def _remote(catalog: Catalog) -> int:
    return sum(picture.path is None and bool(picture.url) for picture in catalog.pictures)


def _refused(catalog: Catalog, remote: RemotePictures | None) -> list[dict[str, str]]:
    from multimodal.pipes.catalog import CatalogImagePipe
    from multimodal.pipes.images import ImageStore

    store = ImageStore()
    found = asyncio.run(inspect_pictures(CatalogImagePipe(catalog, store=store, remote=remote), store))
    return [
        {"key": picture.key, "product": picture.product, "reason": refused.reason, "detail": str(refused)}
        for picture, refused in found
    ]


def _shown(summary: dict[str, Any], limit: int) -> list[str]:
    """How many pictures can be shown, and why each of the others cannot."""
    refused, remote, total = summary["pictures_refused"], summary["pictures_remote"], summary["pictures"]
    rest = f"; {remote} are remote, and not looked into without --fetch" if remote else ""
    lines = [f"{total - remote - len(refused)} of {total} pictures can be shown{rest}"]
    told = {warning["detail"] for warning in summary["warnings"]}
    refused = [entry for entry in refused if entry["detail"] not in told]
    for entry in refused[:limit]:
        lines.append(f"  picture {entry['key']} of {entry['product']}: {entry['reason']}: {entry['detail']}")
    return lines + ([f"  and {len(refused) - limit} more"] if len(refused) > limit else [])


def _show(options: argparse.Namespace) -> int:
    from multimodal.pipes.feed_write import product_document

    catalog = _loaded(options)
    products = catalog.products
    if options.product is not None:
        products = tuple(product for product in products if product.id == options.product)
        if not products:
            raise UsageError(f"no product {options.product!r}; `multimodal catalog show` without --product lists them")
    shown = products[: options.limit or None]
    if options.json:
        print(json.dumps({"products": [product_document(product) for product in shown]}, ensure_ascii=False))
    elif options.product is not None:
        print("\n".join(_described(shown[0])))
    else:
        print("\n".join(_listed(shown, len(products))))
    return 0


def _summary(catalog: Catalog) -> dict[str, Any]:
    return {
        "format": catalog.format,
        "formats": catalog.formats,
        "products": len(catalog.products),
        "variants": sum(len(product.variants) for product in catalog.products),
        "pictures": len(catalog.pictures),
        "pictures_found": sum(picture.path is not None for picture in catalog.pictures),
        "unit": catalog.unit,
        "unread": list(catalog.unread),
        "rejected": [_problem(problem) for problem in catalog.rejected],
        "warnings": [_problem(problem) for problem in catalog.warnings],
        "unpublished": [_problem(problem) for problem in catalog.unpublished],
        "ok": _good(catalog),
    }


def _good(catalog: Catalog) -> bool:
    return bool(catalog.products) and not catalog.rejected


def _problem(problem: RowProblem) -> dict[str, Any]:
    found = {name: getattr(problem, name) for name in problem.__struct_fields__}
    return {name: value for name, value in found.items() if value != ""}


def _listed(products: tuple[Product, ...], total: int) -> list[str]:
    rows = [("id", "title", "price", "stock", "pictures", "choices")]
    for product in products:
        counts = (str(len(product.images)), str(len(product.variants) or ""))
        rows.append((_cut(product.id, 28), _cut(product.title, 40), _price(product), product.availability, *counts))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines + ([f"and {total - len(products)} more"] if total > len(products) else [])


def _described(product: Product) -> list[str]:
    lines = [f"{product.title} ({product.id})"]
    facts: tuple[tuple[str, str], ...] = (
        ("price", _price(product)),
        ("stock", product.availability),
        ("brand", product.brand),
    )
    facts += (("also", ", ".join(product.aliases)), ("page", product.url), *product.facts)
    lines += [f"  {name}: {value}" for name, value in facts if value]
    lines += [f"  {product.description}"] if product.description else []
    for image in product.images:
        size = f" {image.width_px}x{image.height_px}" if image.width_px else ""
        lines.append(f"  picture {image.key}:{size} {image.source} ({image.alt})")
    for variant in product.variants:
        choice = ", ".join(f"{name} {value}" for name, value in variant.options)
        price = "" if variant.price is None else f"{variant.price} {product.currency}".strip()
        shown = f"pictures {', '.join(variant.images)}" if variant.images else ""
        rest = "; ".join(filter(None, (choice, price, variant.availability, shown)))
        lines.append(f"  choice {variant.id}: {variant.title}{'; ' + rest if rest else ''}")
    return lines


def _price(product: Product) -> str:
    return "" if product.price is None else f"{product.price} {product.currency}".strip()


def _cut(words: str, width: int) -> str:
    words = " ".join(words.split())
    return words if len(words) <= width else f"{words[: width - 1]}…"
