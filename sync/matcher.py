"""Product names in a narration that comes in pieces. Pure.

A mention is a name, an alias or a code of a product, whatever its case, width or spacing (`folding`):

- Where names overlap, the one that begins first counts, of those the longest: "Air" is not named in "Air Max".
- What ends a longer title is no shorter name: where there is a "Retro Basketball Shoe", "Basketball" is not named in
  "Basketball Shoe", which a narrator may say for it, or misspell the rest of.
- In scripts that set words apart by spaces a name is never part of a longer word; "Air" is not in "airy", but it is
  in "Air's" and between two ideographs. Scripts without such spaces have no such border, nor has Korean.
- Arabic joins the article and some particles to the word they stand before; a name is found behind them. Its vowel
  signs and tatweel count for nothing.
- No name ends between a character and the marks on it.

A trie is walked from every place where a name may begin, and a plain word with which no name begins is passed over
whole, so that a narration costs the same with 50 names and with 5,000. Borders keep that to one walk for each word of
the longest name; an automaton with failure links would have to test its borders afterwards, over every name that ends
at a place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import msgspec

from multimodal.errors import UsageError
from multimodal.sync.folding import ARABIC, BREAK, FOLD, LETTER, MANY, MARK, NOTHING, RUN, SIGN, SPACE, folded
from multimodal.values import Product

__all__ = ["Matcher", "Mention", "NameOwners", "ProductNames"]

PROCLITICS = frozenset(
    first + then for first in ("", "و", "ف") for then in ("", "ال", "ب", "بال", "ك", "كال", "ل", "لل") if first + then
)
"""What Arabic writes as one word with the noun: and, so; the, in, like, for, with and without the article."""
CODE_DIGITS = 5
"""From so many digits on a bare number is a product's code; a shorter one is a number that somebody says."""

_PLAIN = re.compile("[0-9A-Za-z_]+")
_WHO = ""
"""The key of a trie's node under which the name ends: no character is empty."""
_NOBODY = None
"""Whose name the end of a longer one is."""
_DEAD: dict[str, Any] = {}


class Mention(msgspec.Struct, frozen=True):
    """A product's name in a text, from `start` to `end` in code points."""

    start: int
    end: int
    product: str


class NameOwners:
    """Whose name is what, product by product.

    A product is named by its title, its aliases and its id, the id where it looks like a code: of letters with digits
    or signs, or of five digits and more. A plain word such as ``mug`` is a word that any sentence may say.
    """

    def __init__(self) -> None:
        self.by_path: dict[str, str] = {}
        """Products by their names as they are compared, `folded`."""

    def add(self, product: Product) -> tuple[str, str] | None:
        """Take in a product's names; gives the first that is another's, and that one's id. Its owner keeps it."""
        shared = None
        for name in (product.title, *product.aliases, *([product.id] if _is_code(product.id) else [])):
            path = folded(name)
            if path and self.by_path.setdefault(path, product.id) != product.id:
                shared = shared or (name, self.by_path[path])
        return shared


class ProductNames:
    """The names of a catalogue (`NameOwners`), prepared once for any number of narrations.

    Args:
        products: the catalogue.

    Raises:
        UsageError: one id or one name for two products: what is said could not be told apart.
    """

    def __init__(self, products: Iterable[Product]) -> None:
        self.products: dict[str, Product] = {}
        self.root: dict[str, Any] = {}
        owners = NameOwners()
        self._owners = owners.by_path
        self._pictures: dict[str, str] = {}
        # The plain words with which names begin and the nodes behind them, and how those words begin.
        self.first_words: dict[str, dict[str, Any]] = {}
        self.beginnings: set[str] = set()
        for product in products:
            if product.id in self.products:
                raise UsageError(f"two products have the id {product.id!r}; an id names one product")
            self.products[product.id] = product
            self._pictures.update((image.key, product.id) for image in product.images)
            if (shared := owners.add(product)) is not None:
                name, owner = shared
                raise UsageError(
                    f"{name!r} names both {owner!r} and {product.id!r}; give each a name of its own, "
                    "or leave the shared one out of the aliases"
                )
        for path, owner in self._owners.items():
            self._add(path, owner)
        for path, owner in self._owners.items():
            self._shield(path, owner)

    def _shield(self, path: str, owner: str) -> None:
        """Let the end of a name that begins with another product's name be nobody's."""
        for start in range(1, len(path)):
            if FOLD[path[start - 1]][0] in (LETTER, ARABIC, MARK) or FOLD[path[start]][0] in (SPACE, MARK):
                continue
            node, holds = self.root, False
            for place in range(start, len(path)):
                if node.get(_WHO, owner) not in (owner, _NOBODY) and FOLD[path[place]][0] != LETTER:
                    holds = True
                following = node.get(path[place])
                if following is None and not holds:
                    break
                node = node.setdefault(path[place], {})
            else:
                if holds:
                    node.setdefault(_WHO, _NOBODY)

    def _add(self, path: str, owner: str) -> None:
        node = self.root
        for character in path:
            node = node.setdefault(character, {})
        node[_WHO] = owner
        if word := _PLAIN.match(path):
            node = self.root
            for character in word[0]:
                node = node[character]
            self.first_words[word[0]] = node
            self.beginnings.update(word[0][:end] for end in range(1, word.end() + 1))

    def find(self, text: str) -> tuple[str, str] | None:
        """(product, picture) that a marker means: by id, by a picture's key, by name; None = no such product."""
        product = self.products.get(text)
        if product is None and text in self._pictures:
            return self._pictures[text], text
        if product is None:
            product = self.products.get(self._owners.get(folded(text), ""))
        return (product.id, self.picture(product.id)) if product else None

    def owner(self, key: str) -> str:
        """The product that a picture shows; "" for a picture of none."""
        return self._pictures.get(key, key if key in self.products else "")

    def picture(self, product: str) -> str:
        """A product's first picture. One without any has its own id for a key, so that the pipe says what is wrong."""
        images = self.products[product].images
        return images[0].key if images else product

    @property
    def longest_code(self) -> int:
        """Characters of the longest id or picture's key."""
        return max(map(len, (*self.products, *self._pictures)), default=0)


class Matcher:
    """Finds mentions in one narration.

    Args:
        names: what to look for.
    """

    def __init__(self, names: ProductNames) -> None:
        self._root = names.root
        self._first_words, self._beginnings = names.first_words, names.beginnings
        # Walks down the trie, by start: [start, node, end of the longest name so far (0 = none), its product].
        self._walks: list[list[Any]] = []
        self._found: list[Mention] = []
        self._position = 0
        self._end = 0  # behind the last character that counts
        self._glued = self._spaced = False  # the last one was a letter of a spaced script; was a space
        self._marks: list[str] = []  # in one run, of which the canonical order is not known yet
        self._marks_end = 0
        self._run = 0
        self._word = ""  # the Arabic word so far, while it may be a proclitic

    def feed(self, text: str) -> list[Mention]:
        """The next piece; gives the mentions that are certain now. A mention is, at the latest, with the character
        after which no name can go on."""
        fold, place, length, before = FOLD, 0, len(text), self._position
        while place < length:
            character = text[place]
            kind, plain = fold[character]
            if kind == LETTER and not (self._walks or self._word or self._marks):
                if self._glued:
                    self._run = 0
                    place += 1
                    continue
                if passed := self._pass_over(text, place, before):
                    place = passed
                    continue
            place += 1
            if kind == NOTHING or (kind == SPACE and self._spaced):
                self._skip()
            elif kind == MARK and unicodedata.combining(plain):
                self._mark(plain, before + place)
            elif kind == MANY:
                self._many(plain, before + place)
            else:
                if self._marks:
                    self._order_marks()
                self._run = 0
                self._step(plain, kind, before + place - 1)
                self._end = before + place
        self._position = before + length
        found, self._found = self._found, []
        return found

    def finish(self) -> list[Mention]:
        """The text is complete."""
        self._order_marks()
        self._step(BREAK, SIGN, self._position)
        found, self._found = self._found, []
        return found

    @property
    def open_end(self) -> int | None:
        """Where the first mention that is not certain yet may end; None = every mention that ended is known."""
        ends: list[int] = [walk[2] or self._end for walk in self._walks if walk[2] or _WHO in walk[1]]
        if self._walks and self._marks:
            ends.append(self._marks_end)
        return min(ends, default=None)

    def _pass_over(self, text: str, place: int, before: int) -> int:
        """Where the plain word that begins at a place ends; 0 = it takes a closer look, letter by letter.

        A name that begins with it is walked from its end on, so that such words too cost the same in any catalogue.
        """
        word = _PLAIN.match(text, place)
        if word is None:
            return 0
        end, said = word.end(), word[0].lower()
        if end == len(text):
            if said in self._beginnings:
                return 0
        elif text[end] > "\x7f":
            return 0
        elif (node := self._first_words.get(said)) is not None:
            self._walks.append([before + place, node, 0, ""])
            self._end = before + end
        self._glued, self._spaced, self._run = True, False, 0
        return end

    def _step(self, plain: str, kind: int, start: int, *, inner: bool = False) -> None:
        """One folded character; `inner` = not the first of those that its original folds to."""
        letter = kind in (LETTER, ARABIC)
        tied = inner or kind == MARK
        walks = self._walks
        if walks:
            border = not tied and not (letter and self._glued)
            alive = []
            for walk in walks:
                node = walk[1]
                if border and _WHO in node:
                    walk[2], walk[3] = self._end, node[_WHO]
                following = node.get(plain)
                if following is not None:
                    walk[1] = following
                elif walk[2]:
                    walk[1] = _DEAD
                else:
                    continue
                alive.append(walk)
            while alive and alive[0][1] is _DEAD:
                start_of, _, end, product = alive[0]
                if product is not _NOBODY:
                    self._found.append(Mention(start_of, end, product))
                alive = [walk for walk in alive if walk[0] >= end]
            self._walks = walks = alive
        if not tied and kind != SPACE and (not (letter and self._glued) or self._word in PROCLITICS):
            node = self._root.get(plain)
            if node is not None:
                walks.append([start, node, 0, ""])
        if kind == ARABIC and len(self._word) < 5 and (self._word or not self._glued):
            self._word += plain
        else:
            self._word = ""
        if kind != MARK:
            self._glued = letter
            self._spaced = kind == SPACE

    def _many(self, plain: str, position: int) -> None:
        for number, character in enumerate(plain):
            kind = FOLD[character][0]
            if unicodedata.combining(character):
                self._mark(character, position)
            else:
                self._order_marks()
                self._step(character, kind, position - 1, inner=number > 0)
                self._end = position

    def _mark(self, plain: str, position: int) -> None:
        self._marks.append(plain)
        self._marks_end = position
        self._skip()

    def _order_marks(self) -> None:
        if self._marks:
            marks, self._marks = sorted(self._marks, key=unicodedata.combining), []
            for mark in marks:
                self._step(mark, MARK, self._end)
            self._end = self._marks_end
        self._run = 0

    def _skip(self) -> None:
        """A character that no name needs; too many of them in one run end every name."""
        self._run += 1
        if self._run > RUN:
            self._order_marks()
            self._step(BREAK, SIGN, self._position)


def _is_code(text: str) -> bool:
    letters = sum(map(str.isalpha, text))
    return 0 < letters < len(text) or (not letters and len(text) >= CODE_DIGITS)
