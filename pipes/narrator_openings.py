"""The local narrator's forms: what opens a passage, names a price and ends a passage, each under a word. Pure data.

The model was trained to say a form when its word is in the prompt; a form that is added, taken away or reworded here
needs `make narrator`. Slots are the product's title with its article (`the`, `The`), verbs and pronouns in its number
(`is`, `it`, ...) and `v`, the fact that an opening says itself.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["CLOSINGS", "FROM_FORMS", "GREETINGS", "OPENINGS", "PRICE_FORMS", "TAILS", "Need", "Opening"]

Need = Literal["", "verb", "material", "colour", "price", "brand", "same material", "same colour", "less", "more"]
Place = Literal["first", "last", ""]


class Opening(msgspec.Struct, frozen=True):
    """One way to open a passage and name its product.

    Args:
        name: the word that asks for it.
        text: what is said, with slots. Where `needs` is ``verb`` the first sentence goes on with facts.
        place: where in a tour it fits; "" = between the first product and the last.
        needs: what the sheet must hold, and what is said in the opening: a fact of that name; a fact shared with the
            product before; a price lower or higher than that one's.
    """

    name: str
    text: str
    place: Place = ""
    needs: Need = ""


_PLAIN = {
    "next": "Next {comes} {the}.",
    "now": "Now for {the}.",
    "brings": "That brings us to {the}.",
    "then": "Then there {is} {the}.",
    "onward": "On we go to {the}.",
    "here": "And here {is} {the}.",
    "may": "May I show you {the}?",
    "look": "Do take a look at {the}.",
    "met": "Have you met {the}?",
    "as well": "Let me show you {the} as well.",
    "along": "Moving along, we come to {the}.",
    "turn": "Let us turn to {the}.",
    "this": "Have a look at {this}: {the}.",
    "step": "One step further, and we are at {the}.",
    "beside": "And right beside that, {the}.",
    "corner": "Around the corner, {the}.",
    "eye": "Let your eye wander over to {the}.",
    "follow": "Follow me to {the}.",
    "over": "Come over to {the}.",
    "stop": "Our next stop: {the}.",
    "pause": "Let us pause at {the}.",
    "moment": "Give me a moment for {the}.",
    "forget": "And let us not forget {the}.",
    "past": "We should not walk past {the}.",
    "another": "Here is another thing to see: {the}.",
    "else": "Something else now: {the}.",
    "change": "For a change, {the}.",
    "pick": "Let me pick out {the} for you.",
    "wanted": "I wanted to show you {the}, too.",
    "seen": "Have you seen {the} yet?",
    "what": "And what have we here? {The}.",
    "closer": "Come a little closer: {the}.",
    "walk": "We walk on, and there {is} {the}.",
    "way": "On our way we meet {the}.",
    "more": "There is more to see: {the}.",
    "stay": "Stay with me for {the}.",
    "from there": "From there we go to {the}.",
    "line": "{The} {is} next in line.",
    "turn of": "And now it is the turn of {the}.",
    "tell": "Let me tell you about {the}.",
    "words": "A few words about {the}.",
    "minute": "Spend a minute with {the}.",
}
_FIRST = {
    "begin": "Let us begin with {the}.",
    "start": "We start with {the}.",
    "first": "First of all, {the}.",
    "round": "Our round begins at {the}.",
    "first thing": "The first thing to see {is} {the}.",
    "shall": "Shall we begin with {the}?",
}
_LAST = {
    "last": "Last, {the}.",
    "before": "Before you go, {the}.",
    "end": "We end with {the}.",
    "off": "And to round things off, {the}.",
    "one more": "One more before you leave: {the}.",
    "last stop": "And the last stop of our round: {the}.",
    "leaves": "That leaves {the}.",
}

OPENINGS: tuple[Opening, ...] = (
    *(Opening(name, text) for name, text in _PLAIN.items()),
    *(Opening(name, text, "first") for name, text in _FIRST.items()),
    *(Opening(name, text, "last") for name, text in _LAST.items()),
    Opening("arrive", "Then we arrive at {the}, which", needs="verb"),
    Opening("have", "Here you have {the}, which", needs="verb"),
    Opening("as for", "As for {the}, {it}", needs="verb"),
    Opening("go on", "To go on: {the}", needs="verb"),
    Opening("plain", "{The}", needs="verb"),
    Opening("colon", "Now {the}: {it}", needs="verb"),
    Opening("begin which", "We begin with {the}, which", "first", "verb"),
    Opening("last which", "Last of all, {the}, which", "last", "verb"),
    Opening("like", "If you like {v}, here {is} {the}.", needs="material"),
    Opening("something", "Now something in {v}: {the}.", needs="material"),
    Opening("made", "Made of {v}, {the} {comes} next.", needs="material"),
    Opening("start in", "Let us start with something in {v}: {the}.", "first", "material"),
    Opening("in", "In {v}, there {is} {the}.", needs="colour"),
    Opening("colour", "And in {v} we have {the}.", needs="colour"),
    Opening("for", "For {v}, there {is} {the}.", needs="price"),
    Opening("what for", "What can you have for {v}? {The}.", needs="price"),
    Opening("house", "From {v}, {the}.", needs="brand"),
    Opening("by", "By {v}, we have {the}.", needs="brand"),
    Opening("again", "Once more in {v}: {the}.", needs="same material"),
    Opening("common", "They have one thing in common, {v}: {the}.", needs="same material"),
    Opening("keep", "We keep to {v} with {the}.", needs="same material"),
    Opening("also", "Also in {v}: {the}.", needs="same colour"),
    Opening("same", "The colour stays the same, {v}: {the}.", needs="same colour"),
    Opening("less", "For less than that, there {is} {the}.", needs="less"),
    Opening("down", "The price comes down a step with {the}.", needs="less"),
    Opening("rather", "If you would rather spend less, here {is} {the}.", needs="less"),
    Opening("up", "A step up in price: {the}.", needs="more"),
    Opening("costs more", "{The} {costs} more than that.", needs="more"),
)
"""In no order."""

GREETINGS = {
    "in": "Welcome{to_shop}. Come in, and let me show you around.",
    "things": "Welcome{to_shop}. We have put a few things out for you.",
    "walk": "Welcome{to_shop}. Let us take a walk past the shelves together.",
    "good": "Good to see you. Welcome{to_shop}; here is what I would like to show you.",
    "hurry": "Welcome{to_shop}. There is no hurry, so let us look at things in turn.",
    "hello": "Hello there. Welcome{to_shop}, and shall we have a look around?",
}
CLOSINGS = {
    "round": "And that is the whole round. Stay as long as you like.",
    "walk": "That was our little walk. Go back to anything that caught your eye.",
    "now": "That is everything for now. Thank you for coming along.",
    "time": "So much for the tour. Take your time, and look at anything again.",
    "there": "And there we are. It was good to have you with us.",
    "door": "That brings us back to the door. Come again soon.",
}

PRICE_FORMS = {
    "costs": "{it} {costs} {v}",
    "price": "the price is {v}",
    "label": "on the label you read a price of {v}",
    "ask": "we ask {v} for {them}",
    "home": "you can take {them} home for {v}",
    "yours": "{it} {is} yours for {v}",
    "sells": "{it} {sells} for {v}",
    "comes": "that comes to {v}",
    "all": "all that for {v}",
    "asked": "and what {does} {it} cost? {v}",
}
"""The first three say that it is a price, also where the money has no name."""
FROM_FORMS = {
    "start": "prices start at {v}",
    "from": "{it} {starts} at a price of {v}",
    "begins": "the price begins at {v}",
}
TAILS = {
    "time": "Take your time with {them}.",
    "look": "Go on, have a closer look.",
    "again": "Tell me if you would like to see {them} again.",
    "leave": "I will leave {them} with you for a moment.",
    "back": "We can come back to {them} whenever you like.",
    "hurry": "There is no hurry.",
}
"""What ends a passage that has little to say, and another now and then."""
