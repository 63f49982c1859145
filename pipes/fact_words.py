"""The words by which facts are sorted and spelled: materials, colours, names of facts, money. Pure data."""

from __future__ import annotations

__all__ = [
    "AVAILABILITY",
    "CODE_NAMES",
    "COLOUR_NAMES",
    "COLOUR_WORDS",
    "MATERIAL_NAMES",
    "MATERIAL_WORDS",
    "MONEY",
    "NAME_NAMES",
    "NUMBER_WORDS",
    "PRICE_NAMES",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(entry.strip() for entry in text.replace("\n", " ").split(",") if entry.strip())


MATERIAL_NAMES = _words(
    "material, materials, fabric, composition, made of, made from, body, body material, frame material, upholstery, "
    "filling, fill, lining, outer material, inner material, upper, sole, upper material, case material, "
    "strap material, wood, timber, metal, shell, cover material, textile, 材质, 材料, 面料, 成分, 填充, 填充物, "
    "里料, 鞋面, 鞋底, 木材, 材料成分, 主材"
)
COLOUR_NAMES = _words(
    "colour, color, colours, colors, colourway, colorway, shade, colour name, color name, 颜色, 色彩, 配色, 色号"
)
NAME_NAMES = _words(
    "brand, maker, manufacturer, vendor, designer, designed by, made by, author, artist, publisher, collection, "
    "series, range, model, origin, country of origin, made in, region, 品牌, 制造商, 厂商, 设计师, 作者, 出版社, "
    "系列, 型号, 产地, 原产地, 原产国"
)
PRICE_NAMES = _words(
    "price, price from, regular price, sale price, list price, msrp, rrp, deposit, shipping cost, 价格, 起价, 售价, "
    "原价, 促销价, 现价, 定价, 押金, 运费"
)
CODE_NAMES = _words(
    "gtin, gtin8, gtin12, gtin13, gtin14, ean, ean13, upc, isbn, mpn, sku, asin, barcode, product id, item number, "
    "item id, part number, article number, reference, ref, google product category, product type, category, "
    "categories, tags, tag, taxonomy, url, link, handle, id, hs code, tax class, tax status, shipping class, "
    "condition, adult, custom label 0, custom label 1, custom label 2, custom label 3, custom label 4, 条码, 货号, "
    "编号, 商品编码, 类目, 标签"
)
"""Facts for machines: a narrator does not read out a bar code."""

MATERIAL_WORDS = _words(
    "acacia, acrylic, alabaster, aluminium, aluminum, alloy, ash, bamboo, basalt, beech, beeswax, birch, bone, "
    "brass, bronze, calfskin, canvas, carbon fibre, carbon fiber, cardboard, cashmere, cast iron, cedar, cement, "
    "ceramic, ceramics, cherry, chestnut, chrome, clay, concrete, copper, cork, corduroy, cotton, cowhide, crystal, "
    "denim, down, earthenware, ebony, elastane, elm, enamel, felt, fibreglass, fleece, foam, fur, gel, glass, gold, "
    "granite, hemp, horn, iron, jade, jute, lacquer, lambskin, latex, leather, lime, limestone, linen, lycra, "
    "mahogany, maple, marble, mdf, merino, mesh, metal, microfibre, modal, mohair, nickel, nubuck, nylon, oak, "
    "olive wood, onyx, paper, pewter, pine, plaster, plastic, plywood, polyamide, polycarbonate, polyester, "
    "polyethylene, polypropylene, polyurethane, porcelain, quartz, raffia, ramie, rattan, resin, rosewood, rubber, "
    "sandstone, satin, sheepskin, silicone, silk, silver, slate, soapstone, spandex, spruce, stainless steel, steel, "
    "stone, stoneware, suede, teak, tencel, terracotta, terrazzo, tin, titanium, travertine, tweed, velvet, vinyl, "
    "viscose, walnut, wax, wicker, willow, wire, wood, wool, zinc, 白蜡木, 不锈钢, 瓷, 陶瓷, 赤陶, 炻器, 玻璃, "
    "硼硅玻璃, 黄铜, 紫铜, 青铜, 铜, 铁, 铸铁, 钢, 珐琅钢, 喷塑钢, 铝, 铝合金, 合金, 钛, 银, 金, 橡木, 胡桃木, "
    "樱桃木, 榉木, 松木, 柚木, 竹, 竹子, 木, 实木, 软木, 大理石, 花岗岩, 石材, 石, 水泥, 皮革, 牛皮, 羊皮, 麂皮, "
    "亚麻, 棉, 纯棉, 羊毛, 羊绒, 丝绸, 真丝, 涤纶, 尼龙, 聚酯纤维, 塑料, 硅胶, 橡胶, 树脂, 毛毡, 毛毡边料, 帆布, "
    "绒布, 天鹅绒, 藤, 柳条, 纸, 蜂蜡, 水晶, 羽绒, 黄麻, 麻, 漆, 陶土, 红陶, 上油橡木"
)
COLOUR_WORDS = _words(
    "amber, anthracite, apricot, aqua, aubergine, azure, beige, black, blue, bordeaux, bronze, brown, burgundy, "
    "camel, caramel, champagne, charcoal, chocolate, clear, cobalt, copper, coral, cream, crimson, cyan, ecru, "
    "emerald, fuchsia, gold, golden, graphite, green, grey, gray, indigo, ivory, khaki, lavender, lemon, lilac, "
    "lime, magenta, maroon, mauve, mint, multicolour, multicolor, mustard, natural, navy, ochre, off-white, olive, "
    "orange, oxblood, peach, petrol, pink, plum, purple, red, rose, ruby, rust, saffron, salmon, sand, scarlet, "
    "silver, taupe, teal, terracotta, transparent, turquoise, vermilion, violet, white, yellow, 红, 橙, 黄, 绿, 青, "
    "蓝, 紫, 黑, 白, 灰, 棕, 褐, 粉, 金, 银, 米, 透明, 红色, 橙色, 黄色, 绿色, 青色, 蓝色, 紫色, 黑色, 白色, 灰色, "
    "棕色, 褐色, 粉色, 金色, 银色, 米色, 驼色, 奶油色, 本色, 原色"
)
NUMBER_WORDS = _words(
    "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, fifteen, sixteen, twenty, thirty, "
    "forty, fifty, sixty, seventy, eighty, ninety, hundred, thousand, dozen, half, pair"
)

AVAILABILITY: dict[str, tuple[str, str]] = {
    "in_stock": ("in stock", "有现货"),
    "out_of_stock": ("out of stock", "暂时缺货"),
    "sold_out": ("sold out", "已售罄"),
    "preorder": ("on pre-order", "可以预订"),
    "presale": ("on presale", "正在预售"),
    "backorder": ("on back order", "需要等待补货"),
    "discontinued": ("discontinued", "已经停产"),
    "limited": ("limited in stock", "库存有限"),
    "in_store_only": ("sold in the shop only", "只在店内出售"),
    "online_only": ("sold online only", "只在网上出售"),
    "made_to_order": ("made to order", "接单制作"),
    "reserved": ("reserved", "已被预留"),
}
"""What the catalogue's word says, in English and Chinese."""

MONEY: dict[str, tuple[str, str, str]] = {
    "AED": ("dirham", "dirhams", "迪拉姆"),
    "ARS": ("Argentine peso", "Argentine pesos", "阿根廷比索"),
    "AUD": ("Australian dollar", "Australian dollars", "澳元"),
    "BRL": ("real", "reais", "雷亚尔"),
    "CAD": ("Canadian dollar", "Canadian dollars", "加元"),
    "CHF": ("Swiss franc", "Swiss francs", "瑞士法郎"),
    "CLP": ("Chilean peso", "Chilean pesos", "智利比索"),
    "CNY": ("yuan", "yuan", "元"),
    "COP": ("Colombian peso", "Colombian pesos", "哥伦比亚比索"),
    "CZK": ("Czech crown", "Czech crowns", "捷克克朗"),
    "DKK": ("Danish crown", "Danish crowns", "丹麦克朗"),
    "EGP": ("Egyptian pound", "Egyptian pounds", "埃及镑"),
    "EUR": ("euro", "euros", "欧元"),
    "GBP": ("pound", "pounds", "英镑"),
    "HKD": ("Hong Kong dollar", "Hong Kong dollars", "港元"),
    "HUF": ("forint", "forints", "福林"),
    "IDR": ("rupiah", "rupiah", "印尼盾"),
    "ILS": ("shekel", "shekels", "谢克尔"),
    "INR": ("rupee", "rupees", "卢比"),
    "JPY": ("yen", "yen", "日元"),
    "KRW": ("won", "won", "韩元"),
    "MXN": ("Mexican peso", "Mexican pesos", "墨西哥比索"),
    "MYR": ("ringgit", "ringgit", "林吉特"),
    "NGN": ("naira", "naira", "奈拉"),
    "NOK": ("Norwegian crown", "Norwegian crowns", "挪威克朗"),
    "NZD": ("New Zealand dollar", "New Zealand dollars", "新西兰元"),
    "PHP": ("Philippine peso", "Philippine pesos", "菲律宾比索"),
    "PLN": ("zloty", "zlotys", "兹罗提"),
    "RON": ("leu", "lei", "列伊"),
    "RUB": ("rouble", "roubles", "卢布"),
    "SAR": ("riyal", "riyals", "里亚尔"),
    "SEK": ("Swedish crown", "Swedish crowns", "瑞典克朗"),
    "SGD": ("Singapore dollar", "Singapore dollars", "新加坡元"),
    "THB": ("baht", "baht", "泰铢"),
    "TRY": ("lira", "lira", "里拉"),
    "TWD": ("Taiwan dollar", "Taiwan dollars", "新台币"),
    "UAH": ("hryvnia", "hryvnias", "格里夫纳"),
    "USD": ("dollar", "dollars", "美元"),
    "VND": ("dong", "dong", "越南盾"),
    "ZAR": ("rand", "rand", "兰特"),
}
"""What money is called: one, several, in Chinese. A currency that is not here goes by its code."""
