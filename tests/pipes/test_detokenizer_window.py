"""Tokenizers of which nothing is known but `decode`, or more than a table can say (W1-W3)."""

from __future__ import annotations

import random
from typing import Any

from tokenizers import Tokenizer, decoders

from multimodal.pipes.detokenizer import Detokenizer
from multimodal.pipes.detokenizer_window import CleanUp, WindowSource
from tests import tokenizers
from tests.tokenizers import ids_of, pushed, sequences


def test_the_clean_up_in_pieces_is_that_of_the_whole() -> None:
    chance = random.Random(3)
    clean = tokenizers.bert().clean_up_tokenization
    for _ in range(20_000):
        parts = [chance.choice(["    .?!,''''ntmsvera", " '", " n't"]) for _ in range(chance.randint(1, 14))]
        text = "".join(map(chance.choice, parts))
        cleaner, cleaned, place = CleanUp(clean), "", 0
        while place < len(text):
            step = chance.randint(1, 3)
            cleaned += cleaner.push(text[place : place + step])
            place += step
            assert len(cleaner.held) <= 12
        assert cleaned + cleaner.flush() == clean(text), text


def test_a_subclass_with_a_decode_of_its_own_goes_by_it() -> None:
    from transformers import PreTrainedTokenizerFast

    class Shouting(PreTrainedTokenizerFast):
        def decode(self, token_ids: Any, *arguments: Any, **options: Any) -> str:
            # Not in the sample that a table is tried with.
            text = str(super().decode(token_ids, *arguments, **options))
            return text.upper() if len(token_ids) < 24 else text

    shouting: Any = Shouting
    tokenizer = shouting(tokenizer_object=tokenizers.byte_level())
    assert "".join(pushed(tokenizer, tokenizer("This kettle")["input_ids"])) == "THIS KETTLE"


def test_a_table_that_says_something_else_than_decode_is_not_used() -> None:
    from transformers import PreTrainedTokenizerFast

    class Pretending(PreTrainedTokenizerFast):
        @property
        def backend_tokenizer(self) -> Tokenizer:
            return tokenizers.unigram()

    pretending: Any = Pretending
    tokenizer = pretending(tokenizer_object=tokenizers.byte_level())
    ids = tokenizers.byte_level().encode("This kettle").ids
    assert "".join(pushed(tokenizer, ids)) == "This kettle"


def test_a_decoder_that_strips_the_end_or_each_token_goes_by_the_window() -> None:
    tokenizer = Tokenizer.from_str(tokenizers.byte_fallback().to_str())
    head = [decoders.Replace("▁", " "), decoders.ByteFallback()]
    for steps in ([decoders.Fuse(), decoders.Strip(" ", 0, 1)], [decoders.Strip(" ", 1, 0)], [decoders.Fuse()]):
        tokenizer.decoder = decoders.Sequence([*head, *steps])
        for ids in sequences(tokenizer, 200, seed=5):
            ids = [*ids_of(tokenizer, "a"), *ids]  # tokenizers' own Strip panics over an empty text
            if isinstance(Detokenizer(tokenizer)._source, WindowSource):
                # A run of byte tokens that breaks late takes back what was shown; a window cannot foresee it.
                ids = [i for i in ids if not str(tokenizer.id_to_token(i)).startswith("<0x")]
            assert "".join(pushed(tokenizer, ids)) == tokenizer.decode(ids)


def test_a_tokenizer_that_rewrites_what_it_said_loses_nothing_but_time() -> None:
    class Rewriting:
        def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
            return "".join(map(chr, ids)) if 33 not in ids else "".join(map(chr, ids)).swapcase()

    assert pushed(Rewriting(), [*b"ab c! de"], whole_graphemes=False) == ["a", "b", "", " c", *[""] * 4, "! DE"]


def test_a_decode_that_strips_its_text_shows_spaces_with_what_follows() -> None:
    class Stripping:
        def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
            return bytes(ids).decode().strip()

    told = pushed(Stripping(), [*b"a \n b\n\n"], whole_graphemes=False)
    assert told == ["a", "", "", "", " \n b", "", "", ""]


def test_a_decode_whose_text_depends_on_all_before_keeps_its_window() -> None:
    class Counting:
        def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
            return "".join(chr(i).upper() if place % 5 == 0 else chr(i) for place, i in enumerate(ids))

    told = pushed(Counting(), [*b"abcdefghijklmnopqrstuvwxyz" * 9], whole_graphemes=False)
    assert "".join(told[:-1]) == Counting().decode([*b"abcdefghijklmnopqrstuvwxyz" * 9], skip_special_tokens=True)


def test_a_window_never_begins_with_tokens_without_text() -> None:
    tokenizer = tokenizers.unigram()
    ids = ids_of(tokenizer, "▁", "s", *["<s>"] * 40, "▁", "s")
    assert "".join(pushed(tokenizers.DecodeOnly(tokenizer), ids, whole_graphemes=False)[:-1]) == "s s"


def test_a_window_stays_short() -> None:
    lengths: list[int] = []

    class Counting(tokenizers.DecodeOnly):
        def decode(self, ids: list[int], *, skip_special_tokens: bool = False) -> str:
            lengths.append(len(ids))
            return super().decode(ids, skip_special_tokens=skip_special_tokens)

    inner = tokenizers.byte_level()
    ids = [i for text in tokenizers.SENTENCES for i in inner.encode(text).ids]
    assert "".join(pushed(Counting(inner), ids)) == inner.decode(ids)
    assert sorted(lengths)[-1] == len(ids)  # the flush
    assert sorted(lengths)[-2] <= 48
