"""What a sentence claims of a product: prices, numbers with their units, materials, colours, names, stock. Pure.

Numbers are those of `claim_numbers` (N1 to N5), materials and colours of `claim_things` (M1, M2, M4), names of
`claim_names` (M3), prices without a number and stock of `claim_deals` (M5, M6); how each is meant says `claim_context`
(C1 to C5).
"""

from __future__ import annotations

from collections.abc import Iterator

from multimodal.pipes.claim_base import Claim, ClaimKind, Spans, folded
from multimodal.pipes.claim_context import in_context
from multimodal.pipes.claim_deals import deals, stock
from multimodal.pipes.claim_names import KnownNames, names
from multimodal.pipes.claim_numbers import amounts, is_price, unit_of
from multimodal.pipes.claim_things import things

__all__ = ["Claim", "KnownNames", "claims", "folded", "unit_of"]


def claims(sentence: str, known: KnownNames | None = None) -> list[Claim]:
    """The claims of a sentence, in their order. It takes time in proportion to the sentence.

    Args:
        sentence: as it was said.
        known: names of the catalogue: each is a claim where it is said.
    """
    bargains = list(deals(sentence))
    found = [*bargains, *_numbers(sentence, Spans((claim.start, claim.end) for claim in bargains))]
    found += [*stock(sentence), *things(sentence), *names(sentence, known)]
    return sorted((in_context(claim, sentence) for claim in found), key=lambda claim: (claim.start, claim.end))


def _numbers(sentence: str, told: Spans) -> Iterator[Claim]:
    for each in amounts(sentence):
        if told.touch(each.start, each.end):
            continue  # the hundred of "a few hundred euros"
        kind: ClaimKind = "price" if each.priced or is_price(each.unit) else "number"
        said = sentence[each.start : each.end]
        yield Claim(
            kind, said, each.start, each.end, each.value, each.unit, exact=each.exact, counts=folded(each.counts)
        )
