"""Pictures by meaning: which product the last words are about, told by an embedding. Pure but for what embeds.

One product holds a passage: it takes over where its similarity reaches the threshold and beats that of the product
before by a margin, and it gives way to none where its own falls below the threshold by that margin. So a passage that
wavers between two products, or about the threshold, changes its picture once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from multimodal.errors import UsageError
from multimodal.sync.folding import FOLD, FREE, MARK, NOTHING, SIGN, SPACE
from multimodal.values import Product

__all__ = ["Embed", "LastWords", "Meaning"]

Embed = Callable[[str], Sequence[float]]
"""Text -> vector, of one length for every text. It runs on the event loop, once a word: keep it far below the time
between two tokens, or stand a cache or a smaller model in front of it."""


class Meaning:
    """The meanings of a catalogue, prepared once for any number of narrations.

    Args:
        products: the catalogue; a product means its title and description.
        embed: text -> vector; called once for each product here, and once a word of the narration.
        threshold: cosine similarity from which the words are about a product, above 0 and at most 1.
        margin: by how much another product must be more similar, or the present one less than the threshold, before
            the passage ends.
        words: how many of the last words are compared.

    Raises:
        UsageError: an argument out of range, or vectors of different lengths.
    """

    def __init__(
        self, products: Iterable[Product], embed: Embed, *, threshold: float = 0.5, margin: float = 0.05, words: int = 5
    ) -> None:
        if not 0 < threshold <= 1 or not 0 <= margin <= 1 or words < 1:
            raise UsageError(
                f"threshold={threshold} must be above 0 and at most 1, margin={margin} from 0 to 1, "
                f"words={words} at least 1"
            )
        self.words, self._threshold, self._margin, self._embed = words, threshold, margin, embed
        listed = list(products)
        self.ids = [product.id for product in listed]
        self._rows = self._matrix([embed(f"{product.title}. {product.description}".strip()) for product in listed])

    def about(self, text: str, now: str | None) -> str | None:
        """The product that a passage is about after these words.

        Args:
            text: the last words.
            now: the product that it was about before them; None = none.

        Raises:
            UsageError: `embed` gave a vector of another length.
        """
        if not self.ids:
            return None
        vector = self._matrix([self._embed(text)])[0]
        if vector.shape != self._rows.shape[1:]:
            raise UsageError(
                f"embed gave {vector.shape[0]} numbers for {text!r} and {self._rows.shape[1]} for the products; "
                "it must give as many for every text"
            )
        likeness = self._rows @ vector
        best = int(likeness.argmax())
        top, held = float(likeness[best]), -math.inf
        if now is not None:
            held = float(likeness[self.ids.index(now)])
            if held < self._threshold - self._margin:
                now, held = None, -math.inf
        return self.ids[best] if top >= self._threshold and top >= held + self._margin else now

    def _matrix(self, vectors: list[Sequence[float]]) -> Any:
        # Only who embeds needs it: importing the package stays light.
        import numpy as np

        if len({len(vector) for vector in vectors}) > 1:
            raise UsageError(
                "embed gave vectors of different lengths for the products; it must give as many for every text"
            )
        rows = np.asarray(vectors, dtype=float).reshape(len(vectors), len(vectors[0]) if vectors else 0)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(norms > 0, norms, 1.0)


class LastWords:
    """The last words of a narration that are complete. In scripts without spaces each character counts as a word.

    Args:
        count: how many to keep.
    """

    def __init__(self, count: int) -> None:
        self._words: deque[tuple[str, int]] = deque(maxlen=count)
        self._word = ""
        self._start = self._position = 0
        self.fresh = False

    def feed(self, text: str) -> None:
        """The next piece; `fresh` = a word became complete since it was last set to False."""
        for character in text:
            kind = FOLD[character][0]
            if kind in (SIGN, SPACE):
                self.finish()
            elif kind == FREE:
                self.finish()
                self._begin(character)
                self.finish()
            elif kind != NOTHING and self._word:
                self._word += character
            elif kind not in (NOTHING, MARK):
                self._begin(character)
            self._position += 1

    def finish(self) -> None:
        """The word that is open is complete."""
        if self._word:
            self._words.append((self._word, self._start))
            self._word, self.fresh = "", True

    @property
    def text(self) -> str:
        """The words, a space between two."""
        return " ".join(word for word, _ in self._words)

    @property
    def start(self) -> int:
        """Where the first of them begins, in code points."""
        return self._words[0][1]

    def _begin(self, character: str) -> None:
        self._word, self._start = character, self._position
