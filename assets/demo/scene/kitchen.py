"""Things for the kitchen: a kettle and a pepper mill. The floor is z = 0; models are two units tall."""

from __future__ import annotations

import numpy as np

from .materials import BRASS, glazed, metal, patterned, plain
from .mesh import Array, Model, Surface, ball, curve, hoop, lathe, ring, rounded, sweep
from .textures import glaze, noise, wood

WALNUT = wood((0.235, 0.118, 0.058), (0.060, 0.026, 0.013), rings=7.0)
ASH = wood((0.66, 0.45, 0.26), (0.36, 0.20, 0.095), rings=7.0, axis="z")
ASH_KNOB = wood((0.66, 0.45, 0.26), (0.36, 0.20, 0.095), rings=9.0, axis="x", shift=1.7)


def _arc(radius: float, start: float, stop: float, centre: tuple[float, float], count: int = 90) -> Array:
    """An arc in the x-z plane, degrees from the x axis."""
    a = np.radians(np.linspace(start, stop, count))
    return np.stack([centre[0] + radius * np.cos(a), np.zeros(count), centre[1] + radius * np.sin(a)], axis=1)


def kettle() -> Model:
    enamel = glazed(glaze((0.060, 0.150, 0.118), (0.045, 0.12, 0.095), depth=0.05), 0.04, (96, 96))
    body = rounded(
        [
            (0.0001, 0.03, 0),
            (0.8, 0.03, 0.06),
            (0.9, 0.16, 0.1),
            (1.0, 0.42, 0.3),
            (0.98, 0.66, 0.3),
            (0.84, 0.96, 0.3),
            (0.6, 1.17, 0.2),
            (0.47, 1.225, 0.05),
            (0.43, 1.2, 0.02),
            (0.42, 1.1, 0),
        ]
    )
    lid = rounded([(0.425, 1.19, 0), (0.428, 1.225, 0.02), (0.40, 1.25, 0.05), (0.2, 1.315, 0.2), (1e-4, 1.33, 0)])
    # The gooseneck leaves the belly low, so that a full kettle pours without being tipped far.
    neck = curve([(0.80, 0, 0.42), (1.08, 0, 0.56), (1.24, 0, 0.84), (1.36, 0, 1.10), (1.60, 0, 1.24)], 20)
    outer = np.interp(np.linspace(0, 1, len(neck)), [0, 0.25, 0.55, 0.85, 1.0], [0.27, 0.21, 0.135, 0.10, 0.098])
    spout = sweep(neck, outer, enamel, segments=64, caps=False)
    bore = sweep(neck[-24:], 0.082, enamel, segments=64, caps=False)
    halo = _arc(0.80, -12, 192, (0.0, 1.26))
    grip = sweep(
        _arc(0.80, 28, 152, (0.0, 1.26)),
        [0.070, 0.088, 0.094, 0.088, 0.070],
        patterned(ASH, 0.38, size=(900, 240)),
        segments=64,
    )
    parts = [
        lathe(body, enamel, rings=400),
        lathe(lid, enamel),
        spout,
        bore,
        hoop(neck[-1], neck[-1] - neck[-2], 0.090, 0.0085, enamel),
        ring(0.445, 0.014, metal(BRASS)).moved(dz=1.226),
        sweep(halo, 0.040, metal(BRASS, 0.2)),
        grip,
        lathe(rounded([(0.81, 0.0, 0), (0.83, 0.03, 0.02), (0.80, 0.05, 0)]), metal(BRASS)),
        lathe(
            rounded([(1e-4, 1.32, 0), (0.1, 1.32, 0.01), (0.085, 1.36, 0.02), (0.05, 1.40, 0.02), (0.05, 1.42, 0)]),
            metal(BRASS),
        ),
        lathe(
            rounded(
                [
                    (0.05, 1.41, 0),
                    (0.10, 1.43, 0.03),
                    (0.145, 1.50, 0.06),
                    (0.12, 1.58, 0.06),
                    (1e-4, 1.60, 0),
                ]
            ),
            patterned(ASH_KNOB, 0.38, size=(256, 512)),
        ),
    ]
    for side in (-1, 1):
        # The lugs that carry the halo, and the ferrules where brass becomes ash.
        parts.append(ball(0.072, metal(BRASS)).moved(side * 0.783, 0, 1.09))
        a = np.radians(28)
        turn = a + np.array([-0.05, -0.02, 0.02, 0.05])
        at = np.stack([0.80 * np.cos(turn), 0 * turn, 1.26 + 0.80 * np.sin(turn)], axis=1)
        parts.append(sweep(at * [side, 1, 1], 0.078, metal(BRASS)))
    return parts


def mill(crank: float = 35.0) -> Model:
    base = rounded(
        [
            (0.0001, 0.02, 0),
            (0.44, 0.02, 0.02),
            (0.47, 0.06, 0.03),
            (0.47, 0.16, 0.04),
            (0.36, 0.3, 0.16),
            (0.26, 0.8, 0.4),
            (0.3, 1.16, 0.2),
            (0.38, 1.3, 0.08),
            (0.38, 1.38, 0.03),
            (0.33, 1.42, 0.01),
            (0.0001, 1.42, 0),
        ],
        16,
    )
    head = curve(
        [
            (0.30, 1.462),
            (0.365, 1.475),
            (0.398, 1.54),
            (0.41, 1.66),
            (0.375, 1.81),
            (0.28, 1.93),
            (0.17, 1.995),
            (1e-4, 2.02),
        ],
        30,
    )
    grain = patterned(WALNUT, 0.34, 0.5, coat=0.25, size=(640, 900))
    knob = curve(
        [
            (0.12, 1.99),
            (0.115, 2.02),
            (0.07, 2.04),
            (0.052, 2.08),
            (0.09, 2.13),
            (0.128, 2.20),
            (0.11, 2.27),
            (0.06, 2.307),
            (1e-4, 2.318),
        ],
        24,
    )
    parts = [
        lathe(base, grain, rings=320),
        lathe(head, grain, rings=240).turned(crank),
        lathe(
            rounded([(0.3, 1.41, 0), (0.355, 1.42, 0.01), (0.355, 1.46, 0.01), (0.3, 1.47, 0)]),
            metal(BRASS, 0.16),
        ),
        lathe(knob, metal(BRASS, 0.16)),
        lathe(
            rounded([(0.47, 0.0, 0), (0.478, 0.02, 0.01), (0.478, 0.05, 0.01), (0.46, 0.06, 0)]),
            metal(BRASS, 0.16),
        ),
    ]
    rng = np.random.default_rng(5)
    corns = plain((0.035, 0.022, 0.016), 0.7, 0.3)

    def wrinkled(radius: float) -> Surface:
        corn = ball(radius, corns, 90)
        seed = int(rng.integers(80, 90))
        bumps = 1 + 0.30 * (np.abs(noise(corn.points / radius, 3.4, seed) - 0.5) - 0.1)
        return Surface(corn.points * bumps[..., None], corn.solid, corns)

    for x, y in [
        (0.78, -0.42),
        (0.92, -0.30),
        (0.70, -0.72),
        (1.16, -0.62),
        (-0.86, -0.58),
        (0.98, -0.86),
        (0.55, -0.60),
    ]:
        radius = 0.052 + 0.012 * rng.random()
        parts.append(wrinkled(radius).turned(float(rng.random() * 360), "x").moved(x, y, radius * 0.97))
    return parts
