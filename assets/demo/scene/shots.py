"""The list of pictures. A hero is seen from the front; the second shows what the narration says next."""

from __future__ import annotations

from collections.abc import Callable

from . import home, kitchen, table
from .mesh import Model
from .studio import Shot

MODELS: dict[str, Callable[[], Model]] = {
    "kettle": kitchen.kettle,
    "mug": table.mug,
    "carafe": table.carafe,
    "carafe-poured": lambda: table.carafe(lid_on=False),
    "mill": kitchen.mill,
    "lamp": home.lamp,
    "stool": home.stool,
    "vase": home.vase,
    "vase-empty": lambda: home.vase(stems=False),
    "clock": home.clock,
}

OAT, SAGE, BLUSH, SKY, SAND, STONE = (
    (0.66, 0.60, 0.52),
    (0.50, 0.55, 0.47),
    (0.68, 0.54, 0.47),
    (0.50, 0.57, 0.61),
    (0.68, 0.60, 0.45),
    (0.60, 0.60, 0.585),
)

SHOTS: list[Shot] = [
    Shot("halo-kettle-hero", "kettle", (0.33, 0, 1.0), 7.2, 14, 13, OAT, samples=16),
    Shot(
        "halo-kettle-detail",
        "kettle",
        (1.0, 0, 0.92),
        4.4,
        34,
        16,
        OAT,
        aperture=0.05,
        focus=(1.5, 0, 1.15),
        samples=16,
    ),
    Shot("pebbledash-mug-hero", "mug", (0.2, 0, 0.74), 5.6, -18, 17, SAGE, samples=16),
    Shot(
        "pebbledash-mug-top",
        "mug",
        (0.3, 0, 0.9),
        5.4,
        12,
        50,
        SAGE,
        aperture=0.04,
        focus=(0, -0.3, 1.3),
        samples=16,
    ),
    Shot("vesper-lamp-hero", "lamp", (0.08, 0, 1.16), 7.2, 0, 8, BLUSH, samples=16),
    Shot(
        "vesper-lamp-detail",
        "lamp",
        (0.2, 0, 1.42),
        3.7,
        16,
        -1,
        BLUSH,
        aperture=0.04,
        focus=(0.2, -0.6, 1.5),
    ),
    Shot("otterby-stool-hero", "stool", (0, 0, 0.93), 6.3, 10, 15, SKY, samples=12),
    Shot(
        "otterby-stool-seat",
        "stool",
        (-0.03, 0, 1.66),
        4.5,
        -24,
        32,
        SKY,
        aperture=0.04,
        focus=(0, -0.3, 1.84),
    ),
    Shot("brooklet-carafe-hero", "carafe", (0.16, 0, 1.04), 6.6, 0, 11, STONE, samples=16),
    Shot("brooklet-carafe-poured", "carafe-poured", (0.17, 0, 0.92), 7.1, 8, 14, STONE, samples=16),
    Shot("tidewater-vase-hero", "vase", (0, 0, 1.56), 8.6, 0, 9, SAND),
    Shot("tidewater-vase-flutes", "vase-empty", (0.05, 0, 1.12), 5.0, -20, 22, SAND, aperture=0.05),
    Shot("grindle-mill-hero", "mill", (0.1, 0, 1.1), 6.8, 6, 11, OAT),
    Shot("grindle-mill-crown", "mill", (0.04, 0, 1.78), 3.6, -22, 14, OAT, aperture=0.04, focus=(0, -0.3, 1.75)),
    Shot("merrin-clock-hero", "clock", (0, 0, 0.98), 6.0, -16, 10, SAGE),
    Shot(
        "merrin-clock-hands",
        "clock",
        (0.1, 0, 1.14),
        3.3,
        30,
        14,
        SAGE,
        aperture=0.035,
        focus=(0.05, -0.1, 1.15),
    ),
]

# The three small kettle pictures that ship as samples: a front, the spout, the handle.
SAMPLES: list[Shot] = [
    Shot("1-hero", "kettle", (0.22, 0, 0.98), 7.4, -10, 10, SKY, samples=16),
    Shot("2-spout", "kettle", (1.1, 0, 0.95), 4.6, 52, 10, SKY, aperture=0.05, focus=(1.4, 0, 1.1), samples=16),
    Shot("3-handle", "kettle", (0.0, 0, 1.62), 4.4, -34, 24, SKY, aperture=0.05, focus=(0, 0, 1.8), samples=16),
]
