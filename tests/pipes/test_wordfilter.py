"""Words that must not be seen: never, however the text is split; and no text held back that need not be."""

from __future__ import annotations

import asyncio
import random
import re
import unicodedata
from collections.abc import AsyncIterator
from itertools import product

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.wordfilter import PART, FilteredTextPipe, Filtering, WordFilter
from multimodal.sync.conformance import check_text_pipe
from multimodal.sync.folding import RUN, folded
from multimodal.values import Token
from tests.support import virtual

LIST = WordFilter(["damn", "amnesia", "naïve", "坏词", "bad word", "x", "ffi", "straße"])


def through(words: WordFilter, pieces: list[str], action: str = "mask") -> str:
    filtering = words.begin(action)  # type: ignore[arg-type]
    return "".join(filtering.push(piece) for piece in pieces) + filtering.flush()


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


def normal(text: str) -> str:
    """NFKD, case folded, without what is not seen, one space for several; none of the marks is an iota subscript."""
    spaced = "".join(" " if each.isspace() else each for each in text)
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", spaced).casefold())
    seen = "".join(each for each in plain if not regex.match(r"\p{Default_Ignorable_Code_Point}", each))
    return re.sub(" +", " ", unicodedata.normalize("NFKD", seen))


def test_ten_thousand_words_cut_at_every_position_are_never_visible() -> None:
    dice = random.Random(11)
    letters = "abcdefghijklmnopqrstuvwxyzäöüß日月山川"
    listed = sorted({"".join(dice.choices(letters, k=dice.randint(3, 12))) for _ in range(10_100)})[:10_000]
    assert len(listed) == 10_000
    words = WordFilter(listed)
    forms = list(map(normal, listed))
    begins = {form[:length] for form in forms for length in range(len(form))}
    # A mark of a lower class may still come before one that ends a word.
    begins.update(form for form in forms if unicodedata.combining(form[-1]))
    for number, (word, form) in enumerate(zip(listed, forms, strict=True)):
        said = (word, word.upper(), unicodedata.normalize("NFD", word))[number % 3]
        text = f"1 {said} 2"
        whole = words.seen(text)
        assert whole == f"1 {'*' * len(said)} 2"
        assert form not in normal(whole)
        for at in range(2, len(text) - 1):
            filtering = words.begin()
            shown = filtering.push(text[:at])
            # What waits ends a word's beginning, of which a part may be masked already.
            assert any(normal(text[begin:at]) in begins for begin in range(len(shown), 1, -1))
            assert filtering.held <= words.longest
            assert shown + filtering.push(text[at:]) + filtering.flush() == whole


def test_a_word_ends_the_text_by_its_own_end_however_it_was_split() -> None:
    """Of several words the one that is complete first, or the longest of those complete at once."""
    for listed, text, shown in (
        (["bac", "c", "a"], "ba\u200bc", "b"),
        (["abc", "c", "bc"], "xabc", "x"),
        (["abcd", "bc"], "abcd", "a"),
        (["ﬃ", "fi"], "oﬃ", "o"),
    ):
        words = WordFilter(listed)
        for cut in range(len(text) + 1):
            assert through(words, [text[:cut], text[cut:]], "stop") == shown
        assert through(words, list(text), "stop") == shown


SIGNS = "aAbcäﬃß \u0308\u0323\u0327\u200b\u3000\U000e0100日ﾞ"
_words = st.text(SIGNS, min_size=1, max_size=5) | st.text("abc", min_size=1, max_size=4)
_said = st.text(SIGNS, max_size=16) | st.text("abcabcabc \u200b日", max_size=16)


def listed(words: list[str]) -> list[str]:
    """Those that a list may hold."""
    forms = [(word, normal(word).lstrip(" ")) for word in words]
    return [word for word, form in forms if form and not unicodedata.combining(form[0]) and word.strip()]


@settings(max_examples=1500, deadline=None)
@given(st.lists(_words, max_size=4), _said, st.booleans(), st.data())
def test_w5_every_split_gives_the_same(words: list[str], text: str, whole_words: bool, data: st.DataObject) -> None:
    listing = WordFilter(listed(words), whole_words=whole_words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for action in ("mask", "stop"):
        whole = through(listing, [text], action)
        assert through(listing, pieces, action) == through(listing, list(text), action) == whole
    assert all(seen in (said, "*") for seen, said in zip(through(listing, [text]), text, strict=True))
    stopped = listing.begin("stop")
    shown = stopped.push(text) + stopped.flush()
    assert text.startswith(shown)
    assert stopped.stopped == ("*" in through(listing, [text]))
    if not whole_words:
        assert stopped.stopped == any(normal(word) in normal(text) for word in listed(words))
    assert "*" not in through(listing, [shown]) or whole_words


@settings(max_examples=600, deadline=None)
@given(st.lists(_words, max_size=3), _said, st.booleans())
def test_w2_what_is_held_back_may_become_a_word(words: list[str], text: str, whole_words: bool) -> None:
    kept = listed(words)
    listing = WordFilter(kept, whole_words=whole_words)
    filtering = listing.begin()
    shown = filtering.push(text)
    if not filtering.held:
        return
    marks = ["".join(order) for n in range(3) for order in product("\u0334\u0308\u0323\u0327\u3099", repeat=n)]
    rests = {normal(word)[at:] for word in kept for at in range(len(normal(word)) + 1)}
    fates = set()
    for mark, rest, after in product(marks, rests, ("", "b", " ")):
        fates.add(through(listing, [text + mark + rest + after])[len(shown)])
        if len(fates) > 1:
            return
    raise AssertionError(f"{text[len(shown) :]!r} waits for nothing")


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=6))
def test_w1_what_is_equal_under_nfkc_and_casefold_is_equal(text: str) -> None:
    kept = "".join(each for each in text if each != "\u0345" and "\u0345" not in unicodedata.normalize("NFD", each))
    form = folded(kept)
    if not form or unicodedata.combining(form[0]):
        return
    words = WordFilter([kept])
    for other in ("NFC", "NFD", "NFKC", "NFKD"):
        for said in (unicodedata.normalize(other, kept), unicodedata.normalize(other, kept).casefold()):
            seen = words.seen(said)
            assert "*" in seen
            assert len(seen) == len(said)


# Every range of Default_Ignorable_Code_Point, and what Chromium draws nothing for.
INVISIBLE = "\u00ad\u034f\u061c\u115f\u17b4\u180b\u200b\u202a\u2065\u3164\ufe00\ufeff\uffa0\ufff0\ufffb\x00\x7f"


@pytest.mark.parametrize("between", [*INVISIBLE, "\U0001bca0", "\U0001d173", "\U000e0020", "\U000e0100"])
def test_w1_no_invisible_character_hides_a_word(between: str) -> None:
    words = WordFilter(["badword", "ṩx"])
    assert words.seen(f"a bad{between}word") == "a ********"
    assert words.seen(f"s\u0323{between}\u0307x") == "*****"


@pytest.mark.parametrize("said", ["ṩx", "ṡ\u0323x", "ṣ\u0307x", "s\u0307\u0323x", "s\u0323\u0307x", "Ṡ\u0323X"])
def test_w1_marks_in_any_order(said: str) -> None:
    words = WordFilter(["ṩx"])
    for cut in range(len(said) + 1):
        assert through(words, ["a", said[:cut], said[cut:]]) == "a" + "*" * len(said)
        assert through(words, ["a", said[:cut], said[cut:]], "stop") == "a"
    assert words.seen("ṡx s\u0307\u0327x") == "ṡx s\u0307\u0327x"
    filtering = words.begin()
    assert (filtering.push("ṡ"), filtering.held) == ("", 1)
    assert filtering.push("\u0301") == "ṡ\u0301", "no mark that follows makes it the word"


@pytest.mark.parametrize("sign", ["\u200b", " ", "\u0308", "\U000e0100"])
def test_w2_a_long_run_ends_the_wait_and_the_word_is_not_seen_whole(sign: str) -> None:
    words = WordFilter(["bad word", "badword", "bad", "ba\u0308d"][:2] if sign != "\u0308" else ["bä\u0323d"])
    first, rest = ("ba", "\u0323d") if sign == "\u0308" else ("bad", "word")
    filtering = words.begin()
    shown, most = filtering.push(first), 0
    for _ in range(16_000):
        shown += filtering.push(sign)
        most = max(most, filtering.held)
    shown += filtering.push(rest) + filtering.flush()
    text = first + sign * 16_000 + rest
    assert most <= len(first) + 1 + RUN
    assert shown == words.seen(text)
    assert words.seen(text, "stop") == "".join(words.begin("stop").push(text))
    if sign != "\u0308":
        assert shown == first + sign * 16_000 + "****"
        assert words.seen(first + sign * (RUN - 1) + rest) == "*" * (len(first + rest) + RUN - 1)
        assert words.seen(text, "stop") == first + sign * 16_000


def test_w2_a_whole_word_before_a_long_run_is_judged_there() -> None:
    words = WordFilter(["ass"], whole_words=True)
    text = "an ass" + "\u200b" * 40 + "ess"
    assert words.seen(text) == through(words, list(text)) == "an ***" + text[6:]
    assert words.seen(text, "stop") == through(words, list(text), "stop") == "an "


async def read(pipe: FilteredTextPipe, seen: list[str]) -> None:
    async for token in pipe:
        seen.append(token.text)


async def tokens(*items: Token | str | Exception) -> AsyncIterator[Token | str]:
    for item in items:
        await asyncio.sleep(0.01)
        if isinstance(item, Exception):
            raise item
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
        assert not stopped.cut
        assert "".join([token.text async for token in stopped]) == "good "
        assert stopped.cut
        assert not pipe.cut
        unknown = FilteredTextPipe(tokens("my d", "am"), LIST)
        assert [token.text async for token in unknown] == ["my ", "", "dam"]

    virtual(scenario())


@pytest.mark.parametrize(
    ("listed", "given", "shown"),
    [
        (["badly"], ["so b", "ad"], ["so ", "", "bad"]),  # no word, and no more will come
        (["bad"], ["so b", "ad"], ["so ", "***"]),
        (["ass"], ["an as", "s"], ["an ", "", "***"]),  # judged as at the end
    ],
)
def test_what_waits_when_the_pipe_fails_comes_before_the_error(
    listed: list[str], given: list[str], shown: list[str]
) -> None:
    async def failing() -> AsyncIterator[str]:
        for each in given:
            yield each
        raise PipeError("lost")

    async def scenario() -> None:
        pipe = FilteredTextPipe(failing(), WordFilter(listed, whole_words=listed == ["ass"]))
        seen: list[str] = []
        with pytest.raises(PipeError, match="lost"):
            await read(pipe, seen)
        assert seen == shown
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(pipe)

    virtual(scenario())


def test_what_waits_when_it_is_closed_is_not_said() -> None:
    async def scenario() -> None:
        pipe = FilteredTextPipe(tokens("so b", "ad", PipeError("lost")), WordFilter(["badly"]))
        assert [(await anext(pipe)).text for _ in range(3)] == ["so ", "", "bad"]
        await pipe.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)

    virtual(scenario())


def test_a_filtered_pipe_keeps_the_contract() -> None:
    from multimodal.pipes.script import ScriptTextPipe

    check_text_pipe(
        lambda: FilteredTextPipe(ScriptTextPipe("one damn thing after another.", gap=0.01), LIST),
        text="one **** thing after another.",
        run=virtual,
    )


def test_one_long_piece_is_looked_through_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    let_out = Filtering._let_out

    def watched(self: Filtering, *, all_of_it: bool) -> str:
        held.append(self.held)
        return let_out(self, all_of_it=all_of_it)

    monkeypatch.setattr(Filtering, "_let_out", watched)
    text = "a damned damn thing, " * 3_000
    assert WordFilter(["damn"]).seen(text) == text.replace("damn", "****")
    assert max(held) < 2 * PART
    assert len(held) < 2 * len(text) / PART


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: WordFilter("damn"), "one string"),
        (lambda: WordFilter(["\u200b"]), "at least one visible"),
        (lambda: WordFilter([" "]), "at least one visible"),
        (lambda: WordFilter([3]), "at least one visible"),  # type: ignore[list-item]
        (lambda: WordFilter(["\u200b\u0308x"]), "begins with a mark"),
        (lambda: WordFilter(["x" + "\u0308" * (RUN + 1)]), "more than 30 marks"),
        (lambda: LIST.begin("hide"), "there are: mask, stop"),  # type: ignore[arg-type]
        (lambda: LIST.begin(mask="##"), "must be one character"),
    ],
)
def test_wrong_arguments_are_named(wrong: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        wrong()  # type: ignore[operator]
    assert through(WordFilter([]), ["any", "thing"]) == "anything"
