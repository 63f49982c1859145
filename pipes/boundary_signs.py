"""The signs by which borders are ranked: marks of both widths, numbers and units, abbreviations, cue markers. Pure."""

from __future__ import annotations

import regex

__all__ = [
    "ADDRESS",
    "ADDRESS_BEGINS",
    "AFTER_MARKER",
    "CLOSERS",
    "CLUSTER",
    "CLUSTERED",
    "CODES",
    "FLAGS",
    "FULL_CLAUSE",
    "FULL_SENTENCE",
    "HAN_BEGINNINGS",
    "HAN_OPEN",
    "HAN_UNIT",
    "HAN_UNITS",
    "INITIALS",
    "JOINERS",
    "LABEL",
    "LETTER",
    "MARKER",
    "MONEY",
    "NO_CUT_BEFORE",
    "NUMBER",
    "NUMERALS",
    "OPENERS",
    "OPEN_CURRENCY",
    "OPEN_MARKER",
    "OPERATOR",
    "SHORT",
    "SIGNS",
    "SPACELESS",
    "THOUSANDS",
]


def _words(text: str) -> list[str]:
    return text.split()


SPACELESS = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\p{Tibetan}\p{Line_Break=SA}\u3001-\u303F\uFF01-\uFF65]"
)
CLUSTERED = regex.compile(r"\P{Grapheme_Cluster_Break=Other}")
MONEY = regex.compile(r"\p{Sc}")
LETTER = regex.compile(r"[\w\p{M}]")
CLUSTER = regex.compile(r"\X")
FLAGS = regex.compile(r"(?<![\U0001F1E6-\U0001F1FF])(?:[\U0001F1E6-\U0001F1FF]{2})*[\U0001F1E6-\U0001F1FF]$")
MARKER = regex.compile(r"\[\[show:[^\[\]\n\r]*\]\]", regex.IGNORECASE)
AFTER_MARKER = regex.compile(r"\[\[show:[^\[\]\n\r]*\]\][ \t]*$", regex.IGNORECASE)
OPEN_MARKER = regex.compile(
    r"\[(?:\[(?:s(?:h(?:o(?:w(?::[^\[\]\n\r]*\]?)?)?)?)?)?)?$",
    regex.IGNORECASE,
)

CLOSERS = "\"'”’»)]}*_」』）】》〉〕］｝"
OPENERS = "\"'“‘«([{「『（【《〈〔［｛¿¡"
FULL_SENTENCE, FULL_CLAUSE = "。！？．｡", "，、；：､…—–"
NO_CUT_BEFORE = frozenset(".,;:!?%‰°℃℉…—–-/" + FULL_SENTENCE + FULL_CLAUSE + CLOSERS + "％")
JOINERS = frozenset("._/@:\\=&%#~+-'’×*,−–±≈^°")
SIGNS = frozenset("°℃℉%‰％′″×÷*/+=−–-~")

NUMBER = regex.compile(r"(?:^|[^\w.]|[^\W\da-zA-Z])(?:[A-Z]{2,3})?[\p{Sc}+\-−±~≈#№]*\d[\d.,:'’٬٫/×*\-–−]*$")
THOUSANDS = regex.compile(r"(?:^|[^\d.,])\d{1,3}$")
OPEN_CURRENCY = regex.compile(r"(?:^|[^\d\p{Sc}])\p{Sc}$|[#№±≈~]$")
CODES = frozenset(_words("USD EUR GBP CNY RMB JPY CHF HKD KRW INR AUD CAD No. no. Nr. nr. approx. ca. vs."))
OPERATOR = frozenset(["×", "x", "X", "*", "÷", "/", "+", "=", "−", "–", "-", "~", "±"])
LABEL = regex.compile(r"(?:\d{1,3}|[A-Za-z])[.)]|[(（](?:\d{1,3}|[A-Za-z])[)）]|[-*+•·–—]|#{1,6}")
INITIALS = regex.compile(r"(?:^|[(\[“‘（\p{Han}])(?:\p{L}\.)+$")
SHORT = frozenset(
    _words(
        "mr mrs ms dr prof st no nr approx ca vs etc e.g i.e fig vol inc ltd co dept est max min incl excl tel ext jr "
        "sr a.m p.m"
    )
)
HAN_UNITS = _words(
    "厘米 毫米 分米 千米 公里 英寸 英尺 平方米 立方米 毫升 公升 公斤 千克 毫克 小时 分钟 秒钟 摄氏度 人民币 美元 欧元 "
    "日元 港元 港币 英镑 千瓦 瓦特 伏特 块钱 元钱 个月 年前 周年 件套 克拉 加仑 盎司"
)
HAN_OPEN = frozenset(unit[:end] for unit in HAN_UNITS for end in range(1, len(unit)))
ADDRESS = regex.compile(r"(?:(?:^|[^a-z0-9])(?:https?|www\.)|://|@)[!-~]*$", regex.IGNORECASE)
ADDRESS_BEGINS = regex.compile(r"(?:^|[^a-z0-9])(?:h|ht|htt|http|w|ww|www)$", regex.IGNORECASE)
HAN_BEGINNINGS = frozenset(unit[:end] for unit in HAN_UNITS for end in range(2, len(unit) + 1))
HAN_UNIT = regex.compile(r"[\d.,][十百千万亿]*(\p{Han}*)$")
NUMERALS = frozenset("十百千万亿")
