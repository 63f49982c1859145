"""The benchmark of the catalogue's formats counts what it says it counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multimodal.bench.catalog import load_once, shop_products
from multimodal.bench.catalog_files import WRITERS


@pytest.mark.parametrize("kind", ["json", "csv", "woocommerce"])
def test_one_load_is_measured(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, recognised, writer = WRITERS[kind]
    (tmp_path / name).write_text(writer(shop_products(40)), encoding="utf-8")
    load_once(str(tmp_path / name))
    took = json.loads(capsys.readouterr().out)
    assert (took["products"], took["rejected"], took["format"]) == (40, 0, recognised)
    assert took["seconds"] > 0
    assert took["peak_mib"] >= took["before_mib"] > 5
