"""Words that must not be seen: never, however the text is split; and no text held back that need not be."""

from __future__ import annotations

import asyncio
import random
import unicodedata
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.pipes.wordfilter import FilteredTextPipe, WordFilter
from multimodal.sync.conformance import check_text_pipe
from multimodal.values import Token
from tests.support import virtual

LIST = WordFilter(["damn", "amnesia", "naïve", "坏词", "bad word", "x", "ffi", "straße"])


def through(words: WordFilter, pieces: list[str], action: str = "mask") -> str:
    filtering = words.begin(action)  # type: ignore[arg-type]
    return "".join(filtering.push(piece) for piece in pieces) + filtering.flush()


def plain(text: str) -> str:
    """What a reader would compare."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(each for each in folded if unicodedata.category(each) != "Cf")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("a damn shame", "a **** shame"),
        ("DAMN", "****"),
        ("ＤＡＭＮ", "****"),
        ("da\u200bm\u00adn it", "****** it"),
        ("nai\u0308ve and naïve", "****** and *****"),
        ("damnesia", "********"),  # two that overlap
        ("这是坏词吗", "这是**吗"),
        ("o\ufb03ce", "o*ce"),  # a ligature is one character
        ("STRASSE", "*******"),
        ("a bad\u200d word", "a *********"),
        ("nothing at all", "nothing at all"),
        ("", ""),
    ],
)
def test_w1_and_w3_a_word_in_any_dress_is_masked_at_its_length(text: str, masked: str) -> None:
    assert len(masked) == len(text)
    for cut in range(len(text) + 1):
        assert through(LIST, [text[:cut], text[cut:]]) == masked
    assert through(LIST, list(text)) == masked


def test_stop_ends_the_text_before_the_word() -> None:
    text = "A fine day, damn it."
    for cut in range(len(text) + 1):
        assert through(LIST, [text[:cut], text[cut:]], "stop") == "A fine day, "
    filtering = LIST.begin("stop")
    filtering.push("damn")
    assert filtering.stopped
    assert filtering.push("more") == filtering.flush() == ""


def test_whole_words_leave_longer_words_alone_and_chinese_is_always_whole() -> None:
    words = WordFilter(["ass", "坏词"], whole_words=True)
    for pieces in (["glass, ass. brass as", "s"], list("glass, ass. brass ass")):
        assert through(words, pieces) == "glass, ***. brass ***"
    assert through(words, list("这坏词好 ass坏词")) == "这**好 *****"
    assert through(words, list("Ass")) == "***"


def test_ten_thousand_words_cut_at_every_position_are_never_visible() -> None:
    dice = random.Random(11)
    letters = "abcdefghijklmnopqrstuvwxyzäöüß日月山川"
    listed = sorted({"".join(dice.choices(letters, k=dice.randint(3, 12))) for _ in range(10_100)})[:10_000]
    assert len(listed) == 10_000
    words = WordFilter(listed)
    for word in listed:
        text = f"1 {word.upper() if dice.random() < 0.5 else word} 2"
        cut = dice.randrange(1, len(text))
        for at in {cut, 3, len(text) - 3}:
            filtering = words.begin()
            first = filtering.push(text[:at])
            assert filtering.held <= words.longest - 1
            seen = first + filtering.push(text[at:]) + filtering.flush()
            assert plain(word) not in plain(seen)
    # And one word in a hundred at every position.
    for word in listed[::100]:
        text = f"1 {word} 2"
        whole = through(words, [text])
        for at in range(len(text)):
            assert through(words, [text[:at], text[at:]]) == whole


def normal(text: str) -> str:
    kept = [each for each in text if unicodedata.category(each) != "Cf"]
    return "".join(unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", each).casefold()) for each in kept)


FORMS = [normal(word) for word in ("damn", "amnesia", "naïve", "坏词", "bad word", "x", "ffi", "straße")]
_texts = st.text("damnesiaxfÏï\u0308 坏词bwor\u200b", max_size=30)


@settings(max_examples=400, deadline=None)
@given(_texts, st.data())
def test_every_split_gives_the_same_and_holds_back_no_more_than_a_beginning(text: str, data: st.DataObject) -> None:
    whole = through(LIST, [text])
    assert len(whole) == len(text)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    filtering = LIST.begin()
    shown = ""
    begun = ""
    for piece in pieces:
        begun += piece
        shown += filtering.push(piece)
        # W2: what is held back, in normal form, is a proper beginning of a word, or nothing.
        held = normal(begun[len(shown) :])
        assert held in {form[:length] for form in FORMS for length in range(len(form))}
    assert shown + filtering.flush() == whole


async def tokens(*items: Token | str) -> AsyncIterator[Token | str]:
    for item in items:
        await asyncio.sleep(0.01)
        yield item


def test_w4_tokens_stay_where_they_are() -> None:
    async def scenario() -> None:
        hits: list[int] = []
        given = [Token("A "), Token("da", lane="low"), Token("mn"), Token(" fi"), Token("ne"), Token(" dam", last=True)]
        pipe = FilteredTextPipe(tokens(*given), WordFilter(["damn"]), on_hit=hits.append)
        out = [token async for token in pipe]
        assert [token.text for token in out] == ["A ", "", "****", " fi", "ne", " dam"]
        assert [token.lane for token in out] == [token.lane for token in given]
        assert out[-1].last
        assert hits == [1]
        stopped = FilteredTextPipe(tokens("go", "od d", "amn", " never seen"), LIST, "stop")
        assert "".join([token.text async for token in stopped]) == "good "
        unknown = FilteredTextPipe(tokens("my d", "am"), LIST)
        assert [token.text async for token in unknown] == ["my ", "", "dam"]

    virtual(scenario())


def test_a_filtered_pipe_keeps_the_contract() -> None:
    from multimodal.pipes.script import ScriptTextPipe

    check_text_pipe(
        lambda: FilteredTextPipe(ScriptTextPipe("one damn thing after another.", gap=0.01), LIST),
        text="one **** thing after another.",
        run=virtual,
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: WordFilter("damn"), "one string"),
        (lambda: WordFilter(["\u200b"]), "at least one visible"),
        (lambda: WordFilter([3]), "at least one visible"),  # type: ignore[list-item]
        (lambda: LIST.begin("hide"), "there are: mask, stop"),  # type: ignore[arg-type]
        (lambda: LIST.begin(mask="##"), "must be one character"),
    ],
)
def test_wrong_arguments_are_named(wrong: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        wrong()  # type: ignore[operator]
    assert through(WordFilter([]), ["any", "thing"]) == "anything"
