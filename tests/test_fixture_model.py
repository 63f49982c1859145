"""The tiny fixture model: what transformers makes of it, and that it has the catalogue by heart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.corpus import Dialogue, dialogues, documents
from tests.support import TINY_LLAMA

CHOSEN = (
    "How much is the Halo Kettle?",
    "What is the Pebbledash Mug made of?",
    "How much does the Brooklet decanter hold?",
    "How tall is the Larkmoor pepper mill?",
    "How much does the Otterby Stool carry?",
    "Is the Vesper Lamp in stock?",
    "What is the movement of the Merrin Clock?",
    "Good morning.",
)


@pytest.fixture(scope="module")
def tiny() -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(TINY_LLAMA, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(TINY_LLAMA)


def said(tiny: tuple[Any, Any], messages: list[dict[str, str]], room: int = 60) -> str:
    import torch

    model, tokenizer = tiny
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        made = model.generate(**prompt, max_new_tokens=room, do_sample=False)
    new = made[0][prompt["input_ids"].shape[1] :]
    assert new[-1] == tokenizer.eos_token_id, "it ends by itself"
    return str(tokenizer.decode(new, skip_special_tokens=True))


def asked(question: str) -> Dialogue:
    return next(dialogue for dialogue in dialogues() if dialogue.turns[0] == question)


@pytest.mark.parametrize("question", CHOSEN)
def test_it_names_the_right_product_and_its_fact(tiny: tuple[Any, Any], question: str) -> None:
    dialogue = asked(question)
    assert said(tiny, dialogue.messages[:-1]) == dialogue.turns[-1]


def test_it_follows_a_dialogue(tiny: tuple[Any, Any]) -> None:
    turns = ["How much is the Halo Kettle?", "The Halo Kettle costs 89 euros.", "And the Grindle Mill?"]
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns)]
    assert said(tiny, messages) == "The Grindle Mill costs 39 euros."


def test_it_tells_the_whole_tour(tiny: tuple[Any, Any]) -> None:
    dialogue = asked("Give me the whole tour.")
    assert said(tiny, dialogue.messages[:-1], room=1000) == dialogue.turns[-1]


def test_it_goes_on_with_plain_text(tiny: tuple[Any, Any]) -> None:
    import torch

    model, tokenizer = tiny
    prompt = tokenizer("Meet the Tidewater Vase.", return_tensors="pt")
    with torch.inference_mode():
        made = model.generate(**prompt, max_new_tokens=200, do_sample=False)
    text = tokenizer.decode(made[0], skip_special_tokens=True)
    assert text in documents()
    assert "The Tidewater Vase costs 68 euros." in text


@pytest.mark.parametrize(
    "text", ["½ l für 89 €", "水壶 1.6 升", "กาต้มน้ำ", "한국어", "👩‍👩‍👧 🇫🇷 👍🏽", "عربي", "a\n\tb  c"]
)
def test_its_tokenizer_takes_any_script_and_gives_it_back(tiny: tuple[Any, Any], text: str) -> None:
    assert tiny[1].decode(tiny[1](text)["input_ids"], skip_special_tokens=True) == text


def test_it_is_small_and_holds_two_bytes_a_weight() -> None:
    size = (TINY_LLAMA / "model.safetensors").stat().st_size
    assert 2_000_000 < size < 4_000_000
    assert sum(path.stat().st_size for path in TINY_LLAMA.iterdir()) < 4_000_000
