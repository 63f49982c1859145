"""Filler words in a narration that comes in pieces, scored word by word, English and Chinese. Pure.

F1. A score is that of a word, not of a token: it is given once the character behind the word is known, however the
    word was split. So "um" is never found in "umbrella", nor "啊" in "啊哈".
F2. 0 = no filler, 1 = certainly one. A hesitation ("um", "嗯") is one wherever it stands. A word that is also an
    ordinary one ("well", "like", "那个") scores high only where it opens a clause, or follows another filler, and is
    set off by a comma, a dash or dots; elsewhere it scores low ("works well", "那个杯子").
F3. What is no filler in any place is not reported at all: at any threshold it stays where it is.

The lists and figures are ours, set on spoken shop narrations; they rank how safely a word can wait, no more.
Hesitations and discourse markers are told apart as in Clark and Fox Tree, "Using uh and um in spontaneous speaking"
(2002).
"""

from __future__ import annotations

from typing import NamedTuple

import regex

__all__ = ["Filler", "FillerScorer"]


class Filler(NamedTuple):
    """A word that may be a filler: from `start` to `end` in code points, and how surely it is one."""

    start: int
    end: int
    score: float


class _Use(NamedTuple):
    """Scores by place: opens a clause and is set off; opens it and runs on; set off only; neither."""

    apart: float
    opening: float
    closing: float
    inside: float


_HESITATION = _Use(0.98, 0.95, 0.95, 0.9)
_INTERJECTION = _Use(0.85, 0.4, 0.5, 0.2)
_MARKER = _Use(0.85, 0.25, 0.3, 0.1)
_PHRASE = _Use(0.85, 0.2, 0.8, 0.1)
_SOFT = _Use(0.6, 0.35, 0.25, 0.1)
_WEAK = _Use(0.5, 0.3, 0.3, 0.15)
_HAN_HESITATION = _Use(0.98, 0.9, 0.75, 0.3)
_HAN_INTERJECTION = _Use(0.85, 0.3, 0.2, 0.1)
_HAN_MARKER = _Use(0.85, 0.1, 0.4, 0.05)


def _again(sound: str) -> str:
    """A sound as often as it is said."""
    return f"{sound}+(?!{sound})"


_ENGLISH = {
    _HESITATION: ["u+m+", "u+h+m*", "e+r+m+", "er", "h+m+", "m{2,}"],
    _INTERJECTION: ["a+h+", "o+h+", "eh"],
    _MARKER: ["well", "like"],
    _PHRASE: ["you know", "i mean", "let me see", "let's see", "you see", "how should i say"],
    _SOFT: ["so", "okay", "ok", "right", "anyway", "now", "basically", "sort of", "kind of"],
    _WEAK: ["actually", "honestly", "literally", "obviously", "really"],
}
_CHINESE = {
    _HAN_HESITATION: [_again(sound) for sound in "嗯呃唔额"],
    _HAN_INTERJECTION: [_again(sound) for sound in "啊哦噢喔诶欸哎唉"],
    _HAN_MARKER: [
        "(?:那个)++(?!那)",
        "(?:这个)++(?!这)",
        "[那这]个嘛",
        "就是说",
        "就是(?!说)",
        "怎么说呢",
        "怎么说(?!呢)",
        "你知道",
        "我是说",
        "对吧",
    ],
    _SOFT: ["那么", "然后", "好的", "所以"],
    _WEAK: ["其实", "反正", "总之"],
}
_USES = [*_ENGLISH, *_CHINESE]

_SET_OFF = frozenset(",，、…—–~～;；")
_ENDS = frozenset(".!?。！？:：\n")
_OPENS = frozenset("\"'“‘(（「『[")
_ORDINARY = frozenset("哈呀哟呦哼吗呢")
"""Behind an interjection or marker these make another word of it: 啊哈, 哎呀, 嗯哼, 你知道吗."""
_CERTAIN = regex.compile(r"\W*(?:u+m+|u+h+m*|e+r+m+|er|h+m+|m{2,}|嗯+|呃+|唔+)\W*", regex.IGNORECASE)
"""Fillers in whatever place; 额 is not among them, as it begins 额外 and 额度."""


def _alternatives(groups: dict[_Use, list[str]], first: int) -> str:
    return "|".join(f"(?P<g{first + number}>{'|'.join(words)})" for number, words in enumerate(groups.values()))


# The character behind the word is asked for, so that a match without it is a partial one; behind a dot one more, as
# several set a word off and a single one ends a sentence.
_WORDS = regex.compile(
    rf"(?<![\w'’\-])(?:{_alternatives(_ENGLISH, 0)})(?=[^\w'’\-.]|\.[\s\S])"
    rf"|(?<![a-zA-Z])(?:{_alternatives(_CHINESE, len(_ENGLISH))})(?=[^.]|\.[\s\S])",
    regex.IGNORECASE,
)
_MAY_BEGIN = regex.compile("[uUeEhHmMaAoOwWlLyYiIsSrRnNbBkK嗯呃唔额啊哦噢喔诶欸哎唉那这就怎你我对然好所其反总]")
_BACK = 8
"""Characters kept before the place that is looked at: what stands before a word says how it is used."""


class FillerScorer:
    """Finds the fillers of one narration.

    Args:
        before: what was said before, where the narration was not read from its beginning.
    """

    def __init__(self, before: str = "") -> None:
        self._text = before[-_BACK:]
        self._base = -len(self._text)  # the place of `_text` in the narration
        self._from = len(self._text)  # where in `_text` it is not decided yet
        self._last_end: int | None = None  # where the last filler ended, in the narration
        self._open = False

    @property
    def open(self) -> int:
        """Up to which place every word is decided."""
        return self._base + self._from

    @property
    def certain(self) -> bool:
        """What is not decided is a filler, whatever stands behind it, unless the word goes on."""
        return self._open and _CERTAIN.fullmatch(self._text, self._from) is not None

    def feed(self, text: str) -> list[Filler]:
        """The next piece; gives the words that are decided with it and may be fillers."""
        if not self._open and not _MAY_BEGIN.search(text):
            self._text = (self._text + text)[-_BACK:]
            self._base += self._from + len(text) - len(self._text)
            self._from = len(self._text)
            return []
        self._text += text
        return self._read(partial=True)

    def flush(self) -> list[Filler]:
        """The narration is complete: what is open is decided, as if a line break stood behind it."""
        self._text += "\n"
        found = self._read(partial=False)
        self._text = self._text[:-1]
        self._from = min(self._from, len(self._text))
        return found

    def _read(self, *, partial: bool) -> list[Filler]:
        found: list[Filler] = []
        text, place = self._text, self._from
        self._open = False
        while match := _WORDS.search(text, place, partial=partial):
            start, end = match.span()
            if match.partial:
                self._open = True
                place = start
                break
            score = self._score(match, text, start, end)
            if score:
                found.append(Filler(self._base + start, self._base + end, score))
                self._last_end = self._base + end
            place = end
        else:
            place = len(text)
        drop = max(0, place - _BACK)
        self._text, self._base, self._from = text[drop:], self._base + drop, place - drop
        return found

    def _score(self, match: regex.Match[str], text: str, start: int, end: int) -> float:
        group = match.lastgroup or "g0"
        number = int(group[1:])
        use, word, behind = _USES[number], match[0], text[end]
        if number >= len(_ENGLISH):
            if behind in _ORDINARY or (word[0] == "额" and behind not in _SET_OFF):
                return 0.0
        elif word.isupper() and len(word) > 1 and behind not in _SET_OFF:
            return 0.1  # ER, UM and OK are also names
        apart = behind in _SET_OFF or text[end : end + 2] == ".."
        if use in (_HESITATION, _HAN_HESITATION):
            apart = apart or behind in _ENDS
        opens = self._opens(text, start)
        return (use.apart if apart else use.opening) if opens else (use.closing if apart else use.inside)

    def _opens(self, text: str, start: int) -> bool:
        """Whether the word begins a clause, or stands behind another filler."""
        before = text[:start].rstrip(" \t")
        if not before or self._base + len(before) == self._last_end:
            return True
        last = before[-1]
        return last in _SET_OFF or last in _ENDS or last in _OPENS or last.isspace()
