"""The player's price in bytes, and that the measure itself would notice."""

from __future__ import annotations

import json
import random

from multimodal.bench import player_size
from multimodal.bench.report import figure, report


def test_the_player_is_small_and_stands_alone() -> None:
    result = player_size.run()
    assert result["ok"], result["figures"]
    assert json.loads(json.dumps(result)) == result
    names = [entry["what"] for entry in result["figures"] if entry["limit"] == player_size.LIMIT_BYTES]
    assert names == ["player_gzip", "roads_gzip"], "each file has its limit"
    assert {"bench", "machine", "versions", "ours", "peers", "figures", "ok"} == set(result)


def test_too_many_bytes_are_noticed() -> None:
    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000))
    assert player_size.measure(f"const x = '{noise}';")["gzip"] > player_size.LIMIT_BYTES


def test_comments_and_blanks_are_free_and_strings_are_kept() -> None:
    sizes = player_size.measure("/** doc */\nconst a  =  `x  // y`; // end\n")
    assert sizes["minified"] == len("const a=`x  // y`;")


def test_imports_and_node_are_noticed() -> None:
    for source in (
        "import {a} from './a.js';",
        "import './a.js';",
        "export {b} from 'b';",
    ):
        assert player_size.measure(source)["imports"] == 1, source
    assert player_size.measure("export const a = 1; // import nothing")["imports"] == 0
    later = player_size.measure("const m = await import('x');")
    assert (later["imports"], later["later"]) == (0, 1)
    assert player_size.measure("const fs = require('fs'); process.exit(1);")["node_only"] == 2


def test_a_bar_that_is_missed_makes_the_report_fail() -> None:
    good, bad = figure("a", 1, "s", 2), figure("b", 1, "s", 2, "higher")
    assert (good["ok"], bad["ok"]) == (True, False)
    assert report("x", [good])["ok"]
    assert not report("x", [good, bad])["ok"]
    assert not report("x", [good], peers={"other": {"error": "not installed"}})["ok"]
    assert not figure("c", float("nan"), "s")["ok"]
