"""Makes `tokenizer.json`, a byte-level BPE of the extractive narrator, out of the narrator's own sentences.

    .venv/bin/python assets/narrator/make_tokenizer.py

Needs the package `tokenizers` (extra `llm`). It learns from tours of the demo catalogues and their words,
and from plain English and Chinese lists of what things are made of, so that other catalogues fall into words, too. The
same package makes the same file; reading it needs no package (`multimodal.pipes.bpe`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from multimodal.pipes import fact_words, planner_en_words, planner_zh
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.planner import families, plan_passages

HERE = Path(__file__).parent
VOCABULARY = 4096
TOURS = 150
SPLIT = r" ?\p{Han}+| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""Words with the space before them, ideographs, numbers by threes, marks, spaces."""


def sentences() -> Iterator[str]:
    """What the tokenizer learns from."""
    for language, name in (("en", "catalog.json"), ("zh", "catalog.zh.json")):
        catalog = load_catalog(HERE.parent / "demo" / name)
        sheets = [FactSheet.of(product, language) for product in catalog.products]
        for seed in range(TOURS):
            for most in (5, 8):
                # Each sentence counts once: the tokens are those of the language, not of one product.
                told = plan_passages(sheets, shop=catalog.shop.name, language=language, seed=seed, most=most)
                for passage in told:
                    yield from re.split(r"(?<=[.?;:])(?=\s)|(?<=[。？：，])", passage.text)
        for product in catalog.products:
            yield from (product.description, *(image.alt for image in product.images))
        yield from (family.text for family in families(language))
    for words in (fact_words.MATERIAL_WORDS, fact_words.COLOUR_WORDS, fact_words.NUMBER_WORDS):
        for word in sorted(words):
            yield from (f"It is made of {word}.", f"It comes in {word}.", word)
    for text in (*planner_en_words.GREETINGS, *planner_en_words.CLOSINGS, *planner_zh.GREETINGS, *planner_zh.CLOSINGS):
        yield from (text, f" {text}")
    for one, several, chinese in fact_words.MONEY.values():
        yield from (f"It costs 24 {several}.", f" {several}", f" 1 {one}.", f"售价 24 {chinese}。", f"{chinese}起。")


def main() -> None:
    """Train, write, say how large it is."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=1,
        max_token_length=14,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sorted(set(sentences())), trainer)
    made = json.loads(tokenizer.to_str())
    path = HERE / "tokenizer.json"
    path.write_text(json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"wrote {path}: {tokenizer.get_vocab_size()} tokens, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
