"""The English of the sentence planner: greetings, families, phrases and lists of words. Pure data."""

from __future__ import annotations

import re

from multimodal.pipes.planner_base import Family, words_of

__all__ = [
    "ARTICLED",
    "ASIDES",
    "CLOSINGS",
    "COUNT",
    "CUT",
    "FAMILIES",
    "FINITE",
    "FIT",
    "FORMS",
    "GREETINGS",
    "MEASURE",
    "MEASURED",
    "NAME_VERBS",
    "NO",
    "NOUNS",
    "NOUN_BEGINS",
    "NO_DYES",
    "ORDERS",
    "PRICES",
    "PRICES_FROM",
    "RELATIVE",
    "SAME_AS",
    "SIDES",
    "SINGULARS",
    "VALUE_VERBS",
    "VERBS",
]

GREETINGS = (
    "Welcome{to_shop}. Come in, and let me show you around.",
    "Hello, and welcome{to_shop}. We have put a few things out for you.",
    "Come in, come in. Welcome{to_shop}; let us take a walk past the shelves.",
    "Good to see you. Welcome{to_shop}. Here is what we would like to show you.",
    "Welcome{to_shop}. There is no hurry; let us look at things in turn.",
    "Hello there, and welcome{to_shop}. Shall we have a look around?",
)
CLOSINGS = (
    "And that is the whole round. Stay as long as you like.",
    "That was our little walk. Go back to anything that caught your eye.",
    "That is everything for now. Thank you for coming along.",
    "So much for the tour. Take your time, and look at anything again.",
    "And there we are. It was good to have you with us.",
    "That brings us back to the door. Come again soon.",
)

FAMILIES = (
    Family("Let us begin with {the}.", "first"),
    Family("We start with {the}.", "first"),
    Family("Let me begin with {the}: {desc}.", "first"),
    Family("We begin with {the}, {desc}.", "first"),
    Family("To begin with, {the}.", "first"),
    Family("Let us start with something in {material}: {the}.", "first"),
    Family("Next {comes} {the}."),
    Family("Now for {the}."),
    Family("That brings us to {the}."),
    Family("Then there {is} {the}."),
    Family("On to {the}."),
    Family("And here {is} {the}."),
    Family("May I show you {the}?"),
    Family("Do take a look at {the}."),
    Family("Have you met {the}?"),
    Family("Let me show you {the}, too."),
    Family("Moving along, we come to {the}."),
    Family("Let us turn to {the}."),
    Family("Have a look at this: {the}."),
    Family("Next, {the}: {desc}."),
    Family("{The} {is} {desc}."),
    Family("Meet {the}, {desc}."),
    Family("{This} {is} {the}, {desc}."),
    Family("Now {the}, {desc}."),
    Family("And {the}? {Desc}"),
    Family("Then {the}: {desc}."),
    Family("Here {is} {the}, {desc}."),
    Family("If you like {material}, here {is} {the}."),
    Family("Now something in {material}: {the}."),
    Family("Now something in {colour}: {the}."),
    Family("In {colour}, there {is} {the}."),
    Family("For {price}, there {is} {the}."),
    Family("From {brand}, {the}."),
    Family("Once more in {same_material}: {the}."),
    Family("Also in {same_colour}: {the}."),
    Family("For less than that, there {is} {the}."),
    Family("A step up in price: {the}."),
    Family("Last, {the}.", "last"),
    Family("Before you go, {the}.", "last"),
    Family("We end with {the}.", "last"),
    Family("To finish, {the}: {desc}.", "last"),
    Family("And to round things off, {the}.", "last"),
)
"""What opens a passage and names its product; `{desc}` is the catalogue's own first sentence, where it is a noun's."""

PRICES = (
    "{it} {costs} {v}",
    "the price is {v}",
    "we ask {v} for {them}",
    "you can take {them} home for {v}",
    "{it} {is} yours for {v}",
    "{it} {sells} for {v}",
    "on the label: {v}",
    "{v}, and {it} {is} yours",
    "all that for {v}",
    "the price? {v}",
    "{it} {is} {v}",
    "and what {does} {it} cost? {v}",
)
PRICES_FROM = ("prices start at {v}", "{it} {starts} at {v}", "you can have {them} from {v}")

# Of the facts that have words of their own: verb phrases, said with "it" or "they" before them.
VERBS: dict[str, tuple[str, ...]] = {
    "material": ("{is} made of {v}", "{is} made from {v}"),
    "colour": ("{comes} in {v}",),
    "capacity": ("{holds} {v}", "{has} room for {v}"),
    "weight": ("{weighs} {v}",),
    "height": ("{stands} {v} high", "{is} {v} tall"),
    "width": ("{is} {v} wide",),
    "length": ("{is} {v} long",),
    "depth": ("{is} {v} deep",),
    "thickness": ("{is} {v} thick",),
    "diameter": ("{measures} {v} across",),
    "brand": ("{comes} from {v}", "{is} by {v}"),
    "origin": ("{comes} from {v}",),
    "availability": ("{is} {v}",),
    "size": ("{comes} in {v}",),
}
MEASURED = words_of("capacity weight height width length depth thickness diameter")
"""Said with a verb only where the value is a number and its unit."""
SIDES = {"width": "wide", "length": "long", "depth": "deep", "thickness": "thick", "height": "high"}
SAME_AS = {
    "materials": "material",
    "fabric": "material",
    "composition": "material",
    "made of": "material",
    "made from": "material",
    "color": "colour",
    "colours": "colour",
    "colors": "colour",
    "volume": "capacity",
    "holds up to": "capacity",
    "item weight": "weight",
    "net weight": "weight",
    "country of origin": "origin",
    "made in": "origin",
    "sizes": "size",
}
NAME_VERBS = {
    "holds": "hold",
    "carries": "carry",
    "fits": "fit",
    "seats": "seat",
    "supports": "support",
    "takes": "take",
    "covers": "cover",
    "lasts": "last",
    "contains": "contain",
    "needs": "need",
    "weighs": "weigh",
    "measures": "measure",
    "includes": "include",
    "serves": "serve",
    "stores": "store",
    "works with": "work with",
    "runs on": "run on",
    "comes with": "come with",
}
VALUE_VERBS = words_of(
    "lifts folds opens turns comes holds fits slides screws swivels tilts detaches rotates locks stacks hangs closes "
    "runs charges works"
)
ORDERS = words_of(
    "wipe wash clean hand machine oil dry do avoid rinse polish dust keep store iron handle use dishwash brush"
)
ASIDES = words_of("on in at included not with for")
FIT = re.compile(r"(?:safe|proof|washable|resistant|friendly|free)\b", re.IGNORECASE)
MEASURE = re.compile(r"\d[\d.,]*\s?[^\W\d]+(?: each)?|\d[\d.,]* [^\W\d]+ [^\W\d]+")
COUNT = re.compile(r"\d+|[a-z]+")
NO_DYES = words_of("clear transparent natural multicolour multicolor")
NO = frozenset(["none", "no", "without", "n/a"])
NOUNS = words_of(
    "backpack bag basket bench blanket board boots bottle bowl box bracelet brush cabinet camera candle candlestick "
    "carafe carpet case chair clock coat cup curtain cushion desk dress earrings fan frame glass gloves grinder hat "
    "headphones jacket jar jeans jug kettle keyboard knife ladle lamp lantern mill mirror mug napkin necklace notebook "
    "oven pan pen pillow planter plate pot pouf puzzle rack ring rug scarf shelf shirt shoes skillet sneakers sofa "
    "speaker spoon stand stool suitcase table tablecloth teapot tent toaster towel tray trousers tumbler umbrella vase "
    "wallet watch bookends bookend can"
)
"""Nouns by which a product may be called after its title was said."""
SINGULARS = re.compile(r"(?:ss|us|is|os|as|[’']s|series|lens|news|chess)$", re.IGNORECASE)
CUT = re.compile(r"\s[-–—|]\s|[,(:/]|\s(?:with|for|in|of|by|from|and|&|\+)\s")
ARTICLED = re.compile(r"(?:the|an?|my|our|your|this|that)\b", re.IGNORECASE)
FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|makes?|keeps?|goes|go|will|can|does|do|brings?|gives?|comes?|rises?|takes?|looks?|"
    r"feels?|never|always|you|we|your|our)\b",
    re.IGNORECASE,
)
RELATIVE = re.compile(r",|\b(?:that|which|who|whose|where|with|so|for)\b", re.IGNORECASE)
NOUN_BEGINS = re.compile(r"(?:An?|Two|Three|Four|Five|Six) [a-z]")

FORMS = {
    "is": ("is", "are"),
    "has": ("has", "have"),
    "comes": ("comes", "come"),
    "holds": ("holds", "hold"),
    "weighs": ("weighs", "weigh"),
    "stands": ("stands", "stand"),
    "measures": ("measures", "measure"),
    "costs": ("costs", "cost"),
    "does": ("does", "do"),
    "sells": ("sells", "sell"),
    "starts": ("starts", "start"),
    "it": ("it", "they"),
    "them": ("it", "them"),
    "This": ("This", "These"),
}
