"""The narrator's tokenizer: what the package `tokenizers` makes of the same file, id for id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from multimodal.errors import UsageError
from multimodal.pipes.bpe import Bpe, narrator_tokenizer

NARRATOR = Path(__file__).parents[2] / "assets" / "narrator"
CORPORA = Path(__file__).parent / "corpora"


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    return Tokenizer.from_file(str(NARRATOR / "tokenizer.json"))


@pytest.mark.parametrize("path", sorted(CORPORA.glob("*.txt")), ids=lambda path: path.stem)
def test_a_corpus_has_the_same_ids(path: Path, reference: Tokenizer) -> None:
    text = path.read_text(encoding="utf-8")
    assert narrator_tokenizer().encode(text) == reference.encode(text).ids


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_has_the_same_ids_and_comes_back(text: str) -> None:
    own, theirs = narrator_tokenizer(), Tokenizer.from_file(str(NARRATOR / "tokenizer.json"))
    ids = own.encode(text)
    assert own.decode(ids) == text
    pieces = own.split(text)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text
    # The regular expressions of the two libraries know different versions of Unicode.
    if all(ord(letter) < 0x2000 or 0x4E00 <= ord(letter) <= 0x9FFF for letter in text):
        assert ids == theirs.encode(text).ids


def test_half_a_character_is_empty_and_comes_with_its_end() -> None:
    pieces = narrator_tokenizer().split("龘 🫖")
    assert "" in pieces
    assert "".join(pieces) == "龘 🫖"
    assert all("\ufffd" not in piece for piece in pieces)


def test_it_is_small_and_knows_the_shops_words() -> None:
    assert (NARRATOR / "tokenizer.json").stat().st_size < 200_000
    assert len(narrator_tokenizer()) == 4096
    assert narrator_tokenizer().split("The Halo Kettle costs 89 euros.") == [
        *("The", " Halo", " Kettle", " costs", " 89", " euros", ".")
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"pre_tokenizer": {"type": "ByteLevel"}})])
def test_another_kind_of_tokenizer_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="byte-level BPE"):
        Bpe(text)
