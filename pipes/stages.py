"""Which stage a conversation is in, and how text flows there: a greeting in small bites, an answer in long ones. Pure.

G1. A stage is found in what is said, never in the number of the turn alone. What the viewer asked decides how an
    answer begins; what the answer itself says may change it on the way.
G2. A viewer who only greets is greeted; one who greets and asks is answered. An answer's own first sentences of
    greeting are the greeting stage, whoever began.
G3. Thanks, goodbyes, "that is all", and questions of price and purchase close, unless something else is asked with
    them. A short "ok" or "好的" after a turn that closed still closes.
G4. What the application sets holds until it says otherwise.

The settings are those that a shop's guide wants: a greeting is short, an answer long, and at the till words count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import regex

from multimodal.errors import UsageError

__all__ = ["ANSWER", "CLOSING", "GREETING", "STAGES", "Stage", "StageDetector"]

GREETING, ANSWER, CLOSING = "greeting", "answer", "closing"


class Stage(msgspec.Struct, frozen=True):
    """How text flows in one stage.

    Args:
        name: what it is called.
        chunk_size: tokens that leave together at most.
        buffer_factor: how many times the consumer's need is made ahead.

    Raises:
        UsageError: no name, or a value out of its range.
    """

    name: str
    chunk_size: int
    buffer_factor: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise UsageError(f"a stage's name is {self.name!r}; give it a word")
        size, factor = self.chunk_size, self.buffer_factor
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(f"stage {self.name!r}: chunk_size={size!r} is out of range; give 1 or more tokens")
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor < math.inf:
            raise UsageError(f"stage {self.name!r}: buffer_factor={factor!r} is out of range; give 1 or more")


STAGES: Mapping[str, Stage] = {
    GREETING: Stage(GREETING, 8, 1.2),
    ANSWER: Stage(ANSWER, 64, 2.0),
    CLOSING: Stage(CLOSING, 16, 1.0),
}
"""The stages there are; give `StageDetector` a table of your own to change or extend them."""


def _any_of(english: str, chinese: str) -> regex.Pattern[str]:
    """Words and phrases of two languages; English ones whole, Chinese ones wherever they stand."""
    return regex.compile(rf"(?<!\w)(?:{english})(?!\w)|{chinese}", regex.IGNORECASE)


_GREETS = _any_of(
    r"(?:hi|hello|hey|howdy|greetings|welcome|good (?:morning|afternoon|evening|day))(?: there| all| again| everyone)?",
    "您好|你好|大家好|哈喽|嗨|早上好|上午好|中午好|下午好|晚上好|早安|欢迎(?:光临|来到)|在吗|有人吗",
)
_THANKS = _any_of(
    r"thanks?(?: (?:you|a lot|so much|very much|again))*|cheers|(?:good ?)?bye(?:[- ]?bye)?|see you(?: later| soon)?"
    r"|that(?:['’]s| is) (?:all|it|everything)|i(?:['’]m| am) done|no more questions|nothing else|have a nice \w+",
    "多谢|谢谢|感谢|再见|拜拜|回头见|就这些|就这样|没有?别的了|没问题了|不用了|没事了",
)
_BUYS = _any_of(
    r"how much (?:is|are|do|does|for|would|will)(?! it (?:hold|weigh))|how much"
    r"|what(?:['’]s| is) the (?:total|price|cost)|price of|what (?:do|does) .{1,40} cost|total price"
    r"|(?:i(?:['’]ll| will| want to| would like to|['’]d like to)|let me|can i|may i|could i) "
    r"(?:take|buy|order|pay|check ?out|purchase)"
    r"|check ?out|add .{0,30}to (?:my |the )?(?:cart|basket)|place (?:an|the|my) order|discounts?"
    r"|take (?:credit )?cards?",
    "多少钱|什么价|价格(?:是)?多少|怎么卖|几块钱|便宜点|打折|优惠|下单|买单|结账|付款|我要了|我买|就要[这那]个|购物车",
)
_AMOUNTS = _any_of(
    r"how much (?:(?:water|tea|coffee|milk|power|space|weight|time|heat|noise)"
    r"|(?:can|does|do) .{0,30}(?:hold|weigh|use|fit))",
    "(?!)",
)
"""Questions of how much that ask for no price."""
_POLITE = _any_of(
    r"please|so|very|much|for (?:your|the|all your) help|then|and|now|well|ok(?:ay)?|great|perfect|no|yes|you|too|sir"
    r"|madam|everyone|there|friend|nice to meet you"
    r"|how are you(?: doing)?(?: today)?|is (?:any|some)(?:one|body) there",
    "请|好的?|那|啦|了|呀|啊|哦|吧|您|你|的|帮助|帮忙|非常|十分|先生|女士|老板|客服",
)
_AGREES = regex.compile(
    r"(?:ok(?:ay)?|great|perfect|fine|good|yes|yep|sure|no|好的?|行|可以|嗯|是的|没有?了?|[\s.!。！,，~])+",
    regex.IGNORECASE,
)
_FAREWELL = _any_of(
    r"(?:good)?bye|see you|have a (?:nice|good|great|lovely|wonderful) \w+|enjoy your"
    r"|thank(?:s| you) for (?:shopping|visiting|coming|your (?:visit|order|purchase))",
    "再见|拜拜|回头见|祝您|祝你|感谢您?的?(?:光临|惠顾|购买)|欢迎(?:再来|下次)",
)
"""How an answer takes its leave."""
_SENTENCE = regex.compile(r".*?(?:[.!?]+[\"'”’)]*(?=\s)|[。！？]+[”’」）]*|\n)", regex.DOTALL)
_WORDS = regex.compile(r"[a-z0-9]+(?:['’][a-z]+)?|\p{Han}", regex.IGNORECASE)
_SMALL_TALK = 2
"""Words, or Chinese characters, that may be left beside a greeting or a goodbye: a name is one or two."""
_WELCOME = 2
"""Sentences of an answer to a mere greeting that are greeting: "Hello! How can I help you?"."""
_ALL = regex.compile(r".*", regex.DOTALL)
_READ = 400
"""Characters of a sentence from which on it counts as over."""


class StageDetector:
    """Follows a conversation.

    Call `asked` with what a viewer says, `hear` with each piece of the answer; `stage` is the one that holds now.

    Args:
        stages: the table; it has at least `greeting`, `answer` and `closing`.

    Raises:
        UsageError: a table without one of the three, or an entry that is no `Stage`.
    """

    def __init__(self, stages: Mapping[str, Stage] = STAGES) -> None:
        for name in (GREETING, ANSWER, CLOSING):
            if name not in stages:
                raise UsageError(f"the stage table has no {name!r}; begin with dict(STAGES) and change or add to it")
        for name, stage in stages.items():
            if not isinstance(stage, Stage):
                raise UsageError(f"the stage table's {name!r} is {type(stage).__name__}; give a Stage")
        self.stages = dict(stages)
        self.turn = 0
        """Turns that were asked for."""
        self._set: str | None = None
        self._asked = self._name = ANSWER  # what the turn asks for, and what holds now
        self._sentence = ""  # of the answer, as far as it has come
        self._sentences = 0  # of the answer that are complete
        self._greets = True  # every one of them greets

    @property
    def stage(self) -> Stage:
        """The stage that holds now."""
        return self.stages[self._set or self._name]

    def set(self, name: str | None) -> Stage:
        """Hold one stage, whatever is said (G4); None = find it in what is said again.

        Raises:
            UsageError: the table has no such stage.
        """
        if name is not None and name not in self.stages:
            raise UsageError(f"stage {name!r} is unknown; there are {', '.join(self.stages)}")
        self._set = name
        return self.stage

    def asked(self, text: str = "") -> Stage:
        """A new turn begins: what the viewer said, "" = nothing, the guide begins by itself."""
        closed = self.turn > 0 and self._name == CLOSING
        self.turn += 1
        self._sentence, self._sentences, self._greets = "", 0, True
        self._asked = self._name = CLOSING if closed and _AGREES.fullmatch(text) else _of(text)
        return self.stage

    def hear(self, text: str) -> Stage:
        """The next piece of the answer; gives the stage that holds behind it."""
        self._sentence += text
        while whole := _SENTENCE.match(self._sentence) or (len(self._sentence) > _READ and _ALL.match(self._sentence)):
            self._judge(whole[0])
            if whole[0].strip():
                self._greets = self._greets and self._name == GREETING
                self._sentences += 1
            self._sentence = self._sentence[whole.end() :]
        self._judge(self._sentence)
        return self.stage

    def _judge(self, sentence: str) -> None:
        """What a sentence, or its beginning, makes of the stage."""
        opening = sentence.lstrip(" \t\r\n\"'“‘")
        if not opening:
            return
        if self._greets and _GREETS.match(opening):
            self._name = GREETING
        elif self._sentences and (self._name == CLOSING or _FAREWELL.match(opening)):
            self._name = CLOSING
        else:
            welcome = self._asked == GREETING and self._sentences < _WELCOME
            self._name = GREETING if welcome else ANSWER if self._asked == GREETING else self._asked


def _of(text: str) -> str:
    """What a viewer's words ask for (G2, G3)."""
    if _BUYS.search(text) and not _AMOUNTS.search(text):
        return CLOSING
    rest, closes = _THANKS.subn(" ", text)
    rest, greets = _GREETS.subn(" ", rest)
    asks = len(_WORDS.findall(_POLITE.sub(" ", rest))) > _SMALL_TALK
    if closes and not asks:
        return CLOSING
    return GREETING if greets and not asks else ANSWER
