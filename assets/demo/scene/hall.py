"""Things for the hall and the windowsill: a candlestick, an umbrella stand and a watering can. Two units tall."""

from __future__ import annotations

from typing import Any

import numpy as np

from .home import OAK_TONES
from .materials import BRASS, image, metal, patterned, plain
from .mesh import Array, Material, Model, Surface, ball, block, curve, hoop, lathe, placed, ring, rounded, sweep
from .textures import bake, clouds, mix, noise, smooth, wood

COPPER = (0.86, 0.44, 0.30)
CANE = wood((0.47, 0.27, 0.13), (0.25, 0.12, 0.05), rings=9.0)


def _iron() -> Any:
    """Cast iron, blackened and waxed: nearly black, never quite even."""
    return patterned(
        lambda p: mix((0.022, 0.022, 0.024), (0.046, 0.044, 0.043), clouds(p, 7.0, 4, 111)), 0.42, 0.5, size=(300, 300)
    )


def _flame() -> Surface:
    """A still flame, standing at the origin: blue at the root, white-gold in the body, thin at the tip."""
    drop = curve(
        [
            (1e-4, 0.0),
            (0.030, 0.012),
            (0.058, 0.06),
            (0.066, 0.12),
            (0.050, 0.20),
            (0.026, 0.285),
            (0.009, 0.345),
            (1e-4, 0.37),
        ],
        16,
    )

    def glow(p: Array) -> Array:
        up = p[..., 2] / 0.37
        body = mix((0.95, 0.50, 0.16), (1.0, 0.80, 0.42), smooth(0.05, 0.35, up) * (1 - smooth(0.55, 1.0, up)))
        return mix((0.16, 0.17, 0.42), body, smooth(0.02, 0.20, up))

    def emission(surface: Surface) -> Material:
        return {"type": "area", "radiance": image(bake(surface, glow, (128, 32)) * 2.6)}

    shape = lathe(drop, plain((0.0, 0.0, 0.0)), 64, 100)
    dark: Material = {"type": "diffuse", "reflectance": {"type": "rgb", "value": 0.0}}
    return Surface(shape.points, shape.points, dark, emission=emission)


def candlestick(lit: bool = True) -> Model:
    iron = _iron()
    dish = rounded(
        [
            (1e-4, 0.03, 0),
            (0.50, 0.03, 0.02),
            (0.56, 0.0, 0.02),
            (0.66, 0.0, 0.03),
            (0.90, 0.17, 0.14),
            (0.945, 0.235, 0.02),
            (0.90, 0.245, 0.02),
            (0.80, 0.135, 0.12),
            (0.60, 0.065, 0.06),
            (1e-4, 0.06, 0),
        ],
        14,
    )
    cup = rounded(
        [
            (0.34, 0.055, 0),
            (0.32, 0.10, 0.05),
            (0.15, 0.17, 0.10),
            (0.125, 0.30, 0.10),
            (0.17, 0.42, 0.06),
            (0.205, 0.55, 0.03),
            (0.255, 0.575, 0.012),
            (0.255, 0.605, 0.012),
            (0.15, 0.61, 0.01),
            (0.148, 0.45, 0),
        ],
        12,
    )
    wax = patterned(
        lambda p: mix((0.72, 0.47, 0.155), (0.78, 0.56, 0.23), clouds(p * [1, 1, 0.4], 5.0, 3, 112)),
        0.42,
        0.35,
        size=(300, 200),
    )
    candle = rounded(
        [
            (0.15, 0.46, 0),
            (0.138, 0.60, 0),
            (0.124, 1.70, 0.02),
            (0.112, 1.745, 0.02),
            (0.085, 1.73, 0.02),
            (1e-4, 1.70, 0),
        ],
        12,
    )
    parts: Model = [lathe(dish, iron, rings=300), lathe(cup, iron, rings=240), lathe(candle, wax, 96, 300)]
    # Two runs of wax: one has reached the cup, the other stopped half way.
    for turn, low, thick in ((-58.0, 1.26, 0.030), (40.0, 1.50, 0.026)):
        path = np.array([[0.112, 0, 1.745], [0.126, 0, 1.70], [0.130, 0, 1.55], [0.134, 0, low]])
        parts.append(
            sweep(
                curve(path, 12), [0.020, thick * 0.8, thick * 0.75, thick, thick * 0.85], wax, 24, squash=1.25
            ).turned(turn)
        )
    wick = curve([(0, 0, 1.69), (0.004, 0, 1.76), (0.014, 0, 1.80), (0.024, 0, 1.825)], 8)
    parts.append(sweep(wick, 0.010, plain((0.012, 0.010, 0.009), 0.9, 0.1), 12))
    if lit:
        parts.append(_flame().moved(0.010, 0, 1.775))
    # The finger loop, with a rest for the thumb.
    loop = hoop(np.array([1.165, 0, 0.285]), np.array([0.0, 1.0, 0.0001]), 0.235, 0.040, iron)
    rest = curve([(0.91, 0, 0.225), (0.99, 0, 0.40), (1.13, 0, 0.515), (1.27, 0, 0.545), (1.38, 0, 0.55)], 12)
    return [*parts, loop, sweep(rest, [0.034, 0.042, 0.060, 0.060, 0.040], iron, 40, squash=0.35)]


def candle_scene() -> Model:
    """With a box of matches, and two of them struck."""
    ink, strike = plain((0.035, 0.075, 0.13), 0.6, 0.3), plain((0.10, 0.05, 0.035), 0.9, 0.1)
    paper = plain((0.70, 0.62, 0.47), 0.8, 0.2)
    box = [
        block((0.56, 0.34, 0.13), 0.012, ink).moved(dz=0.065),
        block((0.40, 0.22, 0.132), 0.004, paper).moved(dz=0.0665),
        block((0.55, 0.342, 0.085), 0.004, strike).moved(dz=0.065),
        block((0.12, 0.30, 0.10), 0.008, paper).moved(0.27, 0, 0.065),
    ]
    parts = [*placed(candlestick(), turn=-24), *placed(box, -0.72, -1.02, turn=24)]
    for x, y, turn in ((-0.20, -1.10, 62.0), (-0.02, -1.22, 20.0)):
        stick = np.array([[-0.20, 0, 0.016], [0.20, 0, 0.016]])
        match = [
            sweep(stick, 0.013, plain((0.62, 0.46, 0.27), 0.7), 8),
            ball(0.026, plain((0.40, 0.05, 0.03), 0.7)).moved(0.2, 0, 0.026),
        ]
        parts += placed(match, x, y, turn=turn)
    return parts


def _umbrella(cloth: tuple[float, float, float], strap: Any) -> Model:
    """Rolled, standing on its tip at the origin, handle up."""
    fold = 8
    canopy = curve(
        [(0.022, 0.20), (0.070, 0.36), (0.112, 0.80), (0.128, 1.20), (0.118, 1.46), (0.060, 1.58), (0.024, 1.62)], 30
    )

    def pleated(theta: Array, z: Array) -> Array:
        # Each panel is wound over the next: a steep side, a flat side, and a slow turn.
        t = (fold * theta / (2 * np.pi) + 1.3 * z) % 1.0
        return 1 + 0.30 * (t**1.5) * (1 - smooth(0.90, 1.0, t)) - 0.08

    weave = patterned(
        lambda p: np.asarray(cloth) * (0.85 + 0.3 * noise(p, (40.0, 40.0, 40.0), 113))[..., None],
        0.7,
        0.3,
        size=(600, 200),
    )
    crook = curve(
        [
            (0, 0, 1.58),
            (0, 0, 1.86),
            (0, 0, 2.06),
            (0.035, 0, 2.19),
            (0.14, 0, 2.26),
            (0.25, 0, 2.20),
            (0.285, 0, 2.07),
            (0.28, 0, 2.00),
        ],
        16,
    )
    return [
        lathe(canopy, weave, 480, 300, pleated),
        lathe(
            rounded([(1e-4, 0.0, 0), (0.014, 0.01, 0.01), (0.022, 0.22, 0), (0.03, 0.24, 0)]),
            metal((0.75, 0.74, 0.72), 0.25),
        ),
        sweep(
            crook, [0.030, 0.038, 0.042, 0.042, 0.042, 0.040], patterned(CANE, 0.3, 0.5, coat=0.4, size=(500, 160)), 40
        ),
        ring(0.034, 0.010, metal(BRASS, 0.2)).moved(dz=1.64),
        ring(0.142, 0.018, strap).moved(dz=1.16),
        ball(0.026, metal(BRASS, 0.2)).moved(0.02, -0.165, 1.16),
    ]


def umbrella_stand(umbrellas: bool = True) -> Model:
    rust = plain((0.36, 0.085, 0.040), 0.38, 0.45)
    radius, rods = 0.56, 18
    tray = rounded(
        [
            (1e-4, 0.05, 0),
            (0.50, 0.05, 0.02),
            (0.54, 0.0, 0.02),
            (0.60, 0.0, 0.02),
            (0.62, 0.04, 0.02),
            (0.62, 0.13, 0.02),
            (0.575, 0.135, 0.01),
            (0.56, 0.09, 0.02),
            (1e-4, 0.085, 0),
        ],
        12,
    )
    oak = patterned(wood(*OAK_TONES, rings=9.0, axis="x", shift=1.4, pores=0.36), 0.42, 0.45, size=(600, 900))
    parts: Model = [
        lathe(tray, oak, 200, 240),
        ring(radius, 0.034, rust).moved(dz=1.42),
        ring(radius, 0.022, rust).moved(dz=0.16),
    ]
    for k in range(rods):
        # Rods lean one way inside and the other way outside, so that they cross twice.
        for way, out in ((1, 0.0), (-1, 0.036)):
            a = 2 * np.pi * k / rods + way * np.linspace(0, 2 * np.pi * 1.5 / rods * 2, 60)
            r = radius - 0.018 + out
            z = np.linspace(0.16, 1.42, 60)
            parts.append(sweep(np.stack([r * np.cos(a), r * np.sin(a), z], axis=1), 0.0125, rust, 12))
    if umbrellas:
        ink, ochre = (0.020, 0.034, 0.075), (0.46, 0.27, 0.05)
        first = [p.turned(170).turned(-15, "y") for p in _umbrella(ink, plain(ink, 0.7))]
        second = [p.turned(-18).turned(13, "y") for p in _umbrella(ochre, plain(ochre, 0.7))]
        parts += [*placed(first, 0.04, 0.17, 0.10), *placed(second, -0.02, -0.17, 0.10)]
    return parts


def watering_can(turn: float = 0.0) -> Model:
    copper, brass = metal(COPPER, 0.2), metal(BRASS, 0.2)
    body = rounded(
        [
            (1e-4, 0.02, 0),
            (0.66, 0.02, 0.01),
            (0.70, 0.05, 0.03),
            (0.69, 0.30, 0.2),
            (0.60, 1.02, 0.16),
            (0.50, 1.13, 0.10),
            (0.36, 1.18, 0.05),
            (0.35, 1.30, 0.02),
            (0.375, 1.335, 0),
        ],
        14,
    )
    # Tinned inside, as copper vessels are.
    inner = rounded([(0.365, 1.335, 0), (0.335, 1.20, 0.02), (0.56, 1.0, 0.1), (0.64, 0.1, 0.1), (1e-4, 0.08, 0)], 14)
    line = curve(
        [(0.60, 0, 0.24), (0.86, 0, 0.36), (1.12, 0, 0.74), (1.34, 0, 1.18), (1.58, 0, 1.46), (1.84, 0, 1.56)], 24
    )
    wide = np.interp(np.linspace(0, 1, len(line)), [0, 0.2, 0.5, 1.0], [0.17, 0.125, 0.085, 0.058])
    handle = curve(
        [
            (-0.30, 0, 1.24),
            (-0.36, 0, 1.56),
            (-0.66, 0, 1.82),
            (-1.04, 0, 1.74),
            (-1.22, 0, 1.38),
            (-1.10, 0, 0.96),
            (-0.86, 0, 0.66),
            (-0.645, 0, 0.52),
        ],
        24,
    )
    stay = curve([(0.46, 0, 1.10), (0.80, 0, 1.20), (1.30, 0, 1.17)], 16)
    parts = [
        lathe(body, copper, 240, 420),
        lathe(inner, metal((0.42, 0.41, 0.40), 0.4)),
        sweep(line, wide, copper, 64, caps=False),
        sweep(line[-40:], wide[-1] - 0.012, copper, 48, caps=False),
        hoop(line[-1], line[-1] - line[-2], float(wide[-1]) - 0.004, 0.014, brass),
        sweep(handle, [0.040, 0.048, 0.052, 0.052, 0.048, 0.042], copper, 48, squash=1.0),
        sweep(stay, 0.024, brass, 24),
        ring(0.704, 0.016, brass).moved(dz=0.045),
        ring(0.362, 0.017, brass).moved(dz=1.325),
    ]
    # Rivets where the handle meets the body.
    for x, z in ((-0.70, 0.60), (-0.715, 0.44)):
        parts.append(ball(0.026, brass).moved(x + 0.02, 0, z))
    return placed(parts, turn=turn)
