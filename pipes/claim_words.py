"""The words by which claims are recognised: numbers, units, money, and what only looks like a claim. Pure data."""

from __future__ import annotations

from decimal import Decimal

from multimodal.pipes.fact_words import COLOUR_WORDS, MATERIAL_WORDS, MONEY

__all__ = [
    "BESIDE_HAN",
    "BESIDE_THINGS",
    "BODY",
    "BRITISH",
    "CALENDAR",
    "COLOURS",
    "COUNTRIES",
    "FOODS_FIRST",
    "FOREIGN",
    "GROUPS",
    "HAN_COLOURS",
    "HAN_COUNTRIES",
    "HAN_DIGITS",
    "HAN_MATERIALS",
    "HAN_SCALES",
    "KINDS_OF",
    "MATERIALS",
    "MEASURES",
    "MONEY_OF",
    "MULTIPLES",
    "NOUNS_FIRST",
    "ONES",
    "ORDINARY",
    "OTHERS",
    "SCALES",
    "SHORT_UNITS",
    "SINGLE_AMOUNTS",
    "SPARED",
    "SPELLINGS",
    "STOCK",
    "TENS",
    "TIMES",
    "UNIT_OF",
    "VERBS",
]

_UNITS_SAID = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
ONES = {word: value for value, word in enumerate(_UNITS_SAID.split())}
TENS = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6}
OTHERS = {"dozen": Decimal(12), "half": Decimal("0.5"), "quarter": Decimal("0.25")}
HAN_DIGITS = dict(zip("零一二三四五六七八九", range(10), strict=True)) | {"两": 2, "〇": 0}
HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000}

_UNITS = {
    "mm": "mm millimetre millimetres millimeter millimeters 毫米",
    "cm": "cm centimetre centimetres centimeter centimeters 厘米 公分",
    "m": "m metre metres meter meters 米",
    "km": "km kilometre kilometres kilometer kilometers 公里 千米",
    "in": "in inch inches 英寸 寸",
    "ft": "ft foot feet 英尺",
    "yd": "yd yard yards 码",
    "mi": "mi mile miles 英里",
    "ml": "ml millilitre millilitres milliliter milliliters 毫升",
    "cl": "cl centilitre centilitres centiliter centiliters",
    "dl": "dl decilitre decilitres deciliter deciliters",
    "l": "l litre litres liter liters 升 公升",
    "pt": "pint pints 品脱",
    "qt": "quart quarts 夸脱",
    "gal": "gal gallon gallons 加仑",
    "g": "g gram grams gramme grammes 克",
    "kg": "kg kilo kilos kilogram kilograms 千克 公斤",
    "jin": "斤",
    "oz": "oz ounce ounces 盎司",
    "lb": "lb lbs 磅",
    "t": "tonne tonnes 吨",
    "mb": "mb megabyte megabytes",
    "gb": "gb gigabyte gigabytes",
    "tb": "tb terabyte terabytes",
    "mp": "megapixel megapixels",
    "s": "s sec second seconds 秒 秒钟",
    "min": "min minute minutes 分钟",
    "h": "h hr hour hours 小时 个小时",
    "day": "day days 天",
    "week": "week weeks 周 星期 个星期",
    "month": "month months 个月",
    "year": "year years 年",
    "w": "w watt watts 瓦",
    "kw": "kw kilowatt kilowatts 千瓦",
    "v": "v volt volts 伏",
    "mah": "mah 毫安时",
    "lm": "lm lumen lumens 流明",
    "%": "% percent per-cent",
    "°c": "°c °f ° degree degrees 度 摄氏度",
    "off": "折",
    "fold": "倍 fold",
    "person": "person persons people 人",
    "piece": "piece pieces pcs 件 片",
}
UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words.split()}
SHORT_UNITS = frozenset({"in", "m", "l", "g", "s", "h", "v", "w", "t"})
"""Only behind digits: "one in ten" measures nothing."""
TIMES = frozenset({"s", "min", "h", "day", "week", "month", "year"})
SINGLE_AMOUNTS = frozenset({"m", "l", "g", "kg", "ml", "cm", "pt", "qt", "gal", "t"})
"""Of which "a" says one: "a litre", but not "a second", "a foot"."""

MEASURES: dict[str, tuple[str, Decimal]] = {
    "mm": ("length", Decimal(1)),
    "cm": ("length", Decimal(10)),
    "m": ("length", Decimal(1000)),
    "km": ("length", Decimal(10**6)),
    "in": ("length", Decimal("25.4")),
    "ft": ("length", Decimal("304.8")),
    "yd": ("length", Decimal("914.4")),
    "mi": ("length", Decimal(1_609_344)),
    "ml": ("volume", Decimal(1)),
    "cl": ("volume", Decimal(10)),
    "dl": ("volume", Decimal(100)),
    "l": ("volume", Decimal(1000)),
    "pt": ("volume", Decimal("473.176473")),
    "qt": ("volume", Decimal("946.352946")),
    "gal": ("volume", Decimal("3785.411784")),
    "g": ("weight", Decimal(1)),
    "jin": ("weight", Decimal(500)),
    "kg": ("weight", Decimal(1000)),
    "t": ("weight", Decimal(10**6)),
    "oz": ("weight", Decimal("28.349523125")),
    "lb": ("weight", Decimal("453.59237")),
    "mb": ("data", Decimal(1)),
    "gb": ("data", Decimal(1000)),
    "tb": ("data", Decimal(10**6)),
    "w": ("power", Decimal(1)),
    "kw": ("power", Decimal(1000)),
    "s": ("time", Decimal(1)),
    "min": ("time", Decimal(60)),
    "h": ("time", Decimal(3600)),
    "day": ("time", Decimal(86400)),
    "week": ("time", Decimal(604800)),
    "month": ("months", Decimal(1)),
    "year": ("months", Decimal(12)),
}
"""What a unit measures, and how much of the smallest one it is; NIST SP 811, appendix B.8."""
FOREIGN = frozenset({"in", "ft", "yd", "mi", "oz", "lb", "pt", "qt", "gal"})
"""Units of the other system: between the two, what is said is rounded."""
BRITISH = {"pt": Decimal("568.26125"), "qt": Decimal("1136.5225"), "gal": Decimal("4546.09")}
"""The same words in Britain; the same appendix."""
GROUPS = {"pair": 2, "couple": 2, "duo": 2, "trio": 3, "quartet": 4, "quintet": 5, "sextet": 6}
"""Numbers without a number."""
MULTIPLES = {"hundred": 100, "thousand": 1000, "k": 1000, "grand": 1000, "million": 10**6, "m": 10**6, "mn": 10**6}
"""Behind digits. The single letters only where money follows or stands before."""

CALENDAR = frozenset(
    (Decimal(count), unit)
    for count, unit in ((24, "h"), (60, "s"), (60, "min"), (7, "day"), (12, "month"), (52, "week"), (365, "day"))
)
"""What everybody knows: "twenty-four hours a day"."""

MONEY_OF = {name.casefold(): code for code, (one, many, han) in MONEY.items() for name in (one, many, han, code)} | {
    "€": "EUR",
    "欧": "EUR",
    "$": "USD",
    "us$": "USD",
    "us dollar": "USD",
    "us dollars": "USD",
    "american dollars": "USD",
    "bucks": "USD",
    "美金": "USD",
    "刀": "USD",
    "£": "GBP",
    "quid": "GBP",
    "pounds sterling": "GBP",
    "british pounds": "GBP",
    "franc": "CHF",
    "francs": "CHF",
    "¥": "CNY",
    "￥": "CNY",
    "元": "CNY",
    "块": "CNY",
    "块钱": "CNY",
    "人民币": "CNY",
    "rmb": "CNY",
    "crowns": "crown",
    "pesos": "peso",
    "pence": "cent",
    "cents": "cent",
    "cent": "cent",
    "欧分": "cent",
}
"""块 counts pieces as often; behind 一 and 两 it is left to the counters."""


def _words(text: str) -> frozenset[str]:
    return frozenset(entry.strip() for entry in text.replace("\n", " ").split(",") if entry.strip())


MATERIALS = MATERIAL_WORDS | _words(
    "bone china, china, paraffin, platinum, pearl, mother-of-pearl, larch, sycamore, poplar, hickory, alder, wenge, "
    "rubberwood, polystyrene, melamine, bakelite, pvc, chiffon, muslin, flannel, chenille, sisal, seagrass, straw, "
    "horsehair, kapok, feather, feathers, parchment, vellum, lace, perspex, plexiglass, leatherette, brick, wooden, "
    "woollen, woolen, metallic, "
    "骨瓷, 搪瓷, 珐琅, "
    "陶, 石英, 玛瑙, 红木, 黄金, 白银, 纯银, 石蜡, 大豆蜡, 牛津布, 棉布, 丝绒, 灯芯绒, 亚克力, 玻璃钢, 木头"
)
COLOURS = COLOUR_WORDS | _words(
    "pistachio, celadon, sapphire, cerise, sepia, cornflower, periwinkle, mulberry, tan, russet, 红色, 咖啡色, 香槟色"
)
ORDINARY = _words(
    "clear, natural, down, lime, cherry, sand, felt, tin, wire, rose, gel, ash, china, pearl, straw, brick"
)
"""Words that say something else as often: a claim only where they stand as a material or colour does."""
FOODS_FIRST = _words(
    "amber, apricot, aubergine, camel, caramel, champagne, chestnut, chocolate, coral, cream, lavender, lemon, lilac, "
    "mint, mustard, olive, orange, peach, petrol, plum, salmon, tan, horn, bone, cork, crystal, paper, lime, "
    "cherry, rose, mulberry, pistachio, ruby, sand, fur, wood, willow, pine, maple, gold, golden, silver, stone, clay"
)
"""Colours and materials that are things of their own: with an article of their own they are that thing."""
VERBS = _words("rust, iron, wax, cork, slate, wire, bronze, paper, foam, plaster, rubber, lacquer, felt, silver, satin")

SPELLINGS = {
    "aluminum": "aluminium",
    "carbon fiber": "carbon fibre",
    "fiberglass": "fibreglass",
    "gray": "grey",
    "microfiber": "microfibre",
    "multicolor": "multicolour",
    "woolen": "woollen",
}
"""American, and how it is spelled here."""

KINDS_OF: dict[str, frozenset[str]] = {
    "wood": _words(
        "acacia, ash, bamboo, beech, birch, cedar, cherry, chestnut, ebony, elm, mahogany, maple, oak, "
        "olive wood, pine, plywood, rosewood, "
        "spruce, teak, walnut, willow, larch, sycamore, poplar, hickory, alder, wenge, rubberwood"
    ),
    "metal": _words(
        "aluminium, brass, bronze, cast iron, copper, gold, iron, nickel, pewter, silver, steel, tin, titanium"
    ),
    "stone": _words("alabaster, basalt, granite, limestone, marble, onyx, sandstone, slate, soapstone, travertine"),
    "ceramic": _words("stoneware, porcelain, earthenware, terracotta, bone china"),
    "clay": _words("stoneware, earthenware, terracotta"),
    "iron": _words("cast iron"),
    "red": _words("oxblood, crimson, scarlet, ruby, rust, burgundy, vermilion, maroon"),
    "blue": _words("cobalt, navy, azure, indigo, sapphire"),
    "green": _words("olive, emerald, teal, pistachio, celadon"),
    "yellow": _words("saffron, mustard, lemon, amber"),
    "purple": _words("plum, aubergine, violet, mauve, mulberry"),
    "grey": _words("anthracite, graphite, charcoal"),
    "transparent": _words("clear"),
    "陶瓷": _words("炻器, 瓷, 骨瓷, 赤陶"),
    "陶": _words("炻器, 赤陶, 红陶, 陶土"),
    "金属": _words("黄铜, 紫铜, 青铜, 铸铁, 不锈钢, 钢, 铝"),
    "珐琅": _words("珐琅钢"),
    "玻璃": _words("硼硅玻璃"),
    "石": _words("大理石, 花岗岩"),
    "石材": _words("大理石, 花岗岩"),
    "纯铜": _words("紫铜, 红铜"),
    "纯金": _words("黄金, 足金"),
    "纯银": _words("白银, 足银"),
    "纯棉": _words("棉布"),
}
"""A thing of a kind: what is oak is wood."""
KINDS_OF["wooden"] = KINDS_OF["wood"] | {"wood"}
KINDS_OF["woollen"] = frozenset({"wool", "merino"})
KINDS_OF["metallic"] = KINDS_OF["metal"] | {"metal"}

HAN_COLOURS = "红橙黄绿青蓝紫黑白灰棕褐粉"
HAN_MATERIALS = "瓷铜铁钢铝钛银金竹木石棉麻丝藤纸漆陶"

SPARED = (
    r"\b(?:an?|your|another|every|each|one|full|empty|second|wine|water|drinking|magnifying|looking|hour)[\s-]*glass"
    r"(?=\s*(?:[.,;:!?…]|$|(?:of|and|in|on|to|or|at|for|from|before|after|beside|with)\b))",
    r"\bglasses\b|\bthe glass of\b",
    r"\b(?:red|white|ros[eé]|mulled) wines?\b|\b(?:black|white) coffee\b|\b(?:green|black|white|mint|red) teas?\b",
    r"\b(?:black|white|red|green|pink) pepper(?:corns?|s)?\b|\b(?:white|brown) bread\b|\bsalt and pepper\b",
    r"\b(?:orange|lemon|lime|peach|cherry) (?:juice|peel|zest|tree|slice|tomato|blossom|jam|pie|cake)e?s?\b",
    r"\b(?:slice|squeeze|drop|hint|sprig|cup|pot|bunch|taste|wedge|pinch|touch|jar)s? of "
    r"(?:lemon|lime|orange|mint|olive|mustard|chocolate|caramel|champagne|cream|lavender|cherry|peach|salmon|plum|apricot)s?\b",
    r"\bolive (?:oil|tree)s?\b|\b(?:red|green|golden) apples?\b|\bblue (?:moon|skies|sky|cheese)\b",
    r"\b(?:out of|into) the blue\b|\bgreen (?:fingers?|thumbs?|light)\b|\bred (?:tape|carpet|letter)\b",
    r"\b(?:in the|see) (?:red|black)(?=\s*[,.!?])|\bwhite lies?\b|\bblack (?:tie|sheep|and white)\b",
    r"\bgrey (?:day|morning|sky|area)s?\b|\bsilver (?:lining|screen|spoon)\b",
    r"\bgold(?:en)? (?:standard|hour|rule|age|light)\b|\b(?:turns?|glows?) (?:gold\w*|red|black|white)\b",
    r"\b(?:heart|weight in|good as|worth) (?:of |in )?gold\b|\bnerves of steel\b|\bsteel (?:yourself|ourselves)\b",
    r"\bset in stone\b|\bstone['’]s throw\b|\b(?:touch|knock on) wood\b|\bcrystal clear\b|\bon paper\b|\bbone dry\b",
    r"\b(?:white|yellow|red|pink|blue|purple) (?:flower|tulip|rose|blossom)s?\b",
    r"\b(?:white|yellow|red|pink|blue|purple) (?:lilies|lily|peonies|peony|daisies|daisy)\b",
    r"\bgreen (?:leaf|leaves|salad|grass|plants?)\b|\b(?:white|blue|grey) (?:snow|clouds?|mist|waves?|sea)\b",
    r"\bpaper (?:napkin|towel|bag|plane)s?\b|\bwood(?:en)? (?:fire|stove)s?\b|\bcotton wool\b",
)
"""What is not the product's, or is no thing at all, as patterns."""
NOUNS_FIRST = _words("ash, cherry, china, pearl, tin, brick, straw, wire, sand")
"""Of the ordinary words, those that are no adjective: what is one is made of it."""

STOCK: dict[str, str] = {
    "out": r"out of stock|(?:no longer|not) (?:in stock|available)|sold[\s-]out|unavailable"
    r"|(?<![不没未])(?:缺货|售罄|卖完|断货)|无货|没有?货",
    "in": r"in stock|(?<!没)有现?货|现货",
    "preorder": r"(?:on |for )?pre-?orders?|(?:on )?pre-?sale|预售|可以?预订",
    "backorder": r"(?:on )?back[\s-]?orders?|等待补货",
    "discontinued": r"discontinued|停产",
    "made": r"made to order|接单制作|按需制作",
}
"""What is said of a product's stock, as patterns."""

COUNTRIES = dict(
    entry.split(":")
    for entry in _words(
        "american:usa, austrian:austria, belgian:belgium, brazilian:brazil, british:britain, chinese:china, "
        "czech:czech, danish:denmark, dutch:netherlands, english:england, finnish:finland, french:france, "
        "german:germany, hungarian:hungary, icelandic:iceland, indian:india, indonesian:indonesia, irish:ireland, "
        "italian:italy, japanese:japan, korean:korea, mexican:mexico, moroccan:morocco, norwegian:norway, "
        "polish:poland, portuguese:portugal, scottish:scotland, spanish:spain, swedish:sweden, swiss:switzerland, "
        "taiwanese:taiwan, thai:thailand, turkish:turkey, vietnamese:vietnam, welsh:wales"
    )
)
HAN_COUNTRIES = _words(
    "美国, 奥地利, 比利时, 巴西, 英国, 中国, 捷克, 丹麦, 荷兰, 芬兰, 法国, 德国, 印度, 爱尔兰, 意大利, 日本, 韩国, "
    "墨西哥, 摩洛哥, 挪威, 波兰, 葡萄牙, 西班牙, 瑞典, 瑞士, 泰国, 土耳其, 越南"
)
"""Where a thing is from, in one word."""

BESIDE_THINGS = sorted(
    _words(
        "espresso, coffee, egg, lemon, apple, pear, orange, olive, tomato, onion, loaf, slice, spoonful, pinch, "
        "biscuit, guest, friend, neighbour, neighbor, child, morning, evening, night, meal, dinner, breakfast, "
        "book, flower, tulip, branch, reason, thing, word, song, product, item, stop, favourite, favorite, find"
    )
)
"""What is put in, on or beside a product, or is only spoken of: how many there are is nobody's fact."""
BESIDE_HAN = sorted(_words("柠檬, 面包, 咖啡, 茶, 鸡蛋, 苹果, 橙子, 水果, 鲜花, 花, 书, 朋友, 客人, 饼干, 早晨, 晚上"))
BODY = frozenset({"toes", "fingers", "thumbs", "hands", "eyes", "ears", "arms"})
"""Of which everybody has so many."""
