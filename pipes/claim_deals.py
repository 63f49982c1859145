"""What a sentence says of a price without its number, and of a product's stock. Pure.

M5  A deal is a price ("half off", "free shipping", "买一送一"), and so is a sum that is not said exactly: "dozens of
    euros", "几十欧元". So is a guarantee for life a number.
M6  Whether a product can be had is said in many ways, of which there are few kinds: "sold out" is "out of stock". What
    is denied or feared is no claim: "it is never sold out", "before it is sold out".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from multimodal.pipes.claim_base import Claim, before
from multimodal.pipes.claim_words import MONEY_OF, STOCK

__all__ = ["deals", "stock"]

_MONEY = "|".join(
    sorted((re.escape(word) for word in MONEY_OF if len(word) > 2 and word.isascii()), key=len, reverse=True)
)
_HAN_MONEY = "|".join(sorted((word for word in MONEY_OF if not word.isascii()), key=len, reverse=True))
_DEALS = re.compile(
    r"\bhalf[\s-]price\b|\bfree (?:of charge|shipping|delivery)\b|\bon sale\b|\btwo for one\b"
    r"|\bbuy one\b[^.;!?]{0,40}?\bget one\b|\b(?:is|are|comes?|yours|it['’]s|for)\s+(?:(?:all|quite|absolutely)\s+)?"
    r"free(?=\s*(?:[.,;!?…]|$|(?:today|now|tonight)\b))|\bat no cost\b|\bgratis\b|\bfree gift\b"
    r"|\b(?:half|a (?:half|third|quarter|fifth)|two thirds)[\s-](?:off(?!\s+the\s+(?!price))|the price|of the price)\b"
    rf"|\b(?:dozens|scores|tens|hundreds|thousands|millions)\s+of\s+(?:{_MONEY})\b"
    rf"|\b(?:a\s+few|several|a\s+couple\s+of|a\s+handful\s+of)\s+(?:(?:hundred|thousand)\s+)?(?:{_MONEY})\b"
    r"|半价|免费|包邮|特价|买一[送赠]一|清仓"
    rf"|[几数上][十百千万]+[多余来]?(?:{_HAN_MONEY})|几(?:{_HAN_MONEY})",
    re.IGNORECASE,
)
_STOCK_WORDS = "|".join(f"(?P<{kind}>{words})" for kind, words in STOCK.items())
_STOCK = re.compile(rf"(?<![A-Za-zÀ-ÖØ-öø-ɏ])(?:{_STOCK_WORDS})(?![A-Za-zÀ-ÖØ-öø-ɏ])", re.IGNORECASE)
_UNSAID = re.compile(
    r"(?:\b(?:not|never|no longer|rarely|seldom|hardly|before it|if it|when it|until it|once it|nor)|n['’]t)"
    r"(?:['’]s|\s+(?:is|are|was|be|gets|goes|ever|yet|been))*\s+$",
    re.IGNORECASE,
)


_FOR_LIFE = re.compile(
    r"\b(?P<latin>lifetime|life-long|lifelong|unlimited)[\s-]+(?:warranty|guarantee)"
    r"|\b(?:warranty|guaranteed?|warranted)\s+for\s+(?P<life>life)\b|(?P<han>终身|终生|永久)(?:质保|保修|保用|保证|维修)",
    re.IGNORECASE,
)


def deals(sentence: str) -> Iterator[Claim]:
    """Prices and guarantees without a number (M5)."""
    for match in _DEALS.finditer(sentence):
        yield Claim("price", match[0], *match.span(), word=" ".join(match[0].casefold().split()))
    for match in _FOR_LIFE.finditer(sentence):
        said = match["han"] or match["latin"] or "lifetime"
        yield Claim("number", match[0], *match.span(), word=said.casefold())


def stock(sentence: str) -> Iterator[Claim]:
    """What is said of the stock (M6); the word is its kind."""
    for match in _STOCK.finditer(sentence):
        if not _UNSAID.search(before(sentence, match.start())):
            yield Claim("stock", match[0], *match.span(), word=f"stock {match.lastgroup}")
