"""The local narrator on the fixture model: one model for all viewers, read beside the loop, freed by whoever leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from multimodal.demos.product_tour.narrators import Narrator
from multimodal.demos.product_tour.tour import Settings, demo_tour
from multimodal.errors import UsageError
from multimodal.events import CueMissed, Reveal, StreamStart, Text
from multimodal.pipes import local_narrator as narrator
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.guarded import GuardedTextPipe
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.narrator_model import MODEL
from multimodal.pipes.narrator_prompt import Asked
from multimodal.pipes.script import ScriptTextPipe
from multimodal.pipes.stand_in import stand_in
from multimodal.sync.conformance import check_text_pipe
from multimodal.sync.kit import assert_in_sync, assert_right_product, record
from multimodal.values import Product
from tests.support import TINY_LLAMA, run
from tests.transport.leaks import until

PRODUCTS = demo_tour(Narrator("extractive")).shown
ABOUT = {"format": "1", "base": MODEL, "rank": "2", "alpha": "2"}


def questions(sheets: Sequence[FactSheet], **_: Any) -> tuple[Asked, ...]:
    """What the fixture model has by heart, in the place of what the narrator's was trained on."""
    return tuple(
        Asked([{"role": "user", "content": f"How much is the {sheet.title}?"}], sheet.product_id, "price", sheet.facts)
        for sheet in sheets
    )


def answer(product: Product) -> str:
    price = next(fact.value for fact in FactSheet.of(product).facts if fact.name == "price")
    return f"The {product.title} costs {price}."


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[float]]:
    """The fixture model under the narrator's name, with an adapter of zeros; how long each loading took."""
    layer = "model.layers.0.self_attn.q_proj"
    adapter = tmp_path / "adapter.safetensors"
    save_file({f"{layer}.a": torch.zeros(2, 192), f"{layer}.b": torch.zeros(192, 2)}, adapter, metadata=ABOUT)
    took: list[float] = []
    real = narrator.adapted_model

    def adapted(quant_mode: str | None = "int8") -> LocalModel:
        began = time.monotonic()
        time.sleep(0.2)
        made = real(quant_mode, base=TINY_LLAMA, adapter=adapter)
        took.append(time.monotonic() - began)
        return made

    monkeypatch.setattr(narrator, "adapted_model", adapted)
    monkeypatch.setattr(narrator, "plan_tour_prompts", questions)
    monkeypatch.setattr(narrator, "_voices", {})
    threads = torch.get_num_threads()
    yield took
    for voice in narrator._voices.values():
        voice.engine.close()
    torch.set_num_threads(threads)


def stats() -> Any:
    return narrator._voices["int8"].engine.stats()


def test_a_whole_tour_is_told_in_sync_and_behind_the_guard(loads: list[float]) -> None:
    async def scenario() -> None:
        tour = demo_tour(Narrator("local"))
        tour.prepare()
        assert tour.shown == PRODUCTS
        log = await record(tour.stream(Settings(sync_interval=1, speed=1000.0)))
        assert isinstance(log.events[0], StreamStart)
        assert (log.events[0].narrator, log.events[0].token_unit) == ("local", "token")
        assert log.text == "\n\n".join(map(answer, PRODUCTS))
        assert [reveal.product for reveal in log.of(Reveal)] == [product.id for product in PRODUCTS]
        assert not log.of(CueMissed)
        assert_in_sync(log)
        assert_right_product(log)

    run(scenario())
    assert len(loads) == 1


def test_what_the_model_gets_wrong_is_not_heard(loads: list[float]) -> None:
    mug = next(product for product in PRODUCTS if "Mug" in product.title)
    false = (("price", "7 euros"), ("material", "glass"))

    async def scenario() -> None:
        # The model has 24 euros by heart; this shop's catalogue says something else.
        voice, sheet = narrator.LocalNarrator([mug]), FactSheet.of(Product(mug.id, mug.title, facts=false))
        await voice.ready()
        pipe = GuardedTextPipe(
            voice.answer(voice.asked[0]), FactGuard([sheet]), product=mug.id, instead=stand_in(sheet, sheet.facts)
        )
        text = "".join([token.text async for token in pipe])
        assert "24" not in text
        assert text.count(mug.title) == 1
        assert "7 euros" in text
        await until(lambda: stats().running == 0)

    run(scenario())


def test_viewers_share_one_model_and_hear_the_same(loads: list[float]) -> None:
    texts: list[str] = []

    async def viewer(voice: narrator.LocalNarrator) -> None:
        texts.append("".join([token.text async for token in voice.pipe()]))

    async def scenario() -> None:
        voices = [narrator.LocalNarrator(PRODUCTS[:3]) for _ in range(2)]
        await asyncio.gather(*(viewer(voice) for voice in (*voices, *voices)))
        assert set(texts) == {"\n\n".join(map(answer, PRODUCTS[:3]))}
        assert len(texts) == 4
        assert stats().row_steps > stats().steps, "their answers ran in one batch"

    run(scenario())
    assert len(loads) == 1
    threads: list[int] = []  # torch's number is each thread's own, and a new one's is that of the process
    looking = threading.Thread(target=lambda: threads.append(torch.get_num_threads()))
    looking.start()
    looking.join()
    assert threads == [1]


def test_reading_the_model_holds_up_no_other_viewer(loads: list[float]) -> None:
    async def scenario() -> None:
        longest, before, over = 0.0, time.monotonic(), False

        async def watch() -> None:
            nonlocal longest, before
            while not over:
                await asyncio.sleep(0.005)
                longest, before = max(longest, time.monotonic() - before), time.monotonic()

        watching = asyncio.ensure_future(watch())
        pipe = narrator.LocalNarrator(PRODUCTS[:1]).pipe()
        said = [str(token) if isinstance(token, str) else token.text async for token in pipe]
        over = True
        await watching
        assert "".join(said) == answer(PRODUCTS[0])
        assert loads[0] > 0.2
        assert longest < loads[0], "the loop stood still while the model was read"

    run(scenario())


def test_a_viewer_who_leaves_frees_the_row(loads: list[float]) -> None:
    async def scenario() -> None:
        voice = narrator.LocalNarrator(PRODUCTS)
        await voice.ready()
        began = stats()
        leaving, staying = voice.pipe(), voice.pipe()
        await anext(leaving)
        await leaving.aclose()
        text = "".join([token.text async for token in staying])
        assert text == "\n\n".join(map(answer, PRODUCTS))
        assert stats().cancelled == began.cancelled + 1
        assert stats().running == stats().waiting == 0
        with pytest.raises(StopAsyncIteration):
            await anext(leaving)

    run(scenario())


def test_the_next_passage_is_made_while_the_one_before_it_is_heard(loads: list[float]) -> None:
    async def scenario() -> None:
        tour = demo_tour(Narrator("local"))
        tour.prepare()
        before, finished = stats().finished, []
        pipe = tour.text_pipe(Settings(speed=10.0))
        text = ""
        async for token in pipe:
            text += token if isinstance(token, str) else token.text
            finished.append((text.count("\n\n"), stats().finished - before))
        # While each passage but the last is told, the next is made; the first was made beforehand.
        assert all(max(made for told, made in finished if told == number) >= number + 1 for number in range(7))
        assert stats().row_steps - stats().steps <= 2, "one is made at a time"

    run(scenario())


def test_an_interruption_frees_the_row_and_another_turn_follows(loads: list[float]) -> None:
    async def scenario() -> None:
        tour = demo_tour(Narrator("local"))
        tour.prepare()
        text = ""
        async with tour.stream(Settings(sync_interval=1, speed=50.0)) as stream:
            async for event in stream:
                if isinstance(event, Text):
                    text += event.text
                if isinstance(event, Reveal) and stream.epoch == 0:
                    heard = stream.interrupt()
                    assert heard is not None
                    await until(lambda: stats().running == 0)
                    stream.say(ScriptTextPipe("Of course.", gap=0.0))
        assert text.endswith("Of course.")
        assert text.startswith(answer(PRODUCTS[0])[:10])
        assert len(text) < len(answer(PRODUCTS[0])) + 20
        assert stats().running == stats().waiting == 0

    run(scenario())


def test_what_is_told_again_is_not_made_again(loads: list[float]) -> None:
    async def scenario() -> None:
        tour = demo_tour(Narrator("local"))
        tour.prepare()
        before, texts = stats().finished, ["", ""]
        async with tour.stream(Settings(sync_interval=1, speed=200.0)) as stream:
            async for event in stream:
                if isinstance(event, Text):
                    texts[event.epoch] += event.text
                if isinstance(event, Reveal) and event.product == PRODUCTS[2].id and stream.epoch == 0:
                    stream.rewind(0)
        assert texts[1] == "\n\n".join(map(answer, PRODUCTS))
        assert stats().finished - before == len(PRODUCTS) - 1, "the first was made beforehand"

    run(scenario())


def test_a_viewer_who_leaves_while_the_model_is_read_starts_nothing(loads: list[float]) -> None:
    async def scenario() -> None:
        pipe = narrator.LocalNarrator(PRODUCTS).pipe()
        pulling = asyncio.ensure_future(anext(pipe))
        await asyncio.sleep(0.05)
        await pipe.aclose()
        with pytest.raises(StopAsyncIteration):
            await pulling
        # What makes it ready ran, and nothing of the tour behind its first passage.
        assert (stats().finished, stats().cancelled) == (narrator.WARM_PROMPTS + 1, 0)

    run(scenario())


def test_the_first_passage_is_made_before_a_viewer_comes(loads: list[float]) -> None:
    voice = narrator.LocalNarrator(PRODUCTS[:1])
    voice.prepare()
    before = stats()
    voice.prepare()

    async def scenario() -> None:
        for _ in range(3):
            assert "".join([token.text async for token in voice.pipe()]) == answer(PRODUCTS[0])

    run(scenario())
    assert stats().steps == before.steps, "nothing is made again"
    # It is what the engine would say now.
    assert narrator._made(narrator._voices["int8"], voice.asked[0]) == (voice._greeting, False)


def test_many_who_come_at_once_read_one_model(loads: list[float]) -> None:
    threads = [threading.Thread(target=narrator.LocalNarrator(PRODUCTS[:1]).prepare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(loads) == 1


def test_it_keeps_the_contract(loads: list[float]) -> None:
    voice = narrator.LocalNarrator(PRODUCTS[:2])
    check_text_pipe(voice.pipe, text="\n\n".join(map(answer, PRODUCTS[:2])), run=run)


def test_wrong_use_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="English only; --narrator extractive speaks 'zh'"):
        narrator.LocalNarrator(PRODUCTS, language="zh")
    with pytest.raises(UsageError, match="nothing to tell"):
        narrator.LocalNarrator([])
    with pytest.raises(UsageError, match=r"there is no adapter .*install that again"):
        narrator.adapted_model(base=TINY_LLAMA, adapter=tmp_path / "adapter.safetensors")


@pytest.mark.parametrize("left", [None, b"", b" \n"])
def test_a_model_without_a_chat_template_is_refused(left: bytes | None, tmp_path: Path) -> None:
    for file in TINY_LLAMA.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    template = tmp_path / "chat_template.jinja"
    if left is None:
        template.unlink()
    else:
        template.write_bytes(left)
    with pytest.raises(UsageError, match=r"has no chat template"):
        narrator.adapted_model(base=tmp_path)
