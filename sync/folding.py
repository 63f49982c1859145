"""How a narration is compared with names: NFKC, case and width folded, one character at a time. Pure.

Characters are decomposed (NFKD), which finds the same names as composing them does, but needs no look at the
neighbours: so a text that comes in pieces folds like the whole, and every folded character knows its original.
"""

from __future__ import annotations

import unicodedata

__all__ = ["ARABIC", "BREAK", "FOLD", "FREE", "LETTER", "MANY", "MARK", "NOTHING", "RUN", "SIGN", "SPACE", "folded"]

SIGN, LETTER, ARABIC, FREE, SPACE, MARK, NOTHING, MANY = range(8)
"""What a character is to a name: a sign; a letter or digit of words set apart by spaces; the same in Arabic; one of a
script without spaces; a space; a mark on the character before; nothing at all; several characters when folded."""

BREAK = "\n"
"""Fed to end every name. Spaces fold to one kind, so that no name holds it."""
RUN = 30
"""Spaces, marks or invisible characters in one run that a name may hold: so many as UAX #15 (D4) calls stream-safe."""

# Scripts whose words are not set apart by spaces, and Korean, which joins its particles to the noun. Ideographs and
# syllables beyond the basic plane have a range of their own.
_FREE = (
    (0x0E00, 0x0FFF),  # Thai, Lao, Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Korean, decomposed
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x2E80, 0xA4CF),  # ideographs, kana, bopomofo, Yi
    (0xA960, 0xA97F),  # Korean, decomposed
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xAC00, 0xD7FF),  # Korean
    (0xF900, 0xFAFF),  # ideographs
    (0x16FE0, 0x18DFF),  # Tangut
    (0x1AFF0, 0x1B2FF),  # kana
    (0x20000, 0x3FFFF),  # ideographs
)
_ARABIC = ((0x0620, 0x06FF), (0x0750, 0x077F), (0x0870, 0x08FF))
# Default_Ignorable_Code_Point; what Chromium draws nothing for (U+0000, U+007F to 9F, U+070F, U+FFF9 to FFFB); and what
# Arabic writes or leaves out at will: the vowel signs and the tatweel.
_NOTHING = (
    (0x0000, 0x0000),
    (0x007F, 0x009F),
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x0640, 0x0640),
    (0x064B, 0x0652),
    (0x0670, 0x0670),
    (0x070F, 0x070F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)


class _Fold(dict[str, tuple[int, str]]):
    """Character -> what it is, and what it folds to; filled as characters come."""

    def __missing__(self, character: str) -> tuple[int, str]:
        found = self[character] = _fold(character)
        return found


FOLD = _Fold()


def folded(text: str) -> str:
    """A whole text as names are compared: invisible characters gone, spaces one each and none at the ends."""
    if text.isascii() and text.isprintable():  # what follows would do the same, in ten times the time
        return " ".join(text.lower().split())
    spaced = "".join(" " if character.isspace() else character for character in text)
    return " ".join(_decomposed(spaced).split())


def _fold(character: str) -> tuple[int, str]:
    if character.isspace():
        return SPACE, " "
    plain = _decomposed(character)
    if len(plain) == 1:
        return _kind(plain), plain
    return (MANY, plain) if plain else (NOTHING, "")


def _decomposed(text: str) -> str:
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in plain if not _within(character, _NOTHING))


def _kind(character: str) -> int:
    # The second and third parts of a Korean syllable are letters to Unicode, but no syllable ends before them.
    if unicodedata.category(character).startswith("M") or "\u1160" <= character <= "\u11ff":
        return MARK
    if not character.isalnum() and character != "_":
        return SPACE if character == " " else SIGN
    if _within(character, _FREE):
        return FREE
    return ARABIC if _within(character, _ARABIC) else LETTER


def _within(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    code = ord(character)
    return code >= ranges[0][0] and any(first <= code <= last for first, last in ranges)
