"""Pictures in a model's tour come in their own passage, whatever words the titles of other products are."""

from __future__ import annotations

from pathlib import Path

import pytest

from multimodal.demos.product_tour.narrators import Narrator
from multimodal.demos.product_tour.tour import Settings, shop_tour
from multimodal.errors import UsageError
from multimodal.events import Reveal, Text
from multimodal.pipes.guided import GuidedTextPipe
from multimodal.pipes.script import ScriptTextPipe
from multimodal.sync.kit import record
from multimodal.values import Token
from tests.demos.test_narrators import Asked, model
from tests.pipes.pictures import quarters, write
from tests.support import run, virtual

TITLES = {"home": "Home", "it": "It", "price": "The Price", "welcome": "Welcome"}


@pytest.mark.parametrize("guard", ["hold", "flag", "stop", "off"])
def test_titles_that_are_common_words(tmp_path: Path, guard: str) -> None:
    rows = ["id,title,image,price"]
    for key, title in TITLES.items():
        write(tmp_path / f"{key}.jpg", quarters(60, 40))
        rows.append(f"{key},{title},{key}.jpg,9.50 EUR")
    (tmp_path / "books.csv").write_text("\n".join(rows) + "\n")

    def says(title: str) -> list[str]:
        return ["Welcome", " to the", f" home of {title}", ".", " The price", " of it", " is 9.50", " euros", "."]

    async def scenario() -> list[tuple[str, str]]:
        asked: Asked = []
        async with model(asked, says=says) as url:
            tour = shop_tour(tmp_path / "books.csv", narrator=Narrator(url, "m", guard=guard))
            log = await record(tour.stream(Settings(sync_interval=1, speed=1000.0)))
        shown, said = list[tuple[str, str]](), ""
        for event in log.events:
            if isinstance(event, Text):
                said += event.text
            elif isinstance(event, Reveal):
                shown.append((event.product, list(TITLES)[said.count("\n\n")]))
        return shown

    assert run(scenario()) == [(key, key) for key in TITLES]


def test_each_answer_says_what_it_is_about() -> None:
    async def scenario() -> list[tuple[str, str | None]]:
        answers = [
            lambda: ScriptTextPipe(["Hello."]),
            lambda: ScriptTextPipe(["It", " is."]),
            lambda: ScriptTextPipe(["Bye."]),
        ]
        pipe = GuidedTextPipe(answers, narrator="m", about=["", "kettle", ""])
        return [(token.text, token.about) async for token in pipe if isinstance(token, Token)]

    assert virtual(scenario()) == [
        ("Hello.\n\n", ""),
        ("It", "kettle"),
        (" is.\n\n", "kettle"),
        ("Bye.", ""),
    ]
    with pytest.raises(UsageError, match="about is of 1 answers, and there are 2"):
        GuidedTextPipe([lambda: ScriptTextPipe(["It."])] * 2, narrator="m", about=["kettle"])
