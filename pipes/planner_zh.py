"""How facts are said in Chinese: families of sentences as data, and the grammar between them. Pure."""

from __future__ import annotations

import re

from multimodal.pipes.facts import Fact, FactSheet, parts_of
from multimodal.pipes.planner_base import Clause, Family, Links, Picker, stopped, words_of

__all__ = ["CLOSINGS", "FAMILIES", "GREETINGS", "Chinese", "spaced"]

GREETINGS = (
    "您好，欢迎{to_shop}。请随意，我带您慢慢看。",
    "欢迎{to_shop}。店里的几样东西，想给您介绍介绍。",
    "您来啦，欢迎{to_shop}。不着急，我们边走边看。",
    "欢迎{to_shop}。请进，咱们从门口看起。",
    "您好，欢迎{to_shop}。东西都摆好了，我来给您讲讲。",
)
CLOSINGS = (
    "今天就看到这里。喜欢哪样，随时可以回头再看。",
    "都看完了，谢谢您陪我走完这圈。",
    "要介绍的就是这些。您慢慢挑，不着急。",
    "我们又回到门口了。欢迎您常来坐坐。",
    "好了，东西都见过了。哪样合您心意，再多看看吧。",
)

FAMILIES = (
    Family("先来看{the}。", "first"),
    Family("就从{the}说起吧。", "first"),
    Family("我们从{the}开始。", "first"),
    Family("先给您看{the}：{desc}", "first"),
    Family("先看看{this}{the}。", "first"),
    Family("接下来是{the}。"),
    Family("再看{the}。"),
    Family("然后是{the}。"),
    Family("接着，轮到{the}了。"),
    Family("{this}叫{the}。"),
    Family("请看{the}。"),
    Family("再往下看，是{the}。"),
    Family("您再看看{this}{the}。"),
    Family("还有{the}。"),
    Family("给您介绍{the}。"),
    Family("来看看{the}吧。"),
    Family("那么{the}呢？"),
    Family("{the}：{desc}"),
    Family("接着看{the}，{desc}"),
    Family("{this}叫{the}，{desc}"),
    Family("再来认识{the}：{desc}"),
    Family("{this}{the}，{desc}"),
    Family("还有{the}：{desc}"),
    Family("然后是{the}：{desc}"),
    Family("请看{the}，{desc}"),
    Family("接下来，{the}：{desc}"),
    Family("喜欢{material}的话，可以看看{the}。"),
    Family("同样用了{same_material}的，还有{the}。"),
    Family("也是{same_colour}的，还有{the}。"),
    Family("想要{colour}的，有{the}。"),
    Family("{price}，可以带走{the}。"),
    Family("{brand}的{the}，也请看看。"),
    Family("价格再低些的，有{the}。"),
    Family("价格再高些的，是{the}。"),
    Family("最后是{the}。", "last"),
    Family("最后来看{the}。", "last"),
    Family("临走之前，再看看{the}。", "last"),
    Family("最后给您看{the}：{desc}", "last"),
    Family("压轴的是{the}。", "last"),
)

PRICES = ("售价{v}", "价格是{v}", "{v}就可以带回家", "标价{v}", "要价{v}", "{v}，就归您了")
PRICES_FROM = ("{v}起", "价格从{v}起", "最低{v}")

_VERBS: dict[str, tuple[str, ...]] = {
    "material": ("用{v}制成", "材质是{v}", "用的是{v}"),
    "colour": ("颜色是{v}", "是{v}的"),
    "capacity": ("能装{v}", "容量{v}"),
    "weight": ("重{v}",),
    "height": ("高{v}",),
    "width": ("宽{v}",),
    "length": ("长{v}",),
    "depth": ("深{v}",),
    "thickness": ("厚{v}",),
    "diameter": ("直径{v}",),
    "brand": ("出自{v}", "品牌是{v}"),
    "origin": ("产自{v}",),
    "availability": ("{v}",),
    "set": ("套装里有{v}",),
}
_SAME_AS = {
    **dict.fromkeys(("材质", "材料", "面料", "主材", "成分", "material", "fabric"), "material"),
    **dict.fromkeys(("颜色", "色彩", "配色", "color", "colour"), "colour"),
    **dict.fromkeys(("容量", "capacity"), "capacity"),
    **dict.fromkeys(("重量", "净重", "weight"), "weight"),
    **dict.fromkeys(("高度", "高", "height"), "height"),
    **dict.fromkeys(("宽度", "宽", "width"), "width"),
    **dict.fromkeys(("长度", "长", "length"), "length"),
    **dict.fromkeys(("深度", "深", "depth"), "depth"),
    **dict.fromkeys(("厚度", "厚", "thickness"), "thickness"),
    **dict.fromkeys(("直径", "diameter"), "diameter"),
    **dict.fromkeys(("产地", "原产地", "原产国"), "origin"),
    "品牌": "brand",
    "库存": "availability",
    "套装": "set",
    "保养": "care",
}
_MEASURED = words_of("capacity weight height width length depth thickness diameter")
_MEASURE = re.compile(
    r"\d[\d.,]*\s?(?:[A-Za-z]+|厘米|毫米|分米|米|英寸|英尺|升|毫升|公升|千克|公斤|克|毫克|吨|斤|两|磅|盎司|瓦|千瓦|伏|安|毫安时|小时|分钟|秒|度)"
)
_VERBAL = re.compile("[可施镀不带含有涂刷能需支配]")
_ORDER = re.compile("[用擦洗刷避勿手晾]")
_MEASURE_WORDS = (
    ("壶椅凳刀伞梳锁勺铲锤琴", "把"),
    ("灯", "盏"),
    ("碗杯瓶罐锅盆桶篮盒箱袋包表盅缸", "只"),
    ("钟", "座"),
    ("桌床沙发毯", "张"),
    ("板镜皂", "块"),
    ("裤毯巾", "条"),
    ("衣衫裙袄套", "件"),
    ("鞋袜", "双"),
)
"""The last character of a title, and what such things are counted by; anything else is 款, which goes with all."""


class Chinese:
    """What one product's passage is made of.

    Args:
        sheet: the product's facts.
        picker: chooses among ways to say a thing.
    """

    price_names = frozenset({"价格", "起价"})
    stock_name = "库存"
    brand_name = "品牌"
    stop = "。"

    def __init__(self, sheet: FactSheet, picker: Picker) -> None:
        self._picker = picker
        last = sheet.title[-1:]
        word = next((word for ends, word in _MEASURE_WORDS if last in ends), "款") if last else "款"
        self.the = sheet.title
        self.words = {"the": sheet.title, "this": f"这{word}"}

    def concept(self, fact: Fact) -> str:
        """What a fact is about, whatever the catalogue calls it."""
        return _SAME_AS.get(fact.name.casefold(), fact.name)

    def values(self, fact: Fact, values: tuple[str, ...]) -> str:
        """One value, or several as a list."""
        return values[0] if len(values) == 1 else f"{'、'.join(values[:-1])}和{values[-1]}"

    def noun_phrase(self, sentence: str, title: str) -> str:
        """A catalogue's sentence as it may stand behind the title: whole; "" = it begins with the title itself."""
        return "" if sentence.startswith(title) or sentence[:1] in "这它" else sentence

    def introduced(self, sentence: str, noun: str) -> str:
        """The first sentence of a description as a sentence of its own: behind 这是 where it names the thing."""
        first = re.split("[，。；：]", sentence)[0]
        return f"这是{sentence}" if noun and first[-1:] == self.the[-1:] and "是" not in first else sentence

    def links(self, before: FactSheet | None, sheet: FactSheet) -> Links:
        """What this product has in common with the one before, for transitions: nothing but what both sheets say."""
        links: Links = {}
        for kind in ("material", "colour") if before is not None else ():
            here = [fact for fact in sheet.facts if fact.kind == kind and self.concept(fact) == kind]
            there = {fact.value for fact in before.facts if fact.kind == kind} if before is not None else set()
            if len(here) == 1 and here[0].value in there and len(parts_of(here[0].value)) == 1:
                links[f"same_{kind}"] = (here[0].value, here[0])
        return links

    def clause(self, fact: Fact, values: tuple[str, ...]) -> Clause:
        """One fact as a part of a sentence."""
        concept, said = self.concept(fact), self.values(fact, values)
        comma = "，" in said or "," in said
        if concept in _VERBS and (concept not in _MEASURED or _measured(concept, values)):
            forms = _VERBS[concept]
            if concept == "colour":
                forms = forms[1:] if said == "透明" else forms[:1]
            form = self._picker.pick(f"verb {concept} {forms[0]}", forms)
            return Clause("alone" if comma else "verb", self.fill(form, said), fact)
        name = fact.name.rpartition("：")[2].rpartition(":")[2] or fact.name
        if len(values) > 1:
            return Clause("alone", self.fill("{n}可选{v}", said, name), fact)
        if concept == "care":
            form = "{v}" if said.startswith("可") else "保养时{v}" if not _ORDER.match(said) or comma else "平时{v}就行"
            return Clause("alone" if comma else "verb", self.fill(form, said), fact)
        if said == "无" and len(name) <= 6:
            return Clause("verb", f"无{name}", fact)
        if name.startswith("适用"):
            return Clause("alone", self.fill("{n}包括{v}", said, name), fact)
        first = re.split("[，,]", said)[0]
        counted = fact.kind == "number" and len(said) <= 12 and not name.isascii()
        counted = counted and (not said[:1].isdigit() or _MEASURE.fullmatch(said) is not None)
        if _VERBAL.match(said) or (counted and not comma):
            return Clause("alone" if comma else "own", self.fill("{n}{v}", said, name), fact)
        if len(first) <= 8 and (not comma or fact.kind == "material" or len(first) <= 2) and not first.isascii():
            return Clause("alone" if comma else "own", self.fill("{n}是{v}", said, name), fact)
        form = self._picker.pick("colon", ("{n}呢，{v}", "{n}：{v}"))
        return Clause("alone", self.fill(form, said, name), fact)

    def price(self, fact: Fact) -> str:
        """A sentence of the price."""
        forms: tuple[str, ...] = PRICES_FROM if fact.name == "起价" else PRICES
        if " " not in fact.value:  # no money's name: the sentence must say that it is a price
            forms = tuple(form for form in forms if "价" in form)
        return self.fill(self._picker.pick("price", forms), fact.value)

    def price_verb(self, fact: Fact) -> str:
        """The same as a part of a sentence."""
        return self.fill("售价{v}" if fact.name == "价格" else "{v}起", fact.value)

    def sentences(self, clauses: list[Clause]) -> list[str]:
        """Clauses as whole sentences: short ones are joined, those with a comma of their own stand alone."""
        short = [clause for clause in clauses if clause.form != "alone"]
        out: list[str] = []
        while short:
            take = len(short) if len(short) <= 3 else 2
            taken, short = short[:take], short[take:]
            verb = taken[0].form == "verb" and taken[0].text[0] in "用能重高"
            subject = self._picker.pick("subject", ("", "它", "")) if verb else ""
            out.append(stopped(f"{subject}{'，'.join(clause.text for clause in taken)}", self.stop))
        return out + [stopped(clause.text, self.stop) for clause in clauses if clause.form == "alone"]

    def fill(self, form: str, value: str, name: str = "") -> str:
        """A form with a value, a space between ideographs and what is not."""
        return spaced(form, {**self.words, "v": value, "n": name})


def _measured(concept: str, values: tuple[str, ...]) -> bool:
    """Whether the values are one number and its unit; what a thing holds may be named after them."""
    if len(values) != 1 or not values[0][:1].isdigit():
        return False
    return concept == "capacity" or _MEASURE.fullmatch(values[0]) is not None


_SEAM = re.compile(
    "(?<=[0-9A-Za-z])\x01\x00(?=[0-9A-Za-z])|(?<=[\u4e00-\u9fff])[\x00\x01]+(?=[0-9A-Za-z])|(?<=[0-9A-Za-z%])[\x00\x01]+(?=[\u4e00-\u9fff])"
)

_TWICE = re.compile("([。！？!?…][\"'”’」』]*\x01)。")
"""A stop of ours behind a value that has one of its own."""


def spaced(form: str, words: dict[str, str]) -> str:
    """Fill a form, with a space where a value of Latin letters or digits meets an ideograph of the form."""
    marked = form.format_map({key: f"\x00{value}\x01" for key, value in words.items()})
    return _SEAM.sub(" ", _TWICE.sub("\\1", marked)).replace("\x00", "").replace("\x01", "")
