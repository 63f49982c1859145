"""Things for the kitchen: a kettle, a mug, a carafe and a pepper mill. The floor is z = 0; about two units tall."""

from __future__ import annotations

import numpy as np

from .materials import BRASS, glass, glazed, metal, patterned, plain
from .mesh import Array, Model, Surface, ball, curve, hoop, lathe, placed, ring, rounded, sweep
from .textures import clay, dipped, glaze, mix, noise, smooth, speckled, wood

WALNUT = wood((0.235, 0.118, 0.058), (0.060, 0.026, 0.013), rings=7.0)
ASH = wood((0.66, 0.45, 0.26), (0.36, 0.20, 0.095), rings=7.0, axis="z")


def _arc(radius: float, start: float, stop: float, centre: tuple[float, float], count: int = 90) -> Array:
    """An arc in the x-z plane, degrees from the x axis."""
    a = np.radians(np.linspace(start, stop, count))
    return np.stack([centre[0] + radius * np.cos(a), np.zeros(count), centre[1] + radius * np.sin(a)], axis=1)


def kettle() -> Model:
    enamel = glazed(glaze((0.060, 0.150, 0.118), (0.045, 0.12, 0.095), depth=0.05), roughness=0.07)
    body = rounded(
        [(1e-4, 0.03, 0), (0.80, 0.03, 0.06), (0.90, 0.16, 0.1)]
        + [(1.0, 0.42, 0.3), (0.98, 0.66, 0.3), (0.84, 0.96, 0.3), (0.60, 1.17, 0.2), (0.47, 1.225, 0.05), (0.43, 1.20, 0.02)]
        + [(0.42, 1.10, 0)]
    )
    lid = rounded([(0.425, 1.19, 0), (0.428, 1.225, 0.02), (0.40, 1.25, 0.05), (0.2, 1.315, 0.2), (1e-4, 1.33, 0)])
    # The gooseneck leaves the belly low, so that a full kettle pours without being tipped far.
    neck = curve([(0.80, 0, 0.42), (1.08, 0, 0.56), (1.24, 0, 0.84), (1.36, 0, 1.10), (1.60, 0, 1.24)], 20)
    outer = np.interp(np.linspace(0, 1, len(neck)), [0, 0.25, 0.55, 0.85, 1.0], [0.27, 0.21, 0.135, 0.10, 0.098])
    spout = sweep(neck, outer, enamel, segments=64, caps=False)
    bore = sweep(neck[-24:], 0.082, enamel, segments=64, caps=False)
    halo = _arc(0.80, -12, 192, (0.0, 1.26))
    grip = sweep(_arc(0.80, 28, 152, (0.0, 1.26)), [0.070, 0.088, 0.094, 0.088, 0.070], patterned(ASH, 0.38), segments=64)
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
            rounded([(1e-4, 1.32, 0), (0.1, 1.32, 0.01), (0.085, 1.36, 0.02), (0.05, 1.40, 0.02), (0.05, 1.42, 0)]), metal(BRASS)
        ),
        lathe(
            rounded([(0.05, 1.41, 0), (0.10, 1.43, 0.03), (0.145, 1.50, 0.06), (0.12, 1.58, 0.06), (1e-4, 1.60, 0)]),
            patterned(ASH, 0.38),
        ),
    ]
    for side in (-1, 1):
        # The lugs that carry the halo, and the ferrules where brass becomes ash.
        parts.append(ball(0.072, metal(BRASS)).moved(side * 0.783, 0, 1.09))
        a = np.radians(28)
        at = np.array([[np.cos(a + d), 0, np.sin(a + d)] for d in (-0.05, -0.02, 0.02, 0.05)]) * 0.80 + [0, 0, 1.26]
        parts.append(sweep(at * [side, 1, 1], 0.078, metal(BRASS)))
    return parts


def _cup(radius: float, height: float, wall: float, fill: float) -> Array:
    """The turned body of a mug, from the middle of its foot over the rim to the drink."""
    inner = radius - wall
    return rounded(
        [(1e-4, 0.05, 0), (radius * 0.70, 0.05, 0.02), (radius * 0.74, 0.0, 0.02), (radius * 0.83, 0.0, 0.04)]
        + [(radius * 0.965, 0.20, 0.16), (radius, 0.55, 0.3), (radius * 0.985, height - 0.02, 0.3), (radius * 0.97, height, 0.04)]
        + [(inner * 0.97, height, 0.04), (inner, height - 0.12, 0.1), (inner, fill, 0)],
        14,
    )


def mug(coffee: float = 1.12) -> Model:
    cream = speckled(glaze((0.74, 0.67, 0.55), (0.50, 0.33, 0.19), rim=(1.44, 1.56)), (0.13, 0.065, 0.035), 0.5, 9.0)
    coat = dipped(cream, clay((0.44, 0.27, 0.17)), 0.34, 0.03)
    whole = glazed(coat, 0.06, (1400, 2048))
    radius, height = 0.72, 1.54
    ear = curve([(0.685, 0, 1.24), (0.88, 0, 1.30), (1.12, 0, 1.20), (1.20, 0, 0.92), (1.06, 0, 0.62), (0.82, 0, 0.46), (0.67, 0, 0.42)], 18)
    handle = sweep(ear, [0.12, 0.10, 0.09, 0.085, 0.085, 0.095, 0.115], whole, squash=1.5, caps=False)
    # The handle's glaze is the body's: it reads places in space, not places along the sweep.
    handle = Surface(handle.points, handle.points, glazed(coat, 0.06, (700, 400)))

    def crema(p: Array) -> Array:
        r = np.hypot(p[..., 0], p[..., 1])
        foam = 0.5 * noise(p, 7.0, 71) + 0.3 * noise(p, 19.0, 72) + 0.2 * noise(p, 45.0, 73)
        tone = np.clip(0.10 + 0.5 * smooth(0.46, 0.62, foam) + 0.9 * smooth(0.46, 0.64, r + 0.12 * (foam - 0.5)), 0.0, 1.0)
        return mix((0.055, 0.021, 0.009), (0.40, 0.215, 0.095), tone)

    drink = rounded([(0.70 * 0.97, coffee + 0.012, 0), (0.64, coffee, 0.02), (1e-4, coffee, 0)])[::-1]
    return [
        lathe(_cup(radius, height, 0.075, 0.5), whole, rings=420),
        handle,
        # The profile runs inwards so that its normal looks up.
        lathe(drink[::-1], glazed(crema, 0.03)),
    ]


def _lemon() -> Surface:
    """A prop: something for the water to be next to."""
    skin = curve(
        [(1e-4, -0.44), (0.05, -0.425), (0.085, -0.385), (0.20, -0.30), (0.285, -0.12), (0.30, 0.02), (0.26, 0.20), (0.14, 0.34)]
        + [(0.085, 0.385), (0.06, 0.43), (1e-4, 0.45)],
        16,
    )
    peel = glazed(lambda p: mix((0.76, 0.50, 0.03), (0.70, 0.53, 0.07), noise(p, 3.0, 74)), 0.22)
    whole = lathe(skin, peel, 240, 300)
    pores = 1 - 0.010 * smooth(0.6, 0.8, noise(whole.points, 24.0, 75)) + 0.02 * (noise(whole.points, 3.0, 76) - 0.5)
    return Surface(whole.points * pores[..., None], whole.solid, peel)


def carafe(lid_on: bool = True) -> Model:
    clear = glass()
    water = 1.18
    outer = rounded(
        [(1e-4, 0.0, 0), (0.56, 0.0, 0.06), (0.66, 0.10, 0.14), (0.66, 0.85, 0.5), (0.36, 1.45, 0.4), (0.30, 1.74, 0.2), (0.36, 2.02, 0.03)]
        + [(0.325, 2.02, 0.012), (0.262, 1.74, 0.2), (0.32, 1.43, 0.4), (0.462, water, 0)],
        22,
    )
    wet = rounded([(0.462, water, 0), (0.615, 0.84, 0.3), (0.615, 0.16, 0.14), (0.52, 0.075, 0.08), (1e-4, 0.07, 0)], 22)
    top = np.array([(0.462, water), (0.3, water), (1e-4, water)])
    body = [
        lathe(outer, clear, 200, 500),
        lathe(wet, glass(1.5, 1.333), 200, 300),
        lathe(top, glass(1.333, 1.0, (0.99, 1.0, 1.0)), 200, 40),
    ]
    cup = rounded(
        [(1e-4, 0.0, 0), (0.33, 0.0, 0.05), (0.37, 0.12, 0.1), (0.43, 0.92, 0.02), (0.398, 0.92, 0.01), (0.342, 0.14, 0.08)]
        + [(0.28, 0.07, 0.05), (1e-4, 0.07, 0)],
        14,
    )
    tumbler = [lathe(cup, clear, 160, 400)]
    if lid_on:
        # Upside down over the neck: its floor rests on the carafe's lip.
        over = [part.turned(180, "x").moved(dz=2.022 + 0.07) for part in tumbler]
        return [*body, *over, _lemon().turned(82, "y").turned(28).moved(0.98, -0.42, 0.285)]
    return [*body, *placed(tumbler, 1.02, -0.42), _lemon().turned(82, "y").turned(-40).moved(-0.80, -0.62, 0.285)]


def mill(crank: float = 35.0) -> Model:
    base = rounded(
        [(1e-4, 0.02, 0), (0.44, 0.02, 0.02), (0.47, 0.06, 0.03), (0.47, 0.16, 0.04), (0.36, 0.30, 0.16), (0.26, 0.80, 0.4)]
        + [(0.30, 1.16, 0.2), (0.38, 1.30, 0.08), (0.38, 1.38, 0.03), (0.33, 1.42, 0.01), (1e-4, 1.42, 0)],
        16,
    )
    head = curve(
        [(0.30, 1.462), (0.365, 1.475), (0.398, 1.54), (0.41, 1.66), (0.375, 1.81), (0.28, 1.93), (0.17, 1.995), (1e-4, 2.02)], 30
    )
    grain = patterned(WALNUT, 0.34, 0.5, coat=0.25)
    knob = curve(
        [(0.12, 1.99), (0.115, 2.02), (0.07, 2.04), (0.052, 2.08), (0.09, 2.13), (0.128, 2.20), (0.11, 2.27), (0.06, 2.307), (1e-4, 2.318)], 24
    )
    parts = [
        lathe(base, grain, rings=320),
        lathe(head, grain, rings=240).turned(crank),
        lathe(rounded([(0.3, 1.41, 0), (0.355, 1.42, 0.01), (0.355, 1.46, 0.01), (0.3, 1.47, 0)]), metal(BRASS, 0.16)),
        lathe(knob, metal(BRASS, 0.16)),
        lathe(rounded([(0.47, 0.0, 0), (0.478, 0.02, 0.01), (0.478, 0.05, 0.01), (0.46, 0.06, 0)]), metal(BRASS, 0.16)),
    ]
    rng = np.random.default_rng(5)
    corns = plain((0.035, 0.022, 0.016), 0.7, 0.3)

    def wrinkled(radius: float) -> Surface:
        corn = ball(radius, corns, 90)
        seed = int(rng.integers(80, 90))
        bumps = 1 + 0.30 * (np.abs(noise(corn.points / radius, 3.4, seed) - 0.5) - 0.1)
        return Surface(corn.points * bumps[..., None], corn.solid, corns)

    for x, y in [(0.78, -0.42), (0.92, -0.30), (0.70, -0.72), (1.16, -0.62), (-0.86, -0.58), (0.98, -0.86), (0.55, -0.60)]:
        radius = 0.052 + 0.012 * rng.random()
        parts.append(wrinkled(radius).turned(float(rng.random() * 360), "x").moved(x, y, radius * 0.97))
    return parts
