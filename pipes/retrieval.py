"""Which product a text is about: by its names, its facts and the alternative texts of its pictures. Needs numpy only.

Two signals are added. Words: BM25 (Robertson and Zaragoza 2009) over words, and over pairs of characters in scripts
without spaces. Meaning: the cosine between the text and each of a product's own texts, the nearest of which counts,
taken against all products, as models of sentences find everything alike to some degree. Each finds what the other
misses: a name that no model knows, a need that no product names.

Vectors lie in one matrix; numpy searches 200,000 of them faster than a sentence is spoken.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.word_index import WordIndex
from multimodal.values import Product

__all__ = ["Embedder", "Hit", "ImageTextScorer", "Retriever"]

QUERIES_KEPT = 1024
"""Texts whose vectors are kept: a narration asks for the same last words again and again."""
WORDS_WEIGHT = 2.0
"""How many typical distances between two products' likenesses a text is worth all of whose words are a product's."""


class Embedder(Protocol):
    """What turns texts into vectors: `multimodal.pipes.embedders` has two, any other will do.

    `spread` is the standard deviation, as it usually is, of its cosines between one text and all products.
    """

    spread: float

    def passages(self, texts: Sequence[str]) -> Any:
        """One vector for each text of a product: an array [texts, n], any length of vector, the same for all."""
        ...

    def query(self, text: str) -> Any:
        """The vector of a text that asks: an array [n]."""
        ...


class ImageTextScorer(Protocol):
    """For who has a model of pictures and texts (CLIP and its kin): how well each picture shows what a text says."""

    def scores(self, text: str, keys: Sequence[str]) -> Sequence[float]:
        """One number for each picture's key, larger = better, in any unit."""
        ...


class Hit(msgspec.Struct, frozen=True):
    """A product that a text may be about.

    Args:
        product: its id.
        score: for the order, and for nothing between two texts.
        likeness: cosine of the meaning, -1 to 1; 0 without an embedder.
        words: share of the text's words, weighted by how rare they are, that are the product's, 0 to 1.
        picture: key of its picture that fits the text best ("" = it has none).
        because: the product's own text that was nearest.
    """

    product: str
    score: float
    likeness: float
    words: float
    picture: str
    because: str


class _Text(msgspec.Struct, frozen=True):
    product: int
    picture: str
    text: str


class Retriever:
    """Finds products by what is said of them. Safe to use from several threads once it is made.

    Args:
        products: the catalogue.
        embedder: turns texts into vectors; None = words alone.
        scorer: a model of pictures and texts, which then chooses a product's picture; None = alternative texts do.

    Raises:
        UsageError: something else than products; an embedder that gives something else than vectors of one length.
    """

    def __init__(
        self, products: Iterable[Product], embedder: Embedder | None = None, scorer: ImageTextScorer | None = None
    ) -> None:
        if not isinstance(products, Iterable) or isinstance(products, str | bytes):
            hint = "give catalog.products" if hasattr(products, "products") else "give a list of Product"
            raise UsageError(f"Retriever(products): a {type(products).__name__} is no list of products; {hint}")
        self.products = list(products)
        for number, product in enumerate(self.products):
            if not isinstance(product, Product):
                raise UsageError(f"Retriever(products): products[{number}] is {product!r}; give Product objects")
        self._embedder, self._scorer = embedder, scorer
        self._texts = [text for number, product in enumerate(self.products) for text in _texts(number, product)]
        self._words = WordIndex([" ".join(_everything(product)) for product in self.products])
        self._rows: Any = None
        self._owners: Any = None
        self._queries: OrderedDict[str, Any] = OrderedDict()
        if embedder is not None and self._texts:
            import numpy as np

            self._rows = _unit(embedder.passages([entry.text for entry in self._texts]), len(self._texts))
            self._owners = np.array([entry.product for entry in self._texts])

    def search(self, text: str, limit: int = 5) -> list[Hit]:
        """The products that a text is most likely about, best first; those that share nothing with it are left out.

        Args:
            text: a question, or what is being said.
            limit: how many at most.

        Raises:
            UsageError: no text, or a limit that is no whole number of 1 or more.
        """
        if not isinstance(text, str):
            raise UsageError(f"search: text={text!r} is no text; give a str")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"limit={limit!r} must be a whole number, at least 1")
        if not self.products or not text.strip():
            return []
        shares = self._words.shares(text)
        likeness, nearest = self._meaning(text)
        scores = [WORDS_WEIGHT * share for share in shares]
        if likeness is not None:
            assert self._embedder is not None
            usual = sum(likeness) / len(likeness)
            scores = [s + (like - usual) / self._embedder.spread for s, like in zip(scores, likeness, strict=True)]
        order = sorted(range(len(scores)), key=lambda number: (-scores[number], number))[:limit]
        return [
            Hit(
                self.products[number].id,
                scores[number],
                likeness[number] if likeness is not None else 0.0,
                shares[number],
                self._picture(number, text),
                self._texts[nearest[number]].text if nearest is not None else "",
            )
            for number in order
            if likeness is not None or shares[number] > 0
        ]

    def embed(self, text: str) -> Sequence[float]:
        """The vector of a text that asks, kept for the next time: what `multimodal.Meaning` takes.

        Raises:
            UsageError: there is no embedder.
        """
        if self._embedder is None:
            raise UsageError("this Retriever has no embedder; give one to compare meanings")
        vector: Sequence[float] = self._query(text)
        return vector

    def _meaning(self, text: str) -> tuple[list[float] | None, list[int] | None]:
        """Cosine of each product's nearest text, and which text that is."""
        if self._rows is None:
            return None, None
        import numpy as np

        cosines = self._rows @ self._query(text)
        best = np.full(len(self.products), -1.0)
        np.maximum.at(best, self._owners, cosines)
        nearest = [0] * len(self.products)
        for place in np.flatnonzero(cosines == best[self._owners])[::-1]:
            nearest[self._texts[place].product] = int(place)
        return best.tolist(), nearest

    def _query(self, text: str) -> Any:
        known = self._queries.get(text)
        if known is None:
            assert self._embedder is not None
            known = _unit(self._embedder.query(text), 1)[0]
            if self._rows is not None and known.shape != self._rows.shape[1:]:
                raise UsageError(
                    f"the embedder gave {known.shape[0]} numbers for {text!r} and {self._rows.shape[1]} for products"
                )
            self._queries[text] = known
            while len(self._queries) > QUERIES_KEPT:
                self._queries.popitem(last=False)
        return known

    def _picture(self, number: int, text: str) -> str:
        images = self.products[number].images
        keys = [image.key for image in images]
        if len(keys) < 2:
            return keys[0] if keys else ""
        if self._scorer is not None:
            scores = list(self._scorer.scores(text, keys))
            if len(scores) != len(keys):
                raise UsageError(
                    f"the scorer gave {len(scores)} numbers for {len(keys)} pictures; it must give one each"
                )
            return max(zip(keys, scores, strict=True), key=lambda entry: entry[1])[0]
        if self._rows is None:
            shares = WordIndex([image.alt for image in images]).shares(text)
            return keys[shares.index(max(shares))]
        cosines = self._rows @ self._query(text)
        of_picture = {
            e.picture: c for e, c in zip(self._texts, cosines, strict=True) if e.product == number and e.picture
        }
        return max(keys, key=lambda key: of_picture.get(key, -1.0))


def _texts(number: int, product: Product) -> list[_Text]:
    """What a product is compared by: its names, what is said of it, what its pictures show; each under its title."""
    texts = [_Text(number, "", ". ".join((product.title, *product.aliases)))]
    if product.description:
        texts.append(_Text(number, "", f"{product.title}. {product.description}"))
    if product.facts:
        facts = "; ".join(f"{name}: {value}" for name, value in product.facts)
        texts.append(_Text(number, "", f"{product.title}. {facts}"))
    shown = (image for image in product.images if image.alt and image.alt != product.title)
    return texts + [_Text(number, image.key, f"{product.title}. {image.alt}") for image in shown]


def _everything(product: Product) -> list[str]:
    alts = [image.alt for image in product.images]
    facts = [word for fact in product.facts for word in fact]
    return [product.id, product.title, *product.aliases, product.brand, product.description, *facts, *alts]


def _unit(vectors: Any, count: int) -> Any:
    import numpy as np

    try:
        rows = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the embedder gave no vectors of one length for {count} texts: {error}") from error
    rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
    if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
        raise UsageError(f"the embedder gave an array of shape {rows.shape} for {count} texts; give [texts, n], finite")
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)
