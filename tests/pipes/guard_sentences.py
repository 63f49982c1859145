"""What may be said of the demo catalogue and what may not: 200 sentences with a planted falsehood, 200 true ones.

`FALSE_LATER` and `TRUE_LATER` were written when the rules were there, in parts, and told how far these reached: of
120, from "A thousand euros" and from "Six products" on, half of the false ones were found at first sight and an eighth
of the true ones blamed; the last 57, from "half the price" and from "VG-10" on, are gaps that somebody had found: half
of the false ones passed, and three in four true ones were blamed. Rules are made for them now, too.

A line is `product| sentence`: the product that is spoken of when the sentence begins, "-" for none. What is false
stands in [brackets], which are taken out before the sentence is judged: a guard that points at another word has not
found it. One file, however long: it is a list, and is read as one.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from multimodal.pipes.facts import FactSheet
from multimodal.values import Product

__all__ = ["FALSE", "FALSE_LATER", "INVENTED", "TRUE", "TRUE_LATER", "Case"]


class Case(NamedTuple):
    """One sentence; `start` to `end` is what is false in it, of no length where all is true.

    Its language is that of the demo catalogue it is about, or ``invented``: about the sheets of `INVENTED`.
    """

    language: str
    product: str
    sentence: str
    start: int
    end: int


def _cases(language: str, lines: str) -> tuple[Case, ...]:
    found = []
    for line in lines.strip().splitlines():
        product, _, marked = line.partition("| ")
        start = max(0, marked.find("["))
        end = max(0, marked.find("]") - 1)
        sentence = marked.replace("[", "").replace("]", "")
        found.append(Case(language, "" if product == "-" else product, sentence, start, end))
    return tuple(found)


def _language(line: str) -> str:
    product, _, sentence = line.partition("| ")
    if any(sheet.product_id == product for sheet in INVENTED):
        return "invented"
    return "zh" if "\u4e00" <= sentence.strip("[")[0] <= "\u9fff" else "en"


INVENTED = tuple(
    FactSheet.of(product)
    for product in (
        Product(
            "marlow-tote",
            "Marlow Tote",
            price=Decimal("29.50"),
            currency="USD",
            brand="Tannery Row",
            availability="in_stock",
            facts=(
                ("material", "canvas, cowhide"),
                ("colour", "navy"),
                ("capacity", "14 litres"),
                ("origin", "Wales"),
            ),
        ),
        Product(
            "ember-runner",
            "Ember Runner",
            price=Decimal(118),
            currency="USD",
            brand="Strideline",
            availability="in_stock",
            facts=(
                ("upper", "mesh, suede"),
                ("colour", "coral"),
                ("weight", "250 grams"),
                *(("size", size) for size in ("40", "41", "42", "43")),
                ("origin", "Vietnam"),
            ),
        ),
        Product(
            "kestrel-speaker",
            "Kestrel Speaker",
            price=Decimal(199),
            currency="USD",
            brand="Audiolark",
            availability="preorder",
            facts=(
                ("model", "KS-40"),
                ("colour", "graphite"),
                ("battery life", "12 hours"),
                ("power", "20 W"),
                ("warranty", "2 years"),
            ),
        ),
        Product(
            "dew-soap",
            "Dew Soap Set",
            price=Decimal(18),
            currency="USD",
            availability="in_stock",
            facts=(("pieces", "6"), ("ingredients", "olive oil, beeswax"), ("weight", "100 grams each")),
        ),
        Product(
            "tarn-blanket",
            "Tarn Blanket",
            price=Decimal(1299),
            currency="EUR",
            availability="in_stock",
            facts=(
                ("material", "80 % wool / 20 % nylon"),
                ("length", "2 m"),
                ("width", "140 cm"),
                ("weight", "1100 g"),
                ("size", "S / M / L"),
                ("fringe", "3 colours"),
            ),
        ),
        Product(
            "hara-7500",
            "Hara Knife",
            price=Decimal(49),
            currency="EUR",
            availability="in_stock",
            facts=(
                ("material", "VG-10 steel, bouclé"),
                ("height", "20 cm"),
                ("width", "3 cm"),
                ("burns for", "45 hours"),
                ("warranty", "2 years"),
                ("capacity", "3 cups"),
                ("包含", "壶盖、滤网"),
            ),
        ),
    )
)
"""A second shop, for what the first one does not sell: a stock that is out, an origin, a model, sizes."""

_FALSE_EN = """
-| The Halo Kettle costs [79 euros].
-| You can have the Halo Kettle for [ninety-nine euros].
halo-kettle| It is yours for [€98].
halo-kettle| It sells at [$89].
halo-kettle| At [89 pounds], it is fairly priced.
halo-kettle| Now reduced to [69.90 euros].
-| The Halo Kettle holds [1.8 litres].
-| The Halo Kettle holds [two litres] of water.
-| The Halo Kettle is made of enamelled steel and [copper].
-| The hoop of the Halo Kettle is [oak].
halo-kettle| The hoop over the lid is carved from [walnut].
halo-kettle| Its enamel is a deep [blue].
halo-kettle| A kettle in glossy [red] enamel, with a long spout.
halo-kettle| It weighs [1.3 grams].
halo-kettle| It weighs [2.3 kilograms] empty.
halo-kettle| The kettle carries a guarantee of [ten years].
halo-kettle| It boils in [four minutes].
-| The Halo Kettle, made by [Alessi], works on gas, electric and induction.
-| The Pebbledash Mug costs [twenty-nine euros].
-| The Pebbledash Mug is [forty-two euros].
-| Our Pebbledash Mug comes at [24 dollars].
pebbledash-mug| It is priced at [2.40 euros].
pebbledash-mug| It takes [250 millilitres], a proper morning coffee.
pebbledash-mug| It takes [half a litre] of tea.
pebbledash-mug| The mug stands [twelve centimetres] tall.
pebbledash-mug| It stands [10 inches] tall.
-| The Pebbledash Mug is thrown in [porcelain].
pebbledash-mug| Under the glaze is fine [bone china].
pebbledash-mug| The glaze is [turquoise], freckled with iron.
pebbledash-mug| Cream on the outside and [emerald] within.
pebbledash-mug| It comes in a set of [six].
-| The Brooklet Carafe costs [56 euros].
-| The Brooklet Carafe is [64 EUR].
brooklet-carafe| Forty-six euros for the carafe, and [twelve euros] more for the tumbler.
brooklet-carafe| It holds [1.5 litres].
brooklet-carafe| It holds [one and a half litres] of water.
brooklet-carafe| It holds [1100 litres] of water.
-| The Brooklet Carafe is blown from [crystal].
-| The Brooklet Carafe is moulded in clear [plastic].
brooklet-carafe| The stopper is [cork].
brooklet-carafe| The glass has a faint [green] tint.
brooklet-carafe| It comes with [four] tumblers.
brooklet-carafe| It is [32 centimetres] high.
-| The Grindle Mill costs [93 euros].
-| The Grindle Mill is [thirty-five euros].
grindle-mill| You pay [39 Swiss francs].
grindle-mill| It costs [thirty nine dollars].
-| The Grindle Mill is turned from [beech].
-| The Grindle Mill is turned from one block of [cherry].
-| The Grindle Mill has a grinder of [stainless steel].
grindle-mill| The knob on top is [chrome].
grindle-mill| It stands [31 centimetres] tall.
grindle-mill| It stands [twenty-eight centimetres] tall.
grindle-mill| It stands [21 millimetres] tall.
grindle-mill| The mill is stained [black].
grindle-mill| The grinder has [eighteen] settings.
-| The Otterby Stool costs [190 euros].
-| The Otterby Stool is [one hundred and ninety euros].
-| The Otterby Stool costs [a hundred and nine euros].
otterby-stool| It is [119 pounds sterling].
otterby-stool| It stands on [four] splayed legs.
otterby-stool| This is a [four]-legged stool.
otterby-stool| The seat is [65 centimetres] high.
otterby-stool| The seat is [fifty-four centimetres] from the floor.
otterby-stool| It carries [150 kilograms].
otterby-stool| It carries up to [220 kg].
-| The Otterby Stool is made of [pine] and brass.
-| The Otterby Stool is oak with a ring of [copper].
otterby-stool| The ring is of [stainless steel].
otterby-stool| The seat is covered in [leather].
otterby-stool| The legs are painted [white].
-| The Tidewater Vase costs [86 euros].
-| The Tidewater Vase is [seventy-eight euros].
tidewater-vase| It is [68 yen].
tidewater-vase| It is [18 centimetres] tall.
tidewater-vase| It is [82 cm] tall.
tidewater-vase| It is [twenty-three centimetres] tall.
-| The Tidewater Vase is [porcelain].
-| The Tidewater Vase is of hand-cut [glass].
tidewater-vase| Its glaze is [crimson].
tidewater-vase| The glaze is a soft [lavender].
-| The Tidewater Vase is a tall vase in [saffron yellow].
tidewater-vase| It has [twenty] flutes.
-| The Vesper Lamp costs [154 euros].
-| The Vesper Lamp is [a hundred and fifty-four euros].
vesper-lamp| It is [€1,450].
vesper-lamp| You will find it at [145 US dollars].
-| The Vesper Lamp has a base of [marble].
-| The Vesper Lamp has a [walnut] base.
vesper-lamp| The shade is [silk].
vesper-lamp| The shade is made of [paper].
vesper-lamp| The shade is [pink].
vesper-lamp| It stands [84 centimetres] high.
vesper-lamp| The cord is [3 metres] long.
vesper-lamp| The cord is [two feet] long.
vesper-lamp| The cord is of braided [nylon].
vesper-lamp| The lamp takes a bulb of [60 watts].
-| The Merrin Clock costs [59 euros].
-| The Merrin Clock is [eighty-five euros].
merrin-clock| It costs [95 cents].
merrin-clock| Its diameter is [28 centimetres].
merrin-clock| It is [eighteen inches] across.
merrin-clock| It runs on [two] AA batteries.
merrin-clock| It needs [3 AA batteries].
-| The Merrin Clock is made of brass and [walnut].
-| The Merrin Clock has a case of [silver].
merrin-clock| The second hand is [blue].
merrin-clock| The cradle is [mahogany].
merrin-clock| A battery lasts [eighteen months].
-| The Harrow Board costs [45 euros].
-| The Harrow Board is [fifty-eight euros].
harrow-board| It is cut from one plank of [maple].
harrow-board| It is cut from [olive wood].
harrow-board| A thong of [hemp] is threaded through the loop.
harrow-board| It is [94 centimetres] long.
harrow-board| It is [49 inches] long.
harrow-board| It measures 49 x [25] cm.
harrow-board| It measures [45] by 22 centimetres.
harrow-board| It is [3.2 centimetres] thick.
harrow-board| It is [two centimetres] thick.
-| The Marram Salt Pig costs [63 euros].
-| The Marram Salt Pig is [thirty-three euros].
marram-salt-pig| It holds [800 grams] of salt.
marram-salt-pig| It holds [six kilograms] of salt.
marram-salt-pig| It comes with a spoon of [olive wood].
marram-salt-pig| The spoon is [oak].
marram-salt-pig| It is glazed in [mint].
marram-salt-pig| It is saffron yellow outside and [white] inside.
-| The Rosehip Bowl costs [27 euros].
rosehip-bowl| It is [23 cm] across.
rosehip-bowl| It is glazed in [cobalt blue].
-| The Rosehip Bowl is carved from [marble].
emberley-candlestick| It is cast in [bronze].
emberley-candlestick| It weighs [1.9 kg].
emberley-candlestick| The candle is of [paraffin wax] and [two] of them are included.
-| The Squall Umbrella Stand holds [a dozen] umbrellas.
-| The Squall Umbrella Stand costs [182 euros].
squall-umbrella-stand| The tray below is [bamboo].
-| The Rillet Watering Can holds [four litres].
-| The Rillet Watering Can is of [zinc] and brass.
-| The Quarry Bookends are sawn from [granite].
quarry-bookends| They weigh [8.4 kilograms] each.
-| The Thrum Pouf costs [one hundred and ninety-three euros].
-| The Thrum Pouf is knitted in [cotton].
thrum-pouf| The pouf is [olive green].
"""

_FALSE_ZH = """
-| 光环烧水壶售价 [98 欧元]。
-| 光环烧水壶只要[八十六欧元]。
halo-kettle| 它的价格是 [89 美元]。
halo-kettle| 现在买只要[八十九元]。
halo-kettle| 容量 [2 升]。
halo-kettle| 一次能烧[一点八升]水。
halo-kettle| 提梁用[橡木]制成。
halo-kettle| 壶身是鲜亮的[红色]。
halo-kettle| 它重 [1.3 克]。
-| 石砾马克杯卖[四十二欧元]。
pebbledash-mug| 这只杯子用[骨瓷]烧成。
pebbledash-mug| 容量 [530 毫升]，早上喝咖啡正好。
pebbledash-mug| 高[十二厘米]。
pebbledash-mug| 釉面是[天蓝色]的。
-| 小溪玻璃水瓶售价 [64 欧元]。
brooklet-carafe| 它能装[一点五升]水。
brooklet-carafe| 瓶身由[水晶]制成。
brooklet-carafe| 附送[四只]水杯。
-| 格林胡椒磨用整块[橡木]车制。
-| 格林胡椒磨的磨芯是[不锈钢]的。
grindle-mill| 高 [12 厘米]。
grindle-mill| 价格为[三十六欧元]。
grindle-mill| 旋钮是[紫铜]的。
-| 水獭圆凳有[四条]腿。
otterby-stool| 座高 [54 厘米]。
otterby-stool| 可以承重[一百五十千克]。
otterby-stool| 圆环是[不锈钢]的。
otterby-stool| 它的价格是[一百九十欧元]。
-| 潮汐花瓶是[玻璃]的。
tidewater-vase| 花瓶施[翠绿色]的釉。
tidewater-vase| 高 [82 厘米]。
tidewater-vase| 只卖[六十六欧元]。
-| 暮光台灯的灯罩用[真丝]制成。
-| 暮光台灯的底座是[大理石]。
vesper-lamp| 电线长 [3 米]。
vesper-lamp| 售价[一百五十四欧元]。
vesper-lamp| 灯罩是[粉色]的。
-| 梅林座钟的钟壳是[银]制的。
merrin-clock| 直径 [28 厘米]。
merrin-clock| 需要[两节] AA 电池。
merrin-clock| 一根细细的[蓝]针走着秒。
-| 田垄面包板由[枫木]切成。
harrow-board| 板长 [94 厘米]。
harrow-board| 厚[两厘米]。
harrow-board| 价格是 [45 欧元]。
-| 沙草盐罐能装 [800 克]盐。
marram-salt-pig| 附带一只[橡木]小勺。
marram-salt-pig| 内壁是[白色]的。
-| 蔷薇果碗直径[二十三厘米]。
rosehip-bowl| 大碗施[钴蓝]釉。
-| 余烬烛台由[青铜]铸成。
-| 骤雨伞架可以放[十二把]雨伞。
-| 细流浇水壶容量 [4.1 升]。
-| 山石书挡由[花岗岩]切成。
-| 绒线坐墩是[灰色]的，直径 60 厘米。
"""

_TRUE_EN = """
-| Good evening, and welcome to Larkmoor.
-| Welcome! Let us look at a few things together, one at a time.
-| Thank you for coming; a thousand thanks, really.
-| First of all, pour yourself a glass of water and sit down.
-| There are fifteen or so ways to begin, and none of them is wrong.
-| We have all day, so take a second to settle in.
-| One more thing before we start.
-| The Halo Kettle costs 89 euros.
-| The Halo Kettle costs eighty-nine euros.
-| The Halo Kettle: €89.00.
halo-kettle| It is yours for 89 EUR.
halo-kettle| It is a stovetop kettle in deep green enamel.
halo-kettle| A hoop of ash and brass rises over the lid.
halo-kettle| It holds 1.6 litres, or 1600 ml if you prefer.
halo-kettle| It holds 1,600 millilitres.
halo-kettle| Empty, it weighs 1.3 kg.
halo-kettle| That makes it one point three kilograms on the scales.
halo-kettle| It weighs 1300 grams.
halo-kettle| It works on gas, electric and induction hobs.
halo-kettle| The spout is long and narrow, so the pour stays slow and exact.
halo-kettle| Once it sings, you know the tea is only minutes away.
halo-kettle| It is, in a word, a kettle you will want to leave out.
-| The Pebbledash Mug is twenty-four euros.
-| At 24 euros, the Pebbledash Mug is a small pleasure.
pebbledash-mug| It is a straight-sided stoneware mug.
pebbledash-mug| The cream glaze is freckled with iron.
pebbledash-mug| Its glaze breaks to rust along the rim, and the foot is bare clay.
pebbledash-mug| It takes three hundred and fifty millilitres.
pebbledash-mug| That is 0.35 litres.
pebbledash-mug| It stands ten centimetres high.
pebbledash-mug| It can go into the dishwasher and the microwave.
pebbledash-mug| No two mornings are quite the same.
pebbledash-mug| You will reach for it first thing in the morning.
-| The Brooklet Carafe is clear borosilicate glass.
-| The Brooklet Carafe costs forty-six euros.
brooklet-carafe| Its tumbler rests upside down over the neck.
brooklet-carafe| It holds 1.1 litres.
brooklet-carafe| It holds 110 centilitres.
brooklet-carafe| Carafe and tumbler come as a set of two, so to speak.
brooklet-carafe| A glass of water is never far away.
brooklet-carafe| Put it on the night table, and you are all set.
-| The Grindle Mill is 39 euros.
-| The Grindle Mill is turned from one block of walnut.
grindle-mill| Inside is a ceramic grinder.
grindle-mill| The brass knob on top sets the grind from dust to gravel.
grindle-mill| It stands 21 cm tall.
grindle-mill| It is twenty-one centimetres tall.
grindle-mill| It measures 210 millimetres in height.
grindle-mill| Wipe it with a dry cloth, and that is that.
grindle-mill| Turn it once or twice over a tomato.
-| The Otterby Stool stands on three legs.
-| The Otterby Stool is a three-legged stool in oak.
-| The Otterby Stool costs a hundred and nineteen euros.
-| The Otterby Stool costs one hundred nineteen euros.
otterby-stool| It is €119.
otterby-stool| It carries 120 kilograms.
otterby-stool| It carries 120 kg.
otterby-stool| The seat is 45 centimetres high and dished by hand.
otterby-stool| That is 0.45 metres from the floor.
otterby-stool| A ring of brass ties the legs together and serves as a footrest.
otterby-stool| The finish is hard wax oil.
otterby-stool| It is the one you will fight over at breakfast.
otterby-stool| Everyone wants to sit on it, and only one can.
-| The Tidewater Vase is 68 euros.
-| The Tidewater Vase is a round-bellied vase in cobalt glaze.
tidewater-vase| It is cobalt blue, and 28 centimetres tall.
tidewater-vase| It is made of stoneware, and its flutes are cut by hand.
tidewater-vase| They twist as they climb, so the colour pools in the grooves.
tidewater-vase| Inside it is glazed, so it holds water.
tidewater-vase| Even half full it looks generous.
tidewater-vase| A single branch in it says more than a hundred words.
-| The Vesper Lamp costs 145 euros.
-| The Vesper Lamp is one hundred and forty-five euros.
vesper-lamp| Its terracotta base is thrown on the wheel.
vesper-lamp| The shade is natural linen.
vesper-lamp| It has a brass neck with a turning switch.
vesper-lamp| The cord is two metres of braided cotton.
vesper-lamp| The cord is 200 cm long.
vesper-lamp| It takes an E27 bulb, which is not included.
vesper-lamp| It stands forty-eight centimetres high.
vesper-lamp| As the evening draws in, the room turns gold... well, that is up to you.
vesper-lamp| It makes a quiet corner at the end of the day.
-| The Merrin Clock is silent.
-| The Merrin Clock costs ninety-five euros.
-| At €95.00 the Merrin Clock is ours at Larkmoor.
merrin-clock| The brass case stands in a cradle of oak.
merrin-clock| A thin red second hand goes round the face.
merrin-clock| It runs on one AA battery.
merrin-clock| Its movement is silent quartz, and it has no alarm.
merrin-clock| Sixty seconds a minute, and not a sound.
merrin-clock| It tells the time twenty-four hours a day.
merrin-clock| Seconds pass, and nobody hears them.
-| The Harrow Board is cut from one plank of cherry.
-| The Harrow Board costs fifty-four euros.
harrow-board| It is 49 centimetres long and 22 wide.
harrow-board| It measures 49 x 22 cm.
harrow-board| It measures 49 by 22 by 2.3 centimetres.
harrow-board| It is 23 millimetres thick.
harrow-board| Oil it twice a year.
harrow-board| Wipe it clean and oil it two times a year.
harrow-board| The handle ends in a loop with a leather thong.
harrow-board| Bread tastes better when it is cut on wood.
harrow-board| It hangs where the bread is and never crowds the worktop.
-| The Marram Salt Pig costs thirty-six euros.
-| The Marram Salt Pig is saffron yellow, with cream inside.
marram-salt-pig| It holds 600 grams of salt.
marram-salt-pig| It holds 0.6 kg of salt.
marram-salt-pig| A beech spoon is included.
marram-salt-pig| It is thrown in one piece and stands 16 centimetres high.
marram-salt-pig| Its wide mouth takes a whole hand.
marram-salt-pig| You add a pinch, then a second one.
-| The Rosehip Bowl is 72 euros.
-| The Rosehip Bowl is a wide bowl in oxblood glaze.
rosehip-bowl| It is 32 cm across and 10 cm high.
rosehip-bowl| The red runs thin at the rim and leaves a pale line.
rosehip-bowl| It is deep enough for a week of fruit.
rosehip-bowl| Fill it with apples on Sunday and it will see you through seven days.
rosehip-bowl| No two firings draw it alike.
rosehip-bowl| Stoneware like this goes into the dishwasher.
-| The Emberley Candlestick is cast iron.
-| The Emberley Candlestick costs 42 euros.
emberley-candlestick| It is blackened with wax and weighs 0.9 kilograms.
emberley-candlestick| That is nine hundred grams.
emberley-candlestick| One candle of beeswax is included.
emberley-candlestick| The loop at its side is made for one finger.
emberley-candlestick| The dish is 16 centimetres across.
emberley-candlestick| Carry it from room to room as in the old days.
-| The Squall Umbrella Stand holds eight umbrellas.
-| The Squall Umbrella Stand costs one hundred and twenty-eight euros.
squall-umbrella-stand| It is rust red, of powder-coated steel and oiled oak.
squall-umbrella-stand| It is 56 centimetres tall, and the tray lifts out.
squall-umbrella-stand| On a rainy day, whatever drips gathers in the oak tray.
-| The Rillet Watering Can is copper and brass, tinned inside.
-| The Rillet Watering Can holds 1.4 litres.
rillet-watering-can| It is eighteen centimetres high and thirty-one long.
rillet-watering-can| It costs 84 euros, and your ferns will thank you.
-| The Quarry Bookends are white marble with grey veins.
quarry-bookends| The two of them weigh 4.8 kilograms each, with felt underneath.
quarry-bookends| There are two bookends in the set, for 78 euros.
-| The Thrum Pouf is plum, and knitted in wool.
thrum-pouf| Its filling is felt offcuts, and it is 60 centimetres across.
thrum-pouf| It costs a hundred and thirty-nine euros.
-| That was our tour; if one of these speaks to you, ask away at any time.
"""

_TRUE_ZH = """
-| 大家好，欢迎来到云雀原。
-| 今天我们一起来看几样东西，一件一件慢慢看。
-| 先给自己倒一杯水，坐下来歇一会儿。
-| 千万别着急，我们有的是时间。
-| 光环烧水壶售价 89 欧元。
-| 光环烧水壶只要八十九欧元。
halo-kettle| 外层是深绿色珐琅。
halo-kettle| 白蜡木与黄铜合成的提梁高高架在壶盖上方。
halo-kettle| 容量 1.6 升，也就是 1600 毫升。
halo-kettle| 一次能烧一点六升水。
halo-kettle| 重 1.3 公斤。
halo-kettle| 燃气灶、电炉和电磁炉都能用。
halo-kettle| 水一开，一家人就都围过来了。
-| 石砾马克杯二十四欧元。
pebbledash-mug| 直身的炻器，奶油色釉面上散布着铁褐色斑点。
pebbledash-mug| 容量三百五十毫升，高十厘米。
pebbledash-mug| 釉色在杯口泛出铁锈红。
pebbledash-mug| 洗碗机和微波炉都可以用，十分省心。
-| 小溪玻璃水瓶用硼硅玻璃制成，透明。
brooklet-carafe| 容量 1.1 升，水瓶和水杯各一只。
brooklet-carafe| 有人口渴的时候，拿起来就能喝。
brooklet-carafe| 价格是四十六欧元。
-| 格林胡椒磨用整块胡桃木车制，内装陶瓷磨芯。
grindle-mill| 顶上的黄铜旋钮可调粗细。
grindle-mill| 高 21 厘米，售价三十九欧元。
grindle-mill| 用干布一擦就行。
-| 水獭圆凳有三条外撇的凳腿。
otterby-stool| 座高四十五厘米，承重 120 千克。
otterby-stool| 售价一百一十九欧元。
otterby-stool| 一道黄铜圆环把凳腿连成一体。
otterby-stool| 凳面是手工挖出的，一坐就知道。
-| 潮汐花瓶高 28 厘米，施钴蓝釉。
tidewater-vase| 凹槽由手工刻出，一路旋转向上。
tidewater-vase| 六十八欧元就能带回家。
tidewater-vase| 插上一枝花，整个房间都不一样了。
-| 暮光台灯的底座是赤陶，灯罩是本色亚麻。
vesper-lamp| 电线是两米长的棉编织线。
vesper-lamp| 高四十八厘米，E27 灯泡，不含。
vesper-lamp| 售价 145 欧元。
-| 梅林座钟的黄铜钟壳立在橡木托座上。
merrin-clock| 一根细细的红针走着秒。
merrin-clock| 直径十八厘米，用一节 AA 电池。
merrin-clock| 一天二十四小时，它都不出声。
-| 田垄面包板由整块樱桃木切成，穿着皮绳。
harrow-board| 长 49 厘米，宽 22 厘米，厚 2.3 厘米。
harrow-board| 每年上油两次。
harrow-board| 五十四欧元，用一辈子。
-| 沙草盐罐能装六百克盐，也就是 0.6 千克。
marram-salt-pig| 藏红花黄，内壁奶油色，附榉木小勺。
-| 蔷薇果碗直径三十二厘米，施牛血红釉。
rosehip-bowl| 深得能装下一周的水果。
-| 余烬烛台由铸铁制成，重 900 克。
-| 骤雨伞架是铁锈红的，可放八把雨伞。
-| 细流浇水壶由紫铜和黄铜制成，内壁镀锡。
-| 山石书挡是白色大理石，带灰色纹理，每只 4.8 千克。
-| 绒线坐墩用梅子紫的羊毛织成，里面填着毛毡边料。
thrum-pouf| 一百三十九欧元，双脚一放就不想起来。
"""

FALSE = (*_cases("en", _FALSE_EN), *_cases("zh", _FALSE_ZH))
TRUE = (*_cases("en", _TRUE_EN), *_cases("zh", _TRUE_ZH))

_FALSE_LATER = """
-| For the Halo Kettle we ask [a hundred euros] even.
halo-kettle| Eighty-nine euros? No: [eighty-four euros] today.
halo-kettle| Right now it is [half price].
halo-kettle| It boils [a litre] of water, no more.
halo-kettle| Its handle is [bamboo] and brass.
halo-kettle| It is powered by [2200 watts].
halo-kettle| The enamel was fired [seven times] a year.
pebbledash-mug| Its speckles are [gold].
pebbledash-mug| It weighs [400 g].
pebbledash-mug| This mug was designed by [Arne Jacobsen].
brooklet-carafe| It pours [seven] glasses of water.
brooklet-carafe| Made in [Bohemia], it is as clear as spring water.
brooklet-carafe| Its tumbler is of [blue] glass.
grindle-mill| It is 8.3 inches tall, and [30 cm] wide.
grindle-mill| With a [ten]-year guarantee on the grinder.
grindle-mill| The knob is of [pewter].
otterby-stool| You save [20 %] this week.
otterby-stool| It seats [two people].
otterby-stool| It comes down to [one hundred and nine euros].
otterby-stool| The seat is padded with [foam].
tidewater-vase| The glaze is [jade green].
tidewater-vase| It was made in [1968].
tidewater-vase| It holds [1.5 litres] of water.
vesper-lamp| It takes an [E14] bulb.
vesper-lamp| The shade is of [parchment].
vesper-lamp| It is the [violet] one over there.
merrin-clock| The face is [ivory].
merrin-clock| It measures between [20 and 25 cm].
harrow-board| A board of solid [oak].
harrow-board| The thong is [rubber].
marram-salt-pig| It holds [a pound and a half] of salt.
rosehip-bowl| It comes with [three] matching plates.
emberley-candlestick| It weighs [90 grams].
squall-umbrella-stand| It takes [ten or twelve] umbrellas.
squall-umbrella-stand| It is [black].
rillet-watering-can| It is [nickel] inside.
quarry-bookends| Together they weigh [12 kilograms].
thrum-pouf| It is filled with [feathers].
halo-kettle| 它用[不锈钢]制成。
halo-kettle| 现在打[八折]。
pebbledash-mug| 杯口泛出[金色]。
brooklet-carafe| 由[宜家]设计。
grindle-mill| 它用[榉木]做的。
otterby-stool| 凳子重[六千克]。
tidewater-vase| 花瓶是[深绿色]的。
vesper-lamp| 附送一只 [60 瓦]灯泡。
merrin-clock| 价格从一百欧元降到[九十欧元]。
harrow-board| 板子是[竹]制的。
thrum-pouf| 坐墩直径[六米]。
thrum-pouf| 它是[蓝色]的。
halo-kettle| You could take it home for [ninety] euros.
halo-kettle| Its lid is [silver].
pebbledash-mug| Each mug weighs [350 grams].
pebbledash-mug| It goes for [€42].
brooklet-carafe| It is [25 cm] tall and holds 1.1 litres.
brooklet-carafe| A carafe of smoked [grey] glass.
grindle-mill| Inside, a [steel] grinder does the work.
grindle-mill| The maker, [Peugeot], has done this for a century.
otterby-stool| It bears a man of 120 kilograms, or two of [75 kg].
otterby-stool| A stool with [five] legs.
tidewater-vase| It is glazed in [celadon].
tidewater-vase| Sixty-[nine] euros is all it costs.
vesper-lamp| It has a [three]-metre cord.
vesper-lamp| Its base is [porcelain].
merrin-clock| The hands are [gold].
merrin-clock| It has [two] alarms.
harrow-board| It is made from [beech].
harrow-board| It is 49 centimetres long and [32] wide.
marram-salt-pig| It stands [26 cm] high.
rosehip-bowl| It measures [40 centimetres] across.
emberley-candlestick| It comes with [three] candles.
squall-umbrella-stand| It has a tray of [walnut].
rillet-watering-can| It was made in [Portugal].
quarry-bookends| They are [eighteen centimetres] tall.
thrum-pouf| It is stuffed with [cotton].
halo-kettle| 价格是[七十九欧元]。
pebbledash-mug| 杯子高[十五厘米]。
otterby-stool| 凳子用[松木]做成。
merrin-clock| 秒针是[绿色]的。
quarry-bookends| 每只重[八千克]。
halo-kettle| A thousand euros would be a lot, but at [0.9k euros] it is a find.
halo-kettle| It is listed at [€1.1k].
halo-kettle| It costs [75].
halo-kettle| For [85] it is yours.
halo-kettle| You pay [hundreds of euros] for a thing like this.
halo-kettle| 89 euros [a week] is what you pay.
halo-kettle| It holds [a pint] of water.
halo-kettle| A [stainless-steel] lid keeps the heat in.
halo-kettle| Larkmoor no longer has it: it is [sold out].
pebbledash-mug| Sorry, this one is [out of stock].
pebbledash-mug| It comes with [a pair of] spoons.
pebbledash-mug| The mug is [handcrafted in Cornwall].
pebbledash-mug| This is a [Denby].
pebbledash-mug| Take [a third off] the price.
brooklet-carafe| It is [hand-blown in Murano].
brooklet-carafe| You get [twenty percent off] this week.
brooklet-carafe| The neck is [copper-rimmed].
brooklet-carafe| It stands [nearly a foot] high.
grindle-mill| An [ebony-black] finish suits any table.
grindle-mill| By [Peugeot], as every cook knows.
grindle-mill| It is [a metre] tall.
otterby-stool| The seat is [ash], the ring is brass.
otterby-stool| It carries [a tonne].
otterby-stool| Its price of [190] is a bargain.
tidewater-vase| It was [fired in Denmark].
tidewater-vase| The vase is a shade of [bottle-green].
vesper-lamp| The cord is [a yard] long.
vesper-lamp| Currently it is [on back order].
vesper-lamp| It is priced at [154].
merrin-clock| It is a [Seiko].
merrin-clock| The case is [rose-gold].
harrow-board| It is [half off] until Sunday.
rosehip-bowl| [Dozens of dollars] less than you would think.
thrum-pouf| It costs 139 euros [a month].
quarry-bookends| They come as [a trio].
halo-kettle| 壶身是[纯银]的。
halo-kettle| 这款水壶[已售罄]。
grindle-mill| 磨身用的是[松木]。
otterby-stool| 圆环是[纯铁]的。
otterby-stool| 每月只要[一百一十九欧元]。
brooklet-carafe| 一只水瓶能装[三升]。
merrin-clock| 它[产自瑞士]。
rosehip-bowl| 售价[六十二]。
marlow-tote| It is sewn from [linen], with a leather strap.
marlow-tote| It is [made in Italy].
marlow-tote| It costs [39.50].
marlow-tote| A [Longchamp], if you ask me.
marlow-tote| It holds [forty litres].
ember-runner| It comes in [size 46].
ember-runner| Its upper is [leather].
ember-runner| It is [assembled in Germany].
ember-runner| You will pay [$1.18k] for the pair.
ember-runner| It is [teal] with a white sole.
kestrel-speaker| It plays for [twenty hours].
kestrel-speaker| It is [in stock] and leaves today.
kestrel-speaker| By [Sonos], with a warranty of two years.
kestrel-speaker| The warranty is [five years].
dew-soap| [Eight] bars in a box.
dew-soap| It is yours for [25 dollars].
kestrel-speaker| The cone is made of [titanium].
halo-kettle| [Once a month], wipe it with a little vinegar.
grindle-mill| [每个月擦一次]就够了。
hara-7500| It is yours for [half the price] of the others.
hara-7500| It carries a [lifetime warranty].
hara-7500| It is [guaranteed for life].
hara-7500| 它[终身质保]。
hara-7500| 它配[四只]茶杯。
hara-7500| It costs [20].
hara-7500| It costs [7500].
hara-7500| It costs [-49 euros].
hara-7500| For [a fiver] it is yours.
hara-7500| Today it is [free].
hara-7500| [Buy one, get one] free.
hara-7500| It costs [under forty euros].
hara-7500| It costs [under 200 euros].
hara-7500| It burns for [nearly three days].
hara-7500| It is [3 cm] tall.
hara-7500| It has a width of [20 cm].
hara-7500| It is made from [VG-11] leather.
hara-7500| It is not made of [steel].
hara-7500| It costs [4900 euros].
hara-7500| [Two of them are 90 euros].
tarn-blanket| It is [20 % wool].
tarn-blanket| It is [pure wool].
tarn-blanket| It is [mostly nylon].
tarn-blanket| It contains no [wool].
tarn-blanket| [百分之百纯羊毛]的毯子。
tarn-blanket| It is [one metre sixty] wide.
tarn-blanket| It costs [1.399 euros].
tarn-blanket| It comes in [four] sizes.
tarn-blanket| 它重[一公斤三百克]。
tarn-blanket| 它[宽两米]。
tarn-blanket| [不到一千元]就能带回家。
"""

_TRUE_LATER = """
-| Ready? Then off we go, one step at a time.
-| I could talk about these for hours, but two minutes will do... no, take your time.
-| Nine out of ten people start with tea.
-| This one is for the cooks among you.
-| It is clear that somebody cared.
-| If you have felt lost in large shops, stay a while.
-| The first three stops are for the kitchen.
halo-kettle| Between the two of us, it is my favourite.
halo-kettle| It will not mind an open flame, and neither will you at five o'clock.
halo-kettle| Mint tea, black tea, green tea: it boils water for all of them.
halo-kettle| In deep green, with brass at the joints, it looks at home anywhere.
halo-kettle| Its handle is partly wood and partly metal.
halo-kettle| 89.00 EUR, and 1.3 kg on the scales.
pebbledash-mug| Fill it with black coffee or with orange juice.
pebbledash-mug| A ceramic mug with a bare foot.
pebbledash-mug| It is a third of a litre and a little more.
pebbledash-mug| For 24 euros you get a mug that gets along with the dishwasher.
brooklet-carafe| Pour yourself another glass, and one for your neighbour.
brooklet-carafe| The tumbler keeps the dust out until somebody is thirsty.
brooklet-carafe| At night, on the second shelf, it catches the light.
grindle-mill| Freshly ground black pepper makes a second dish of it.
grindle-mill| It is about as tall as a hand is long: 21 centimetres.
grindle-mill| Its knob is brass, its body walnut, its grinder ceramic.
otterby-stool| Three legs never wobble, as any farmer will tell you.
otterby-stool| It is wooden, and it shows.
otterby-stool| On cold feet, the ring is a blessing.
tidewater-vase| Fill it with yellow tulips or a few white lilies.
tidewater-vase| The blue vase is twenty-eight centimetres tall.
tidewater-vase| No other pot looks quite as well on an empty table.
vesper-lamp| Read under it with a glass of red wine.
vesper-lamp| Linen softens the light, and brass holds it up.
vesper-lamp| It has a cord of 2 m in braided cotton.
vesper-lamp| In the evening it is the last one to go out.
merrin-clock| It will not tick at three in the morning.
merrin-clock| It is one of those things that one stops noticing, in the best sense.
merrin-clock| The hours are marked by plain bars.
harrow-board| Cut a loaf in two, or in twenty, and it will not complain.
harrow-board| A cherry board for 54 euros, with a loop of leather to hang it by.
harrow-board| It is 19 inches long.
marram-salt-pig| Salt keeps dry in it, whatever steams on the stove.
marram-salt-pig| The yellow pot with the wide mouth is thirty-six euros.
rosehip-bowl| Apples, pears, an orange or two: there is room for all of them.
rosehip-bowl| The red bowl is 32 by 10 centimetres.
emberley-candlestick| An iron candlestick, black all over.
emberley-candlestick| It has nerves of steel, one might say.
squall-umbrella-stand| Eight umbrellas fit, and the tray below lifts out.
rillet-watering-can| Green leaves and thirsty soil are what it was made for.
rillet-watering-can| It holds just 1.4 litres, so it never gets heavy.
quarry-bookends| They stay where you put them, set in stone as it were.
thrum-pouf| The purple pouf is woollen, and as round as the moon.
thrum-pouf| Put up your feet, all ten toes of them.
-| 第一站，我们去厨房看看。
halo-kettle| 万一水烧开了您没听见，也不要紧。
halo-kettle| 绿色的壶身配上黄铜，十分好看。
pebbledash-mug| 早上来一杯红茶或者黑咖啡，都合适。
brooklet-carafe| 一杯清水，三五好友。
grindle-mill| 木头的磨身，陶瓷的磨芯，用起来得心应手。
otterby-stool| 三条腿的凳子最稳。
merrin-clock| 夜里三点钟，它也安安静静。
thrum-pouf| 紫色的坐墩，四平八稳。
-| Let us begin with the kitchen, where most days begin.
-| There are a few more rooms to see, so stay with me.
halo-kettle| Fill it, light the gas, and wait for the song.
halo-kettle| Ninety seconds of silence and then steam: no, I am only guessing.
halo-kettle| It pours as slowly as you like, which tea lovers will notice.
pebbledash-mug| Hold it in both hands on a cold morning.
pebbledash-mug| It fits two espressos and the milk, with room to spare.
brooklet-carafe| On a hot day, add a slice of lemon and some ice.
brooklet-carafe| One carafe, one tumbler, no dust.
grindle-mill| Coarse for steak, fine for soup.
grindle-mill| Its walnut darkens a little with the years.
otterby-stool| Pull it up to the counter and put your feet on the brass ring.
otterby-stool| A child of ten can carry it.
tidewater-vase| Even empty, it fills a windowsill with blue.
tidewater-vase| Each flute was cut by hand, one after the other.
vesper-lamp| Turn the switch on its neck and the linen glows.
vesper-lamp| Put it by the bed and read one more chapter.
merrin-clock| It is ten past eight somewhere in the world.
merrin-clock| One battery keeps it going.
harrow-board| Bread, cheese, a few olives, and dinner is done.
harrow-board| Hang it by its leather loop on a nail.
marram-salt-pig| Your whole hand fits, even with flour on it.
rosehip-bowl| Oranges and lemons look best against that red.
emberley-candlestick| A single candle is enough to find the stairs.
squall-umbrella-stand| Eight people can come in from the rain.
-| 欢迎光临，随便看看。
halo-kettle| 黄铜的接头越用越亮。
brooklet-carafe| 加两片柠檬，冰镇一下。
harrow-board| 切三片面包，配点黄油。
vesper-lamp| 晚上在灯下读一本书，白天它也好看。
-| Six products, one evening, no hurry.
-| We look at three of them first.
-| It takes two hands to carry them all, so let me do it.
-| Mrs. Green asked for this one last week.
-| My neighbour, Mr. White, swears by it.
-| Here is the second of our sixteen pieces.
-| A pair of eyes is all you need.
-| Half of you have seen it already.
-| By Jove, that is a good evening.
-| It is Monday, and the shop is yours.
-| It is England in autumn, if a room can be that.
halo-kettle| It costs 89.
halo-kettle| For 89 euros it is yours.
halo-kettle| It is in stock, and can leave today.
halo-kettle| By Larkmoor, and built to be used.
halo-kettle| It is a Larkmoor, through and through.
halo-kettle| Half full, it boils sooner.
halo-kettle| It costs nothing to look.
halo-kettle| The steel is enamelled, the hoop is of brass and ash.
pebbledash-mug| A pair of them would look good on the shelf.
pebbledash-mug| Two of them make a gift.
pebbledash-mug| It is not out of stock, as some feared.
brooklet-carafe| A gallon of water is more than it was made for.
grindle-mill| Half a turn is enough for an egg.
grindle-mill| A brass-topped mill of walnut, twenty-one centimetres tall.
otterby-stool| It stands in kitchens from Lisbon to Oslo.
otterby-stool| It costs one hundred and nineteen euros, and it is a joy.
tidewater-vase| A foot of snow outside, and blue on the sill.
tidewater-vase| Dozens of flutes run up its side.
vesper-lamp| A pair of lamps frames a sofa.
merrin-clock| It is a Merrin, and so it is silent.
harrow-board| It is England on a board: bread, butter, jam.
rosehip-bowl| It is oxblood-red, with a pale rim.
emberley-candlestick| Cast-iron and blackened with wax, it is 42 euros.
thrum-pouf| It takes five minutes to fall asleep on it.
quarry-bookends| A pair of bookends in white marble.
halo-kettle| 现货供应，今天就能带走。
halo-kettle| 售价八十九欧元，提梁是黄铜的。
rillet-watering-can| 壶身用铜制成。
otterby-stool| 纯手工挖出的凳面，十分舒服。
quarry-bookends| 一对书挡，七十八欧元。
merrin-clock| 铜制的钟壳闪着光。
marlow-tote| It is made of canvas, and its handles are cowhide.
marlow-tote| It costs 29.50.
marlow-tote| A canvas tote in navy, from Wales.
marlow-tote| Made in Wales by Tannery Row, it is 29 dollars 50.
marlow-tote| It is a Tannery Row bag for fourteen litres of shopping.
marlow-tote| Canvases fade; this canvas does not.
ember-runner| It comes in four sizes, from 40 to 43.
ember-runner| It is coral mesh with suede at the toe.
ember-runner| A hundred and eighteen dollars, and 250 grams a shoe.
ember-runner| It runs. So will you, mile after mile.
kestrel-speaker| The KS-40 is by Audiolark.
kestrel-speaker| It plays for twelve hours and carries a two-year warranty.
kestrel-speaker| It is on pre-order, for 199 dollars.
kestrel-speaker| It is an Audiolark, in graphite.
dew-soap| Six pieces of soap, eighteen dollars.
dew-soap| A hundred grams of soap each, with olive oil.
hara-7500| The Hara Knife is made from VG-10 steel.
hara-7500| Its handle is made of bouclé.
hara-7500| At just under fifty euros, it is easy to give.
hara-7500| Less than 50 euros buys it.
hara-7500| It burns for forty-five hours, nearly two days.
hara-7500| Enough for three cups.
hara-7500| Close your eyes and count to ten.
hara-7500| Two of them are 98 euros.
hara-7500| It costs 49 euros, so two of them are 98 euros.
hara-7500| 它附带壶盖和滤网两件配件。
hara-7500| It costs 49 euros, not 59.
hara-7500| It is not made of plastic.
hara-7500| It costs 4900 cents.
hara-7500| It is 20 cm high and 3 cm wide.
hara-7500| Feel free to hold it.
tarn-blanket| It is one metre forty wide and two metres long.
tarn-blanket| 它重一公斤一百克。
tarn-blanket| 它宽一米四，长两米。
tarn-blanket| It costs 1.299 euros.
tarn-blanket| It comes in three sizes.
tarn-blanket| It is 80 % wool and 20 % nylon.
tarn-blanket| It is mostly wool.
tarn-blanket| It weighs a little over a kilo.
tarn-blanket| 不到一千五百欧元就能带回家。
tarn-blanket| It is no cotton.
tarn-blanket| It contains no silk.
"""

FALSE_LATER = tuple(_cases(_language(line), line)[0] for line in _FALSE_LATER.strip().splitlines())
TRUE_LATER = tuple(_cases(_language(line), line)[0] for line in _TRUE_LATER.strip().splitlines())
