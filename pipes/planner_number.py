"""Whether a product's English title names one thing or several, so that "it costs" or "they cost" is right. Pure.

P1. A title names several things where its last word is a plural of goods ("Quarry Bookends"), or the sheet says so: the
    title counts them ("Two Candles"), or the description speaks of them as several ("These ...").
P2. The last word is that of the name itself: what comes behind a comma, a dash, "with", "of" ... describes it.
P3. Anything else is one thing, whatever its last letter: "Ulysses", "Les Miserables", "Chess", "Glass", "Atlas".
P4. A work (a book, a film, a game) is one thing, whatever its title says: its sheet names an author, pages, players ...
"""

from __future__ import annotations

import re

from multimodal.pipes.facts import FactSheet
from multimodal.pipes.planner_base import words_of
from multimodal.pipes.planner_en_words import CUT, NOUNS

__all__ = ["head_of", "names_several"]

_PLURALS = words_of(
    """
    scissors shears pliers tongs tweezers clippers binoculars glasses sunglasses goggles spectacles jeans trousers
    pants shorts leggings tights joggers chinos dungarees overalls pyjamas pajamas briefs boxers trunks knickers
    clothes headphones earphones scales bellows suspenders culottes sweatpants boots shoes sneakers trainers sandals
    slippers heels loafers clogs flats pumps mules moccasins espadrilles wellingtons socks stockings gloves mittens
    earrings studs hoops cufflinks earbuds earplugs bookends candlesticks coasters napkins placemats chopsticks
    skewers tiles beads buttons needles pins pegs clips hooks hangers hinges knobs handles castors legs screws nails
    bolts washers batteries bulbs tealights matches crayons pencils pens markers brushes paints cards postcards
    envelopes stickers stamps dice marbles blocks bricks balloons ornaments baubles garlands lights speakers weights
    dumbbells skis skates rollerblades poles paddles flippers fins wheels tyres tires cables curtains drapes blinds
    shutters sheets pillows pillowcases cushions covers towels blankets wipes tissues diapers nappies bibs dummies
    bottles jars lids cups mugs tumblers goblets flutes bowls plates dishes saucers pots pans spoons forks knives
    ladles spatulas boards trays baskets boxes bins bags sacks crates shelves racks stands chairs stools benches
    tables sofas beds lamps lanterns candles frames prints posters mirrors rugs mats vases planters shirts t-shirts
    tees tops sweaters jumpers hoodies jackets coats dresses skirts hats caps beanies scarves belts ties bracelets
    necklaces rings bangles charms watches wallets rucksacks backpacks umbrellas toys dolls puzzles robots
    succulents plants flowers roses tulips herbs seeds cookies biscuits crackers crisps chips pretzels nuts almonds
    cashews peanuts pistachios walnuts hazelnuts raisins dates figs olives capers beans lentils chickpeas peas
    noodles oats flakes apples pears oranges lemons grapes cherries berries strawberries blueberries raspberries
    tomatoes potatoes carrots mushrooms pickles eggs sausages chocolates pralines truffles sweets candies gummies
    caramels mints macarons capsules pods tablets pills vitamins teabags
    """
)
"""Nouns that are never one, that go in pairs and sets, or that are sold by the packet."""
_SEVERAL = r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d\d?"
_COUNTED = re.compile(rf"(?:{_SEVERAL})\s.*[^s\W]s$", re.IGNORECASE)
_SPOKEN_OF = re.compile(rf"(?:these|they|(?:{_SEVERAL})\s|(?:an?\s)?pairs?\s+of)\b", re.IGNORECASE)
_WORKS = words_of(
    "author authors writer pages isbn publisher translator narrator director directors cast artist composer conductor "
    "players runtime platform"
)


def head_of(title: str) -> str:
    """The name itself, without what describes it behind a comma, a dash or a preposition (P2)."""
    return CUT.split(title, maxsplit=1)[0].strip() or title


def names_several(sheet: FactSheet) -> bool:
    """Whether a product is spoken of as "they" (P1-P4)."""
    if any(fact.name.casefold() in _WORKS for fact in sheet.facts):
        return False
    head = head_of(sheet.title)
    last = head.split()[-1].casefold() if head.split() else ""
    if last in _PLURALS or (last.endswith("s") and last.removesuffix("s") in NOUNS) or _COUNTED.fullmatch(head):
        return True
    return last.endswith("s") and _SPOKEN_OF.match(sheet.description) is not None
