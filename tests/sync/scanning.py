"""An independent reading of the scanner's rules over a whole text: no streaming, no trie, no state machine."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from multimodal.sync.scanner import Repeat, Report, Scanned, Scanner
from multimodal.values import LATE_POLICIES, Cue, Product, ProductImage, Token

OPENING = re.compile(r"\[\[show:", re.IGNORECASE)
LIMIT = 80
INVISIBLE = re.compile("[\u00ad\u0640\u064b-\u0652\u0670\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff]")
PARTICLES = re.compile("[وف]?(ال|[بكل]|[بك]ال|لل)?")


def product(sku: str, title: str, *aliases: str) -> Product:
    return Product(sku, title, aliases, images=(ProductImage(f"{sku}-hero", "x.jpg"),))


def scan(scanner: Scanner, tokens: Sequence[str], *, last: bool = False) -> Scanned:
    """Everything that a scanner lets out, and a check of what each of its steps owes."""
    out: list[Token] = []
    cues: list[Cue] = []
    reports: list[Report] = []
    for number, text in enumerate(tokens):
        step = scanner.feed(Token(text, last and number == len(tokens) - 1))
        for cue in step.cues:
            assert cue.anchor > len(out) or (cue.anchor == 0 and not out), f"{cue} is late: {len(out)} tokens are out"
        out += step.tokens
        cues += step.cues
        reports += step.reports
    step = scanner.flush()
    for cue in step.cues:
        assert cue.anchor > len(out) or (cue.anchor == 0 and not out), f"{cue} is late: {len(out)} tokens are out"
    out += step.tokens
    assert len(out) == len(tokens), "every token comes out once"
    assert scanner.held == 0
    return Scanned(out, [*cues, *step.cues], [*reports, *step.reports])


def places(done: Scanned) -> list[tuple[int, str]]:
    """Each cue by how many characters are seen before it."""
    ends = [0, *accumulate(len(token.text) for token in done.tokens)]
    return sorted(((ends[cue.anchor], cue.key) for cue in done.cues), key=lambda place: place[0])


def seen(done: Scanned) -> str:
    return "".join(token.text for token in done.tokens)


def without_markers(text: str) -> tuple[list[int], list[tuple[int, int, str]]]:
    """(the places of the characters that are seen, (place, characters seen before, body or "" if broken))."""
    kept: list[int] = []
    markers: list[tuple[int, int, str]] = []
    place = 0
    while place < len(text):
        opening = OPENING.match(text, place)
        if opening is None:
            if cut_off(text[place:]):
                markers.append((place, len(kept), ""))
                break
            kept.append(place)
            place += 1
            continue
        closed = re.compile(r"\[\[show:([^\[\]\r\n]*)\]\]", re.IGNORECASE).match(text, place)
        if closed and closed.end() - place <= LIMIT:
            markers.append((place, len(kept), closed[1] or " "))
            place = closed.end()
            continue
        markers.append((place, len(kept), ""))
        plain = re.compile(r"[^\[\]\r\n]*").match(text, opening.end())
        assert plain is not None
        if plain.end() - place >= LIMIT - 1 and len(text) > place + LIMIT - 1:
            # Too long: its code goes whole, with its brackets.
            gone = re.compile(r"[!-Z\\^-~]*\]*").match(text, opening.end())
        else:
            gone = re.compile(r"[!-Z\\^-~]*\]?").match(text, opening.end())
        assert gone is not None
        place = gone.end()
    return kept, markers


def cut_off(tail: str) -> bool:
    return 3 <= len(tail) < 7 and "[[show:".startswith(tail.lower())


def folded(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))


def mentions(text: str, names: dict[str, str]) -> list[tuple[int, int, str]]:
    """(start, end, product) by trying every piece of the text, longest first, from every place."""
    found, place = [], 0
    while place < len(text):
        for end in range(len(text), place, -1):
            sku = names.get(folded(text[place:end]))
            if sku and text[end - 1 : end] not in " \n" and bordered(text, place, end):
                found.append((place, end, sku))
                place = end
                break
        else:
            place += 1
    return found


def bordered(text: str, start: int, end: int) -> bool:
    if INVISIBLE.match(text[start]) or text[start].isspace() or INVISIBLE.match(text[end - 1]):
        return False
    before, after = INVISIBLE.sub("", text[:start]), INVISIBLE.sub("", text[end:])
    if is_mark(after[:1]) or is_mark(text[start]):
        return False
    if spaced(text[start:end]) and spaced(after[:1]):
        return False
    if not spaced(text[start]):
        return True
    letters = before
    while letters and (is_mark(letters[0]) or not all(spaced(c) or is_mark(c) for c in letters)):
        letters = letters[1:]
    return not letters or PARTICLES.fullmatch(unicodedata.normalize("NFKC", letters)) is not None


def is_mark(character: str) -> bool:
    folds = unicodedata.normalize("NFKD", character)[:1]
    return folds != "" and (unicodedata.category(folds)[0] == "M" or "\u1160" <= folds <= "\u11ff")


def spaced(text: str) -> bool:
    """Whether its last character, marks apart, is a letter of a script that sets words apart."""
    base = unicodedata.normalize("NFKD", text)
    base = "".join(c for c in base if unicodedata.category(c)[0] != "M")[-1:]
    if not base or not (base.isalnum() or base == "_"):
        return False
    return not any(word in unicodedata.name(base, "") for word in ("CJK", "HIRAGANA", "KATAKANA", "THAI", "HANGUL"))


def expected(
    tokens: Sequence[str], products: Sequence[Product], *, repeat: Repeat = "first", lead: int = 0
) -> tuple[list[str], list[tuple[int, str, str | None]]]:
    """(what is seen of each token, the cues as (anchor, key, policy)), with markers and mentions on."""
    text = "".join(tokens)
    token_of = [number for number, token in enumerate(tokens) for _ in token]
    kept, markers = without_markers(text)
    shown = ["".join(text[place] for place in kept if token_of[place] == number) for number in range(len(tokens))]
    names = {folded(name).strip(): p.id for p in products for name in (p.title, *p.aliases)}
    visible = "".join(shown)
    happenings: list[tuple[int, int, str, int, int, str | None]] = []
    for place, before, body in markers:
        sku, bar, policy = (part.strip() for part in body.partition("|"))
        sku = names.get(folded(sku), "") if sku not in names.values() else sku
        if sku and (not bar or policy in LATE_POLICIES):
            first = token_of[place]
            anchor = first + 1 if before or first > lead else 0
            happenings.append((before, 0, sku, anchor, before, policy or None))
    for start, end, sku in mentions(visible, names):
        first, final = token_of[kept[start]], token_of[kept[end - 1]]
        happenings.append((end, 1, sku, max(final + 1 - lead, first + 1), start, None))
    cues: list[tuple[int, bool, tuple[int, str, str | None]]] = []
    placed: set[str] = set()
    for place, is_mention, sku, anchor, start, late in sorted(happenings, key=lambda each: each[:2]):
        touching = any(not m and s == sku and start <= c <= place for c, m, s, *_ in happenings)
        if is_mention and (sku in placed if repeat == "first" else touching):
            continue
        placed.add(sku)
        cues.append((place, not is_mention, (anchor, f"{sku}-hero", late)))
    # At one place a name stands before a marker: it ended there.
    return shown, [cue for _, _, cue in sorted(cues, key=lambda each: (each[2][0], each[0], each[1]))]
