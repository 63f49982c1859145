"""What a stream reads cues from besides those it is given: mentions, markers, meaning. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from multimodal.errors import UsageError
from multimodal.sync.matcher import ProductNames
from multimodal.sync.meaning import Embed, Meaning
from multimodal.sync.scanner import Repeat, Scanner
from multimodal.values import Product, Token

__all__ = ["Sources"]


class Sources:
    """The settings of a stream's scanners: one for each turn of the narration.

    Args:
        products: the catalogue of the stream's pictures, where `mentions` names no other.
        mentions: a product's name is a cue; True, or the catalogue to look for. Give a `ProductNames` made once where
            many streams share a large one.
        markers: ``[[show:sku]]`` is a cue, and is not seen.
        embed: words about a product are a cue; text -> vector, or a `Meaning` made once. None = off.
        repeat: what a product that is named again gets, ``first`` or ``every``.
        lead: tokens by which a picture comes before the end of its mention, with the first word of it at most.

    Raises:
        UsageError: an argument out of range, a name that means two products, or no catalogue to look for.
    """

    def __init__(
        self,
        products: Sequence[Product],
        *,
        mentions: bool | ProductNames | Iterable[Product] = False,
        markers: bool = False,
        embed: Embed | Meaning | None = None,
        repeat: Repeat = "first",
        lead: int = 0,
    ) -> None:
        if not isinstance(mentions, Iterable | ProductNames | bool) or isinstance(mentions, str | bytes):
            raise UsageError(f"mentions={mentions!r} names no products; give True, False or [Product(...), ...]")
        if not isinstance(markers, bool):
            raise UsageError(f"markers={markers!r} is no switch; give True or False")
        if embed is not None and not isinstance(embed, Meaning) and not callable(embed):
            raise UsageError(f"embed={embed!r} cannot be called; give a function from text to its vector, or a Meaning")
        if isinstance(mentions, ProductNames):
            self.names = mentions
        elif isinstance(mentions, bool):
            self.names = ProductNames(products if mentions or markers or embed else ())
        else:
            mentioned = list(mentions)
            if odd := [each for each in mentioned if not isinstance(each, Product)]:
                raise UsageError(f"mentions holds {odd[0]!r}, which is no Product; give Product objects")
            self.names = ProductNames(mentioned)
        self._mentions = mentions is not False
        self._markers, self._lead = markers, lead
        self._repeat: Repeat = repeat
        if (self._mentions or markers or embed) and not self.names.products:
            raise UsageError(
                "mentions, markers and embed need to know the products; give an image pipe that has `products`, "
                "such as CatalogImagePipe, or mentions=[Product(...), ...]"
            )
        if lead and not (self._mentions or embed):
            raise UsageError(
                f"lead={lead} brings pictures before the end of their mention, and neither mentions nor embed is on; "
                "give mentions=True, or set the anchors of explicit cues where the pictures shall come"
            )
        self._meaning: Meaning | None = None
        if isinstance(embed, Meaning):
            self._meaning = embed
        elif embed is not None:
            self._meaning = Meaning(self.names.products.values(), embed)
        if self._meaning is not None and (strange := set(self._meaning.ids) - self.names.products.keys()):
            raise UsageError(f"embed knows products that the catalogue does not: {', '.join(sorted(strange))}")
        self.scanner()  # refuses what is out of range now, not in the middle of a tour

    @property
    def active(self) -> bool:
        """Some source is on: pictures come by what the narration says, not by counting tokens."""
        return self._mentions or self._markers or self._meaning is not None

    @property
    def pictures(self) -> list[str]:
        """The keys that any narration may bring, in the order of the catalogue."""
        return [self.names.picture(product) for product in self.names.products]

    def foresee(self, text: str) -> list[str]:
        """The pictures that a text to come will bring by names and markers, in their order; by meaning none, as that
        would take the whole text through the model at once."""
        if not (text and (self._mentions or self._markers)):
            return []
        scanner = self.scanner(meaning=False)
        cues = [*scanner.feed(Token(text)).cues, *scanner.flush().cues]
        return list(dict.fromkeys(cue.key for cue in cues))

    def scanner(self, *, meaning: bool = True) -> Scanner:
        """For one narration."""
        return Scanner(
            self.names,
            mentions=self._mentions,
            markers=self._markers,
            meaning=self._meaning if meaning else None,
            repeat=self._repeat,
            lead=self._lead,
        )
