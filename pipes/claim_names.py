"""Names that a sentence claims of a product: its maker, where it comes from, its code. Pure.

M3  A name is a brand, a model or a place that some sheet of the catalogue has; who makes a thing ("made by ...", "by
    ..."), where it comes from ("handmade in ...", "Danish", "丹麦设计"), a code ("E27"), and what it is said to be with
    a capital letter: "it is a ...". The last is one only where the sheet has a maker: any noun may have a capital.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from multimodal.pipes.claim_base import Claim, Spans, folded
from multimodal.pipes.claim_words import COLOURS, COUNTRIES, HAN_COUNTRIES, MATERIALS
from multimodal.sync.folding import folded as spelled
from multimodal.sync.matcher import Matcher, ProductNames
from multimodal.values import Product

__all__ = ["KnownNames", "names"]


class KnownNames:
    """The brands, models and places of a catalogue, made ready once: a sentence costs the same with any number of them.

    Args:
        names: as the sheets have them; any number of times each.
    """

    def __init__(self, names: Iterable[str]) -> None:
        # The matcher's names are those of products; a name of these has itself for an id.
        once = {spelled(name): name for name in names}
        self._names = ProductNames(Product(name, name) for form, name in once.items() if form)
        self.known = bool(once)

    def find(self, sentence: str) -> Iterator[Claim]:
        """Where they are said."""
        if self.known:
            matcher = Matcher(self._names)
            for found in (*matcher.feed(sentence), *matcher.finish()):
                said = sentence[found.start : found.end]
                yield Claim("name", said, found.start, found.end, word=found.product.casefold())


_WORKS = (
    "made|designed|built|crafted|produced|manufactured|forged|woven|knitted|thrown|blown|signed|created|assembled|fired|"
    "stitched|sewn|tailored|printed|bottled|finished|glazed|carved|spun|tanned|dyed|engineered|quarried"
)
_PROPER = r"(?P<name>[A-ZÀ-Þ][\w'’&.-]*[\w](?:\s+(?:&\s+|of\s+|and\s+)?[A-ZÀ-Þ][\w'’&-]+)*)"
_MAKERS = re.compile(
    rf"\b(?:(?i:(?:(?:hand|home|custom)[\s-]?)?(?:{_WORKS}))\s+(?:[a-z]+\s+){{0,2}}?(?:by|for|in|at)"
    r"|(?i:brand|maker|label|manufacturer|designer)(?:\s+(?:is|called|named))?[:,]?"
    r"|(?i:imported|comes?|shipped|straight)\s+from|(?i:a)\s+genuine|(?i:by))\s+(?:the\s+)?" + _PROPER
)
_IS_A = re.compile(
    r"(?:^\s*A|\b(?:[Ii]t|[Tt]his|[Tt]hat)(?:\s+is|['’]s)\s+a)n?\s+(?P<name>[A-ZÀ-Þ][a-zà-þ]\w+(?<!ian|ean|ish|ese)"
    r"(?:\s+[A-ZÀ-Þ]\w+)*)(?=\s*(?:[.,;:!?…]|$|(?:and|with|in|if|through)\b))"
)
_DEMONYM = re.compile(
    rf"\b(?:is|are|of)\s+(?P<name>{'|'.join(word.title() for word in sorted(COUNTRIES))})"
    r"(?=\s*(?:[.,;:!?…]|$|(?:and|design|make|origin|made)\b))"
)
_NO_MAKER = re.compile(
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|May|June|July|August|September|October"
    r"|November|December|Christmas|Easter|I$|I['’]|(?:Jove|God|Golly|Heaven)\b|(?:Spring|Summer|Autumn|Winter)$"
)
_HAN_MAKERS = re.compile(
    r"(?:由|出自|来自)(?P<by>[\u4e00-\u9fffA-Za-z]{2,8}?)(?:出品|制造|生产|设计|打造)"
    r"|品牌(?:是|为|：|:)\s*(?P<brand>[\u4e00-\u9fffA-Za-z]{2,8})|(?:产自|产于|原产于?)(?P<place>[\u4e00-\u9fff]{2,4})"
    rf"|(?P<land>{'|'.join(sorted(HAN_COUNTRIES))})(?:的?(?:设计|制造|生产|原产|进口|手工)|产(?!品))"
)
_CODE = re.compile(r"(?<![\w-])[A-Z]{1,4}-?\d{1,5}[A-Z]?(?![\w-])")


def names(sentence: str, known: KnownNames | None = None) -> list[Claim]:
    """The names that a sentence claims (M3).

    Args:
        sentence: as it was said.
        known: of the catalogue.
    """
    found = list(known.find(sentence)) if known is not None else []
    for pattern in (_MAKERS, _HAN_MAKERS, _IS_A, _DEMONYM, _CODE):
        taken = Spans((claim.start, claim.end) for claim in found)
        for match in pattern.finditer(sentence):
            group = match.lastgroup or 0
            (start, end), said = match.span(group), match[group]
            word = folded(said)
            thing = (word in MATERIALS or word in COLOURS) and said != "China"
            if thing or _NO_MAKER.match(said) or taken.touch(start, end):
                continue
            counts = "maker" if pattern is _IS_A else ""
            found.append(Claim("name", said, start, end, word=COUNTRIES.get(word, word), counts=counts))
    return found
