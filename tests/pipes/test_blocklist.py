"""A file of words that no narration may show: what it may look like, and what becomes of tokens known beforehand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.blocklist import Blocklist


def test_a_file_has_one_word_or_phrase_a_line(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("\ufeff# ours\r\n\r\n  Oak \r\nbad word\n# none\n坏词".encode())
    blocked = Blocklist.read(path)
    assert blocked.words.count == 3
    assert blocked.words.seen("OAK, oaken, a bad\u00a0word, 这坏词。") == "***, oaken, a ********, 这**。"
    assert blocked.hides("an oak table")
    assert not blocked.hides("a beech table")


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (None, "cannot read the list of words .*words.txt: No such file"),
        (b"", "words.txt holds no word; write one word or phrase a line"),
        (b"# only\n\n", "words.txt holds no word"),
        (b"one\ntwo\n\xff\xfe\n", "words.txt, line 3: not UTF-8 text; save the list of words as UTF-8"),
        ("one\n\u200b\n".encode(), "words.txt, line 2: .* at least one visible character"),
        ("one\n\n\u0308x\n".encode(), "words.txt, line 3: .* begins with a mark"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(tmp_path: Path, written: bytes | None, says: str) -> None:
    path = tmp_path / "words.txt"
    if written is not None:
        path.write_bytes(written)
    with pytest.raises(UsageError, match=says):
        Blocklist.read(path)
    with pytest.raises(UsageError, match="cannot read the list of words"):
        Blocklist.read(tmp_path)


def test_without_pyahocorasick_the_command_that_installs_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ahocorasick", None)
    (tmp_path / "words.txt").write_text("oak\n")
    with pytest.raises(UsageError, match=r"pip install 'multimodal-stream\[guard\]'"):
        Blocklist.read(tmp_path / "words.txt")


@pytest.mark.parametrize(
    ("action", "tokens", "shown"),
    [
        ("mask", ["A", " bad", "", " word", " here", ""], ["A", " ***", "", "*****", " here", ""]),
        ("stop", ["A", " bad", "", " word", " here", ""], ["A", " "]),
        ("stop", ["A", " good", "", " word", ""], ["A", " good", "", " word", ""]),
        ("stop", ["bad", " word"], [""]),
        ("mask", ["bad", " wor"], ["bad", " wor"]),
    ],
)
def test_tokens_known_beforehand_keep_their_places(action: str, tokens: list[str], shown: list[str]) -> None:
    assert Blocklist(["bad word"], action).tokens(tokens) == shown  # type: ignore[arg-type]
