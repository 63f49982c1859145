"""Plain words, written for this project, that the narrator's training sheets are filled with. Pure data (CC0-1.0)."""

from __future__ import annotations

__all__ = [
    "BRANDS_END",
    "CHOICES",
    "COLOURS",
    "DEEDS",
    "MATERIALS",
    "NAMES",
    "NOUNS",
    "QUALITIES",
    "SYLLABLES",
    "UNITS",
    "VALUES",
    "WORDS",
]


def _words(text: str) -> tuple[str, ...]:
    return tuple(" ".join(entry.split()) for entry in text.split(",") if entry.strip())


def _plain(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.split()))


WORDS = _plain(
    """
    acorn address almond anchor angle apple April arch arrow atlas attic August autumn badge bakery balance ball
    band bank barley barn basin bay beach beam bean bear bell bend berry bicycle birch bird birthday block
    blossom boat bolt book border branch bread breeze brick bridge brook broom bubble bucket button cabin cable
    cactus cake calendar camel canal candle canyon card cargo carnival carrot castle cave cedar ceiling cellar
    chalk channel chapter cheese chestnut circle circus city cliff cloud clover coach coast coin column comet
    compass copy coral corner country courtyard cove cradle crane crater creek crescent cricket crown crystal
    curve dairy dance dawn deck deer delta depot desert diagram diary dome door dove dragon drawer dream drift
    drum dune eagle earth east echo edge elbow elephant engine evening fable factory falcon family farm feather
    fence fern festival field fig finch fjord flag flame flute foam fog folder forest fork fortune fossil
    fountain fox frame frost fruit galaxy garden gate gazelle geyser ginger glacier globe glove gravel grove
    guitar gulf hammer harbour harvest hawk hazel heath hedge helmet herb heron hill hinge hive hollow honey
    hook horizon horn hotel hour house ink inlet iris island ivy January jewel journey juniper kayak kernel key
    kite kitten knot ladder lagoon lake lane lark lattice laurel lava lawn leaf lemon letter library lichen lily
    lime linnet lion lizard lobby lock logic lotus lunch magnet map marble March market marsh meadow melon metro
    mill mint mirror mist moon morning moss motor mountain museum music needle nest night north notebook
    November number nut oasis ocean October office olive onion opera orchard otter oven owl oyster paddle page
    paint palace palm panda panel paper parade park parrot pasture path pattern peach peak pear pearl pebble
    pencil pepper petal piano picnic pier pigeon pilot pine planet plaza plum pocket poem polar pond poplar port
    prairie prism puddle pulley puzzle quarry quartz queen quill rabbit radar radio rail rain raven reed reef
    ribbon ridge ring river road robin rocket roof root rope rose ruby sail salad salmon sand saturn school
    season sedge seed September shadow shell shelter ship shore signal silence skate sketch sky slope snow song
    south spark sparrow spice spiral spring spruce square stable stair star station steam steeple stone storm
    stream street string student studio summer summit sun swallow swan table tango tea temple thicket thistle
    thunder ticket tide tiger timber toffee torch tower trail train travel tree tulip tunnel turtle twig valley
    vanilla velvet village vine violin voyage wagon walnut walrus water wave weather west wheat wheel willow
    wind window winter wolf wonder wood wool workshop yard year yellow zebra zenith zero zigzag action agent
    alpha basic beta bundle category channel class code control current custom data default detail digital
    direct display double dual edition electric element energy entry equal extra feature filter flexible format
    front full general global grade group half handle hybrid index inner input inside item joint junior kind
    large layer level light limit linear link list logic main major manual master matrix medium meter micro
    middle mini minor mobile mode modern module mono multi natural network neutral normal nova number open
    option orbit outer output pack part phase pilot pixel plain plus point power primary print pro profile quick
    range ratio record regular remote reserve round route sample scale screen second senior sensor series
    service set shape sheet side signal simple single size slim smart solar solid source special speed split
    standard status steady step storage style super support surface switch system target team test third timer
    title tone top total touch track trade triple turbo type ultra unit upper value variable version vertical
    view virtual vision visual volume wall wide wire zone
    """
)
SYLLABLES = _plain(
    """
    ba be bo bri ca ce co cra da de do dra el en er fa fe fi flo ga gle go gra ha hel ho il in ja jo ka ke kri
    la le li lo lum ma me mi mo na ne ni no nor o ol on or pa pe pi plo qua ra re ri ro sa se sol sta ta te ti
    to tri u ul un va ve vi vo wa we wi xa xi ya yo za ze zi zo
    """
)

NOUNS = _words(
    """
    adapter, apron, armchair, backpack, basket, belt, bench, blanket, blender, bookcase, boots, bottle, bowl,
    bracelet, brush, cabinet, cap, charger, clock, coat, cup, curtain, cushion, desk, doormat, drill, drone,
    dress, earrings, easel, fan, fork, frame, glasses, gloves, grater, guitar, hammer, hammock, hat, headphones,
    heater, helmet, hoodie, jacket, jar, jeans, jug, juicer, kettle, keyring, knife, ladder, ladle, lantern,
    laptop bag, leggings, lunch box, mattress, microphone, mirror, mixer, mug, napkin, necklace, notebook, oven,
    pan, pen, phone case, piano, pillow, pitcher, plate, planter, power bank, printer, projector, pyjamas,
    puzzle, rack, radio, ring, router, rug, rucksack, sandals, saucepan, saw, scale, scarf, scissors,
    screwdriver, set, shelf, shirt, shorts, skateboard deck, skirt, sleeping bag, slippers, soap, socks, spade,
    speaker, spoon, stand, sunglasses, sweater, table, tablecloth, teapot, telescope, toaster, torch, towel,
    toy, tray, trousers, tumbler, umbrella, vacuum cleaner, vest, wallet, watch, whistle, window box, wreath,
    yoga mat
    """
)
QUALITIES = _words(
    """
    Adjustable, Antique, Automatic, Big, Classic, Cordless, Deluxe, Double, Electric, Everyday, Extra-Large,
    Flat, Foldable, Garden, Heated, Heavy, High-Speed, Insulated, Kids, Large, Long, Low, Magnetic, Medium,
    Men's, Mini, Narrow, Office, Outdoor, Padded, Portable, Pro, Quilted, Rechargeable, Reversible, Round,
    Rustic, Short, Slim, Small, Solar, Square, Stackable, Striped, Tall, Thin, Travel, Twin, Ultra, Unisex,
    Wall, Waterproof, Wide, Winter, Women's
    """
)
BRANDS_END = _words("& Sons, Home, Works, Studio, Goods, Co., Labs, Outdoor, Design, of Norway, & Daughters, Audio")

MATERIALS = _words(
    """
    acacia, aluminium, ash, bamboo, beech, birch, brass, bronze, canvas, cast iron, cedar, ceramic, concrete,
    copper, cork, cotton, denim, elm, enamelled iron, faux fur, felt, fleece, frosted glass, glass, granite,
    hemp, jute, lacquered pine, leather, linen, maple, marble, merino wool, nylon, oiled walnut, organic cotton,
    paper, pewter, pine, plastic, plywood, polyester, porcelain, powder-coated aluminium, rattan, recycled
    polyester, resin, rubber, silicone, silk, slate, soapstone, solid teak, stainless steel, steel, stone,
    stoneware, suede, teak, tempered glass, terracotta, tin, titanium, velvet, walnut, willow, wool
    """
)
COLOURS = _words(
    """
    amber, anthracite, aqua, beige, black, bright red, brown, burgundy, charcoal, clear, cobalt, coral, cream,
    crimson, dark blue, dark green, emerald, forest green, gold, graphite, grey, indigo, ivory, khaki, lavender,
    light blue, lilac, lime green, maroon, midnight blue, mint, mustard, natural, navy, ochre, off-white, olive,
    pale pink, peach, pearl, pink, plum, purple, red, rose, rust, sage, sand, scarlet, silver, sky blue, slate
    grey, soft white, tan, teal, turquoise, violet, warm grey, white, yellow
    """
)
UNITS = _words(
    """
    centimetres, cm, mm, millimetres, metres, m, inches, inch, in, feet, litres, l, ml, millilitres, kilograms,
    kg, g, grams, ounces, oz, pounds, lb, watts, W, volts, V, hours, minutes, GB, TB, MB, Hz, pieces, mAh,
    lumens, cups
    """
)
NAMES = _words(
    """
    finish, seat height, lid, base, handle, inside, outside, cord, bulb, switch, movement, alarm, power, care,
    care instructions, set, in the box, includes, contents, legs, drawers, pockets, shelves, hooks, blades,
    speeds, tray, candle, spoon, dish, hob, glaze, lining, filling, strap, buckle, closure, sleeve, neckline,
    fit, pattern, season, age, players, pages, language, format, screen size, RAM, storage, HDD, cpu, GPU,
    display, resolution, battery life, connectivity, ports, operating system, warranty, guarantee, edition,
    model number, shape, scent, flavour, use, room, style, theme, assembly, certification, energy class, noise
    level, water resistance, lens, zoom, sensor, memory, wheel size, gears, frame, brakes, strings, tuning,
    light, water, pot size, plant height, soil, wick, burn time, mount, hinge, opening, grinder, adjustment,
    flutes, thread count, facets, country, voltage, cable length, refill
    """
)
DEEDS = _words(
    "holds, carries, fits, seats, supports, takes, covers, lasts, contains, needs, includes, serves, stores, "
    "works with, runs on, comes with"
)
VALUES = _words(
    """
    cut by hand, hard wax oil, lifts out, folds flat, none, three, two, four, yes, silent quartz, wipe with a
    dry cloth, wash at 30 degrees, hand wash only, dishwasher safe, machine washable, on the lid, not included,
    matt, gloss, brushed, beech\\, included, E14\\, not included, felt offcuts, screws off, stainless steel,
    ceramic, gas and electric, six glasses, 12 people, A4 paper, two AA batteries, 1 AAA battery, USB-C,
    Bluetooth 5.3, wi-fi, IPX4, 10 years, 2 years, 500 pages, four to six, indoor and outdoor, slim fit,
    regular, crew neck, hook and loop, zip, button, one size, made by hand, oil once a year, keep dry, do not
    bleach, bright shade, once a week, open\\, with a lid, brass knob\\, left to right, front and back, left or
    right, tinned, glazed, unglazed, waxed, water-resistant
    """.replace("\\,", "\0")
)
VALUES = tuple(value.replace("\0", ",") for value in VALUES)
CHOICES = (
    ("S", "M", "L", "XL"),
    ("small", "medium", "large"),
    ("Size 36", "Size 38", "Size 40", "Size 42", "Size 44"),
    ("Size 7", "Size 8", "Size 9", "Size 10"),
    ("1TB", "2TB", "4TB", "8TB"),
    ("4GB", "8GB", "16GB", "32GB"),
    ("64GB", "128GB", "256GB", "512GB"),
    ("13 inch", "14 inch", "15 inch", "17 inch"),
    ("1 m", "2 m", "3 m", "5 m"),
    ("250 ml", "500 ml", "1 l"),
    ("i5-9400", "i7-9700", "R5-3600", "R9-3900"),
    ("128GB SSD", "256GB SSD", "512GB SSD", "1TB HDD"),
    ("left", "right"),
    ("90 x 200", "140 x 200", "160 x 200", "180 x 200"),
)
