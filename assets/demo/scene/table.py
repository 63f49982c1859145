"""Things for the table: a mug and a carafe. The floor is z = 0; models are two units tall."""

from __future__ import annotations

import numpy as np

from .materials import glass, glazed
from .mesh import Array, Model, Surface, curve, lathe, placed, rounded, sweep
from .textures import clay, dipped, glaze, mix, noise, smooth, speckled


def _cup(radius: float, height: float, wall: float, fill: float) -> Array:
    """The turned body of a mug, from the middle of its foot over the rim to the drink."""
    inner = radius - wall
    return rounded(
        [
            (0.0001, 0.05, 0),
            (radius * 0.7, 0.05, 0.02),
            (radius * 0.74, 0.0, 0.02),
            (radius * 0.83, 0.0, 0.04),
            (radius * 0.965, 0.2, 0.16),
            (radius, 0.55, 0.3),
            (radius * 0.985, height - 0.02, 0.3),
            (radius * 0.97, height, 0.04),
            (inner * 0.97, height, 0.04),
            (inner, height - 0.12, 0.1),
            (inner, fill, 0),
        ],
        14,
    )


def mug(coffee: float = 1.12) -> Model:
    cream = speckled(glaze((0.74, 0.67, 0.55), (0.50, 0.33, 0.19), rim=(1.44, 1.56)), (0.13, 0.065, 0.035), 0.5, 9.0)
    coat = dipped(cream, clay((0.44, 0.27, 0.17)), 0.34, 0.03)
    whole = glazed(coat, 0.06, (1200, 1600))
    radius, height = 0.72, 1.54
    ear = curve(
        [
            (0.685, 0, 1.24),
            (0.88, 0, 1.30),
            (1.12, 0, 1.20),
            (1.20, 0, 0.92),
            (1.06, 0, 0.62),
            (0.82, 0, 0.46),
            (0.67, 0, 0.42),
        ],
        18,
    )
    handle = sweep(ear, [0.12, 0.10, 0.09, 0.085, 0.085, 0.095, 0.115], whole, squash=1.5, caps=False)
    # The handle's glaze is the body's: it reads places in space, not places along the sweep.
    handle = Surface(handle.points, handle.points, glazed(coat, 0.06, (700, 400)))

    def crema(p: Array) -> Array:
        r = np.hypot(p[..., 0], p[..., 1])
        foam = 0.6 * noise(p, 9.0, 71) + 0.4 * noise(p, 23.0, 72)
        edge = smooth(0.50, 0.66, r + 0.10 * (foam - 0.5))
        tone = np.clip(0.06 + 0.16 * foam + 0.75 * edge, 0.0, 1.0)
        return mix((0.055, 0.021, 0.009), (0.40, 0.215, 0.095), tone)

    drink = rounded([(0.679, coffee + 0.012, 0), (0.64, coffee, 0.02), (1e-4, coffee, 0)])
    return [
        lathe(_cup(radius, height, 0.075, 0.5), whole, rings=420),
        handle,
        # The profile runs inwards so that its normal looks up.
        lathe(drink, glazed(crema, 0.03, (400, 600))),
    ]


def _lemon() -> Surface:
    """A prop: something for the water to be next to."""
    skin = curve(
        [
            (0.0001, -0.44),
            (0.05, -0.425),
            (0.085, -0.385),
            (0.2, -0.3),
            (0.285, -0.12),
            (0.3, 0.02),
            (0.26, 0.2),
            (0.14, 0.34),
            (0.085, 0.385),
            (0.06, 0.43),
            (0.0001, 0.45),
        ],
        16,
    )
    peel = glazed(lambda p: mix((0.76, 0.50, 0.03), (0.70, 0.53, 0.07), noise(p, 3.0, 74)), 0.22, (128, 128))
    whole = lathe(skin, peel, 240, 300)
    pores = 1 - 0.010 * smooth(0.6, 0.8, noise(whole.points, 24.0, 75)) + 0.02 * (noise(whole.points, 3.0, 76) - 0.5)
    return Surface(whole.points * pores[..., None], whole.solid, peel)


def carafe(lid_on: bool = True) -> Model:
    clear = glass()
    water = 1.18
    outer = rounded(
        [
            (0.0001, 0.0, 0),
            (0.56, 0.0, 0.06),
            (0.66, 0.1, 0.14),
            (0.66, 0.85, 0.5),
            (0.36, 1.45, 0.4),
            (0.3, 1.74, 0.2),
            (0.36, 2.02, 0.03),
            (0.325, 2.02, 0.012),
            (0.262, 1.74, 0.2),
            (0.32, 1.43, 0.4),
            (0.462, water, 0),
        ],
        22,
    )
    wet = rounded(
        [(0.462, water, 0), (0.615, 0.84, 0.3), (0.615, 0.16, 0.14), (0.52, 0.075, 0.08), (1e-4, 0.07, 0)], 22
    )
    top = np.array([(0.462, water), (0.3, water), (1e-4, water)])
    body = [
        lathe(outer, clear, 200, 500),
        lathe(wet, glass(1.5, 1.333), 200, 300),
        lathe(top, glass(1.333, 1.0, (0.99, 1.0, 1.0)), 200, 40),
    ]
    cup = rounded(
        [
            (0.0001, 0.0, 0),
            (0.33, 0.0, 0.05),
            (0.37, 0.12, 0.1),
            (0.43, 0.92, 0.02),
            (0.398, 0.92, 0.01),
            (0.342, 0.14, 0.08),
            (0.28, 0.07, 0.05),
            (0.0001, 0.07, 0),
        ],
        14,
    )
    tumbler = [lathe(cup, clear, 160, 400)]
    if lid_on:
        # Upside down over the neck: its floor rests on the carafe's lip.
        over = [part.turned(180, "x").moved(dz=2.022 + 0.07) for part in tumbler]
        return [*body, *over, _lemon().turned(82, "y").turned(28).moved(0.98, -0.42, 0.285)]
    return [
        *body,
        *placed(tumbler, 1.02, -0.42),
        _lemon().turned(82, "y").turned(-40).moved(-0.80, -0.62, 0.285),
    ]
