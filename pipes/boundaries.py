"""Where a narration that comes in pieces may be cut: how good each border between two pieces is. Pure.

B1. Never inside a grapheme cluster, never inside a cue marker (``[[show:...]]``).
B2. Not inside a unit: a number with its sign, its separators and its unit or currency ("3.5", "¥1,299", "1,299.00 €",
    "20 °C", "3 × 4", "20毫升"), a URL or a mail address, an abbreviation ("U.S."), a list item's label ("1."). A number
    is kept with the word that follows it: whether that is a unit, no list of units can tell.
B3. Not inside a word, nor before a mark that belongs to what stands before it. Scripts without spaces may be cut
    between any two characters: their words cannot be told without a dictionary.
B4. Clauses end at ``, ; :`` and at dashes, and behind a cue marker; sentences at ``. ! ?``; each in both widths, with
    the quotes and brackets that close there. Paragraphs and list items end at a line break.

A border is known when the text behind it is; of the last one `tail` says what can be said before.
"""

from __future__ import annotations

from multimodal.pipes.boundary_signs import (
    ADDRESS,
    ADDRESS_BEGINS,
    AFTER_MARKER,
    CLOSERS,
    CLUSTER,
    CLUSTERED,
    CODES,
    FLAGS,
    FULL_CLAUSE,
    FULL_SENTENCE,
    HAN_BEGINNINGS,
    HAN_OPEN,
    HAN_UNIT,
    INITIALS,
    JOINERS,
    LABEL,
    LETTER,
    MARKER,
    MONEY,
    NO_CUT_BEFORE,
    NUMBER,
    NUMERALS,
    OPEN_CURRENCY,
    OPEN_MARKER,
    OPENERS,
    OPERATOR,
    SHORT,
    SIGNS,
    SPACELESS,
    THOUSANDS,
)

__all__ = ["CLAUSE", "INSIDE", "MARKER", "NEVER", "PARAGRAPH", "SENTENCE", "UNIT", "WORD", "Boundaries"]

NEVER, UNIT, INSIDE, WORD, CLAUSE, SENTENCE, PARAGRAPH = range(7)
"""How good a border is, worst first: B1, B2, B3, between words, and the three of B4."""

MARKER_CHARS = 200
"""Characters after which an open bracket is no marker any more; the scanner of cues has such a limit, too."""
LOOK_BACK = 64
"""Characters of a run without spaces that are looked at: the longest abbreviation, price or unit is far shorter."""

# What a run of characters without spaces is to the one behind it.
_OTHER, _QUANTITY, _CURRENCY, _WITH_UNIT = range(4)


class Boundaries:
    """Reads one narration and ranks the borders between its pieces."""

    def __init__(self) -> None:
        self._tail = ""  # the last characters, for clusters
        self._run = ""  # the last run of characters without spaces
        self._gap = ""  # what stands behind it
        self._before = _OTHER  # what the run before it is
        self._first = True  # it is the first of its line
        self._marker = ""  # a marker that is open
        self._marked = False  # the text ends behind a marker

    @property
    def context(self) -> str:
        """The last characters of the text."""
        return self._tail

    def feed(self, text: str) -> int:
        """The next piece, not empty; gives the rank of the border before it."""
        rank = self._rank(text)
        self._take(text)
        return rank

    def tail(self) -> int:
        """The rank of the border behind what came so far, as far as it can be known."""
        run, gap = self._run, self._gap
        if self._marker or self._tail.endswith("\u200d") or (self._tail[-1:] > "\uffff" and FLAGS.search(self._tail)):
            return NEVER
        if self._marked:
            return CLAUSE
        if gap:
            return self._spaced("")
        if not run or (self._first and LABEL.fullmatch(run)):
            return UNIT if run else WORD
        last = run.rstrip(CLOSERS)[-1:] or run[-1]
        if (last in "–—" and run[-2:-1].isdigit()) or self._kind() == _CURRENCY:
            return UNIT
        if last in FULL_SENTENCE or last in FULL_CLAUSE:
            return SENTENCE if last in FULL_SENTENCE else CLAUSE
        begun = run[-2:-1].isalpha() and ADDRESS_BEGINS.search(run)
        if begun or ADDRESS.search(run) or INITIALS.search(run) or run[-1].isdigit():
            return UNIT
        if last in ".,:;!?":
            if run[-2:-1].isdigit() and last in ".,:":
                return UNIT
            return self._spaced("")
        if SPACELESS.match(last):
            found = HAN_UNIT.search(run[-8:])
            return UNIT if found and (not found[1] or found[1] in HAN_OPEN) else WORD
        if self._before in (_QUANTITY, _CURRENCY):
            return UNIT
        return INSIDE if last.isalnum() or last in JOINERS or last in OPENERS else WORD

    # ---- one border --------------------------------------------------------------------------------------------------

    def _rank(self, text: str) -> int:
        tail = self._tail
        if not tail:
            return WORD
        if self._marker and self._goes_on(text):
            return NEVER
        a, b = tail[-1], text[0]
        if (a > "\x7f" or b > "\x7f" or a == "\r") and self._in_cluster(a, b):
            return NEVER
        if self._marked:
            return CLAUSE
        if self._gap or b.isspace():
            return self._spaced(text)
        return self._glued(a, b, text)

    def _goes_on(self, text: str) -> bool:
        """Whether what was an open marker is one, or still may be."""
        whole = self._marker + text
        if MARKER.match(whole):
            return True
        return len(whole) <= MARKER_CHARS and OPEN_MARKER.match(whole) is not None

    def _in_cluster(self, a: str, b: str) -> bool:
        if b == "\n":
            return a == "\r"
        if not (CLUSTERED.match(b) or CLUSTERED.match(a)):
            return False
        tail = self._tail
        end = len(tail)
        return all(found.end() != end for found in CLUSTER.finditer(tail + b))

    def _spaced(self, text: str) -> int:
        """Between two runs; no `text` = what follows is not known."""
        coming = text.lstrip()
        lead = text[: len(text) - len(coming)]
        if "\n" in self._gap or "\n" in lead:
            # Line breaks go with what stands before them.
            return PARAGRAPH if coming or not text else WORD
        run = self._run
        if self._first and LABEL.fullmatch(run):
            return UNIT
        kind = self._kind()
        last = run.rstrip(CLOSERS)[-1:]
        begins = coming[:1]
        if kind == _CURRENCY:
            return UNIT if not begins or begins.isdigit() or begins in "+-−±" else WORD
        if kind == _QUANTITY:
            if begins.isdigit():
                return UNIT if THOUSANDS.search(run) else WORD
            counts = not begins or begins.isalnum() or begins in SIGNS
            return UNIT if counts or (MONEY.match(begins) and not MONEY.search(run)) else WORD
        if kind == _WITH_UNIT and (begins in tuple("×÷*/+=−") or coming.strip() == "x"):
            return UNIT
        if text and not coming:
            return INSIDE
        if last and last in ".!?" + FULL_SENTENCE:
            if last == "." and (INITIALS.search(run) or run.strip(OPENERS + ".").lower() in SHORT):
                return WORD
            return CLAUSE if last == "." and begins.islower() else SENTENCE
        return CLAUSE if last and last in ",;:" + FULL_CLAUSE else WORD

    def _glued(self, a: str, b: str, text: str) -> int:
        """Between two characters with no space between them."""
        run = self._run
        if a.isdigit() or b.isdigit():
            if a.isdigit() and b.isdigit():
                return UNIT
            if a.isdigit() and (b in JOINERS or b in NO_CUT_BEFORE or b.isalnum() or MONEY.match(b)):
                return INSIDE if b in FULL_SENTENCE or b in CLOSERS else UNIT
            if b.isdigit() and (a in JOINERS or a == "第" or (a.isalnum() and not SPACELESS.match(a))):
                return UNIT
            if b.isdigit() and (MONEY.match(a) or (a in FULL_CLAUSE and run[-2:-1].isdigit())):
                return UNIT
        address = _goes_on_as_address(run, text)
        if b in NO_CUT_BEFORE:
            return UNIT if address else INSIDE
        last = run.rstrip(CLOSERS)[-1:]
        if last and last in FULL_SENTENCE:
            return SENTENCE
        if last and last in FULL_CLAUSE:
            return CLAUSE
        if a in OPENERS:
            return INSIDE
        spaceless = SPACELESS.match(a), SPACELESS.match(b)
        if any(spaceless):
            if last and last in ".!?,;:":
                return SENTENCE if last in ".!?" else CLAUSE
            if all(spaceless) and (found := HAN_UNIT.search(run[-8:])):
                goes_on = found[1] + b in HAN_BEGINNINGS or (not found[1] and (b in NUMERALS or a in NUMERALS))
                return UNIT if goes_on else WORD
            return WORD
        if a in JOINERS or b in JOINERS or address:
            return UNIT if a not in "'’" and b not in "'’" else INSIDE
        if MONEY.match(b) or MONEY.match(a):
            return UNIT
        if LETTER.match(a) and LETTER.match(b):
            return UNIT if self._before in (_QUANTITY, _CURRENCY) else INSIDE
        return WORD if not (a.isascii() and b.isascii()) else INSIDE

    # ---- what was read -----------------------------------------------------------------------------------------------

    def _take(self, text: str) -> None:
        if self._marker or "[" in text:
            whole = self._marker + text
            found = OPEN_MARKER.search(whole)
            self._marker = found[0] if found and len(found[0]) <= MARKER_CHARS else ""
            self._marked = AFTER_MARKER.search(whole) is not None
        elif self._marked and not text.isspace():
            self._marked = False
        self._tail = (self._tail + text)[-LOOK_BACK:]
        if text.isalnum() and not self._gap:
            self._run = (self._run + text)[-LOOK_BACK:]
            return
        pieces = text.split()
        if not pieces:
            self._gap += text
            return
        lead = text[: len(text) - len(text.lstrip())]
        gap = self._gap + lead
        for number, piece in enumerate(pieces):
            if number:
                # Between the pieces of one text only line breaks matter; they are found by their place.
                gap = text[text.index(pieces[number - 1]) + len(pieces[number - 1]) : text.rindex(piece)]
            if gap:
                self._before = self._kind()
                self._first = "\n" in gap or (self._first and not self._run)
                self._run = piece[-LOOK_BACK:]
            else:
                self._run = (self._run + piece)[-LOOK_BACK:]
        self._gap = text[len(text.rstrip()) :]

    def _kind(self) -> int:
        run = self._run
        if not run:
            return _OTHER
        last = run[-1]
        if last.isdigit():
            return _QUANTITY if NUMBER.search(run) else _OTHER
        if run in OPERATOR and self._before in (_QUANTITY, _WITH_UNIT):
            return _CURRENCY
        if self._before != _QUANTITY and (run in CODES or OPEN_CURRENCY.search(run)):
            return _CURRENCY
        counted = self._before == _QUANTITY or run[0].isdigit()
        return _WITH_UNIT if counted and last not in ".,;:!?" else _OTHER


def _goes_on_as_address(run: str, text: str) -> bool:
    if ADDRESS.search(run):
        return True
    if not ADDRESS_BEGINS.search(run):
        return False
    whole = run + text.split(maxsplit=1)[0]
    return ADDRESS.search(whole) is not None or ADDRESS_BEGINS.search(whole) is not None
