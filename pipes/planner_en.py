"""How facts are said in English: the grammar between the catalogue's words and ours. Pure."""

from __future__ import annotations

import re

from multimodal.pipes.facts import Fact, FactSheet, parts_of
from multimodal.pipes.planner_base import Clause, Links, Picker, filled, neat, stopped
from multimodal.pipes.planner_en_words import (
    ARTICLED,
    ASIDES,
    COUNT,
    CUT,
    FINITE,
    FIT,
    FORMS,
    MEASURE,
    MEASURED,
    NAME_VERBS,
    NO,
    NO_DYES,
    NOUN_BEGINS,
    NOUNS,
    ORDERS,
    PRICES,
    PRICES_FROM,
    RELATIVE,
    SAME_AS,
    SIDES,
    SINGULARS,
    VALUE_VERBS,
    VERBS,
)
from multimodal.pipes.planner_number import head_of, names_several

__all__ = ["English"]


class English:
    """What one product's passage is made of.

    Args:
        sheet: the product's facts.
        picker: chooses among ways to say a thing.
    """

    price_names = frozenset({"price", "price from"})
    stock_name = "availability"
    brand_name = "brand"
    stop = "."

    def __init__(self, sheet: FactSheet, picker: Picker) -> None:
        self._picker = picker
        title = sheet.title
        last = (head_of(title).split() or [""])[-1].casefold()
        plain = len(title.split()) <= 5 and CUT.search(title) is None and title.isascii() and title[:1].isalnum()
        self.the = f"the {title}" if plain and not ARTICLED.match(title) else title
        self._number = int(names_several(sheet))
        # By which it may be called after its title was said; "" = by a pronoun only.
        self.noun = last if last in NOUNS and plain and len(title.split()) > 1 else ""
        self.words = {key: forms[self._number] for key, forms in FORMS.items()}
        self.words |= {"the": self.the, "The": neat(self.the) if self.the != title else title}

    def concept(self, fact: Fact) -> str:
        """What a fact is about, whatever the catalogue calls it."""
        name = self.called(fact.name).casefold()
        return SAME_AS.get(name, name)

    def called(self, name: str) -> str:
        """A fact's name as it stands within a sentence: small letters, but for abbreviations."""
        words = re.sub(r"[_-]+", " ", name.rpartition(":")[2] or name).split()
        return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words)

    def values(self, fact: Fact, values: tuple[str, ...]) -> str:
        """One value, or several as a list."""
        if len(values) == 1:
            parts = parts_of(values[0])
            if fact.kind in ("material", "colour") and len(parts) > 1 and ", ".join(parts) == values[0]:
                if fact.kind == "material" or all(len(part.split()) == 1 for part in parts):
                    values = parts
            else:
                return values[0]
        return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} and {values[-1]}"

    def noun_phrase(self, sentence: str, title: str) -> str:
        """A catalogue's sentence that only names the product more closely, to stand within ours; "" = it is none."""
        if not NOUN_BEGINS.match(sentence) or not sentence.endswith(".") or sentence.count(".") > 1:
            return ""
        bare = RELATIVE.split(sentence, maxsplit=1)[0]
        last = title.split()[-1].casefold()
        if FINITE.search(bare) or last not in bare.casefold():
            return ""
        return sentence[0].lower() + sentence[1:-1]

    def introduced(self, sentence: str, noun: str) -> str:
        """The first sentence of a description as a sentence of its own; `noun` = `noun_phrase` of it."""
        if not noun or self._picker.pick("introduced", (True, False)):
            return sentence
        return stopped(f"{neat(self.words['it'])} {self.words['is']} {noun}")

    def links(self, before: FactSheet | None, sheet: FactSheet) -> Links:
        """What this product has in common with the one before, for transitions: nothing but what both sheets say."""
        if before is None:
            return {}
        links: Links = {}
        for kind in ("material", "colour"):
            here = [fact for fact in sheet.facts if fact.name.casefold() in (kind, "color", "materials")]
            here = [fact for fact in here if fact.kind == kind]
            there = {fact.value for fact in before.facts if fact.kind == kind}
            if len(here) == 1 and here[0].value in there and "," not in here[0].value:
                links[f"same_{kind}"] = (here[0].value, here[0])
        return links

    def clause(self, fact: Fact, values: tuple[str, ...]) -> Clause:
        """One fact as a part of a sentence."""
        concept, said = self.concept(fact), self.values(fact, values)
        name = self.called(fact.name)
        comma = "," in said and (fact.kind != "material" or "," in said.rpartition(" and ")[0].replace(", ", "", 9))
        if concept in SIDES and len(values) == 1 and MEASURE.fullmatch(said) and "each" not in said:
            side = f"{said} {SIDES[concept]}"
            return Clause("side", side, fact)
        if concept == "colour" and (comma or (len(values) == 1 and fact.kind != "colour")):
            form = self._picker.pick("colour alone", ("the colour: ", "as for the colour: "))
            return Clause("alone", f"{form}{said}", fact)
        if concept == "colour" and (said.casefold() in NO_DYES or self._picker.pick("colour", (True, False))):
            return Clause("own", f"the colour is {said}", fact)
        if concept in VERBS and (concept not in MEASURED or (len(values) == 1 and MEASURE.match(said))):
            if concept == "weight" and not MEASURE.fullmatch(said):
                return Clause("own", f"the weight is {said}", fact)
            if concept == "size" and len(values) == 1:
                return Clause("own", f"the size is {said}", fact)
            verb = self._picker.pick(f"verb {concept}", VERBS[concept])
            if comma and fact.kind != "material":
                return Clause("alone", self.fill(f"{{it}} {verb}", said), fact)
            return Clause("verb", self.fill(verb, said), fact)
        if name in NAME_VERBS:
            verb = name if not self._number else NAME_VERBS[name]
            return Clause("verb", f"{verb} {said}", fact)
        return self._other(fact, name, values, said)

    def _other(self, fact: Fact, name: str, values: tuple[str, ...], said: str) -> Clause:
        first = said.split()[0].casefold() if said.split() else ""
        if len(values) > 1:
            choice = f"{', '.join(values[:-1])} or {values[-1]}"
            form = self._picker.pick("choice", ("for the {name}, choose {v}", "the {name}: {v}"))
            return Clause("alone", form.format(name=name, v=choice), fact)
        comma = "," in said
        plural = name.endswith("s") and not SINGULARS.search(name)
        own = "the" if not ARTICLED.match(name) else ""
        subject = f"{own} {name}".strip()
        if name in ("care", "cleaning", "care instructions"):
            if FIT.search(said) and not comma:
                return Clause("verb", self.fill("{is} {v}", said), fact)
            if first in ORDERS:
                joint = "," if not comma else ":"
                return Clause("alone", self.fill(f"to look after {{them}}{joint} {{v}}", said), fact)
            return Clause("alone", f"care: {said}", fact)
        if name in ("set", "in the box", "includes", "contents"):
            return Clause("alone", f"in the {'set' if name == 'set' else 'box'}: {said}", fact)
        if name in ("power", "batteries", "battery", "power supply") and "batter" in said.casefold() and not comma:
            return Clause("verb", f"{'runs' if not self._number else 'run'} on {said}", fact)
        if plural and fact.kind == "number" and COUNT.fullmatch(said) and said not in ("1", "one"):
            return Clause("verb", f"{self.words['has']} {said} {name}", fact)
        if first in VALUE_VERBS and not plural and not comma:
            return Clause("own", f"{subject} {said}", fact)
        simple = len(said.split()) <= 6 and (said[:1].islower() or said[:1].isdigit()) and len(name.split()) <= 3
        simple = simple and first not in NO and said.casefold() not in ("yes", "true", "false")
        if (simple and not comma) or (_with_aside(said) and said.count(",") == 1 and not plural):
            return Clause("own", f"{subject} {'are' if plural else 'is'} {said}", fact)
        form = self._picker.pick("colon", ("as for {subject}: {v}", "{subject}: {v}"))
        return Clause("alone", form.format(subject=subject, v=said), fact)

    def price(self, fact: Fact) -> str:
        """A sentence of the price."""
        forms: tuple[str, ...] = PRICES_FROM if fact.name == "price from" else PRICES
        if " " not in fact.value:  # no money's name: the sentence must say that it is a price
            forms = tuple(form for form in forms if "price" in form or "costs" in form or "label" in form)
        return self.fill(self._picker.pick("price", forms), fact.value)

    def price_verb(self, fact: Fact) -> str:
        """The same as a verb phrase."""
        return self.fill("{costs} {v}" if fact.name == "price" else "{starts} at {v}", fact.value)

    def sentences(self, clauses: list[Clause]) -> list[str]:
        """Clauses as whole sentences: what goes with one subject is joined, what needs a sentence of its own has it."""
        sides = [clause.text for clause in clauses if clause.form == "side"]
        verbs = [clause.text for clause in clauses if clause.form == "verb"]
        if sides:
            first = int(bool(verbs) and not verbs[0].startswith(self.words["costs"]))
            verbs.insert(first, f"{self.words['is']} {_listed(sides)}")
        out: list[str] = []
        made, costs = self.fill("{is} made ", ""), self.words["costs"]
        while verbs:
            take = len(verbs) if len(verbs) <= 2 else self._picker.pick("join", (1, 2, 3))
            # "is made of this, is that" limps: what has the same verb begins another sentence.
            same = (index for index in range(1, take) if verbs[index].split()[0] == verbs[0].split()[0])
            take = next(same, take)
            taken, verbs = verbs[:take], verbs[take:]
            if any("," in text or " and " in text for text in taken[:-1]) and len(taken) > 1:
                taken, verbs = taken[:1], [*taken[1:], *verbs]
            if (
                taken[0].startswith(made)
                and verbs
                and len(taken) == 1
                and "," not in verbs[0]
                and costs not in verbs[0]
            ):
                out.append(f"{neat(taken[0][len(self.words['is']) + 1 :])}, {self.words['it']} {verbs.pop(0)}")
                continue
            out.append(self._begun(bool(out), _listed(taken)))
        own = [clause.text for clause in clauses if clause.form == "own"]
        if out and own and "," not in out[-1] and " and " not in out[-1] and self._picker.chance(0.5):
            out[-1] = f"{out[-1]}, and {own.pop(0)}"
        while own:
            if len(own) > 1 and self._picker.pick("own", (True, False)):
                out.append(f"{neat(own.pop(0))}, and {own.pop(0)}")
            else:
                out.append(neat(own.pop(0)))
        out += [neat(clause.text) for clause in clauses if clause.form == "alone"]
        return [stopped(sentence) for sentence in out]

    def _begun(self, again: bool, verbs: str) -> str:
        """Subject and verbs; a further sentence about the same thing says so now and then."""
        plain, noun = neat(self.words["it"]), f"The {self.noun}"
        ways = [plain, *([noun] if self.noun else [plain]), *([f"{plain} also"] if again else [plain])]
        subject = self._picker.pick(f"subject {again}", ways)
        verb, _, rest = verbs.partition(" ")
        if subject.endswith(" also"):
            if verb in (self.words["costs"], self.words["starts"]):
                subject = plain
            elif verb == self.words["is"]:
                return f"{plain} {verb} also {rest}"
        return f"{subject} {verbs}"

    def fill(self, form: str, value: str) -> str:
        """A form with this product's number and a value."""
        return filled(form, {**self.words, "v": value})


def _with_aside(said: str) -> bool:
    """A short thing, a comma, and how it comes or where it is: ``E27, not included``."""
    thing, _, aside = said.partition(", ")
    return len(thing.split()) <= 2 and len(said.split()) <= 6 and aside.split()[0] in ASIDES if aside else False


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
