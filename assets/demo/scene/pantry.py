"""Things for the pantry: a bread board, a salt pig and a fruit bowl. The floor is z = 0; two units tall or wide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .materials import glazed, patterned, plain
from .mesh import Array, Material, Model, Surface, ball, curve, hoop, lathe, placed, rounded, settled, slab, sweep
from .textures import Solid, clay, clouds, dipped, glaze, mix, noise, smooth, speckled, wood

CHERRY = wood((0.50, 0.235, 0.105), (0.24, 0.085, 0.036), rings=8.0, axis="x", shift=1.3)
BEECH = wood((0.60, 0.40, 0.24), (0.42, 0.25, 0.13), rings=6.0)


def _loaf() -> Surface:
    """A prop: an oval country loaf with three cuts, floured where the basket held it."""
    cuts, lean = (-0.30, 0.0, 0.30), 0.42
    shape = curve([(1e-4, 0.0), (0.46, 0.0), (0.60, 0.10), (0.62, 0.26), (0.50, 0.46), (0.28, 0.57), (1e-4, 0.60)], 20)
    raw = lathe(shape, plain((0, 0, 0)), 360, 260).points * np.array([1.18, 0.86, 1.0])
    x, y, z = np.moveaxis(raw, -1, 0)
    along = x - lean * y
    reach = smooth(0.26, 0.42, z) * (1 - smooth(0.36, 0.50, np.abs(y + 0.02)))
    near = [np.abs(along - at + 0.05 * np.sin(7 * y + at * 9)) for at in cuts]
    gap = np.max([1 - smooth(0.030, 0.085, d) for d in near], axis=0) * reach
    ear = np.max([np.exp(-(((d - 0.095) / 0.028) ** 2)) for d in near], axis=0) * reach
    lump = 0.030 * (clouds(raw, 3.0, 3, 91) - 0.5) + 0.010 * (noise(raw, 22.0, 94) - 0.5)
    out = raw / np.linalg.norm(raw - [0, 0, 0.15], axis=2, keepdims=True).clip(0.1)
    points = raw + out * (lump - 0.045 * gap + 0.032 * ear)[..., None]
    points[..., 2] = np.maximum(points[..., 2], 0.0)

    def baked(surface: Surface) -> Material:
        spots = clouds(raw, 2.4, 3, 92)
        tone = mix((0.33, 0.135, 0.042), (0.56, 0.30, 0.115), np.clip(0.25 + 1.6 * (spots - 0.4), 0, 1))
        tone = mix(tone, (0.17, 0.062, 0.022), np.clip(ear * 0.85, 0, 1))
        tone = mix(tone, (0.66, 0.48, 0.28), smooth(0.25, 0.85, gap))
        # The rings are the basket's: flour stays on the ridges of the dough.
        flour = smooth(0.42, 0.60, clouds(raw * [1, 1, 1.6], 4.0, 4, 93)) * (1 - gap) * (1 - 0.8 * ear)
        flour = flour * (0.3 + 0.7 * smooth(-0.5, 0.3, np.sin(z * 62))) * smooth(0.08, 0.2, z)
        tone = mix(tone, (0.76, 0.69, 0.57), 0.6 * flour)
        return patterned(lambda p: p, 0.75, 0.25, size=(520, 720))(replace(surface, solid=tone))

    return Surface(points, points, baked)


def board(bread: bool = True) -> Model:
    thick = 0.115
    outline = rounded(
        [
            (-0.86, 0.0, 0),
            (-0.86, -0.56, 0.16),
            (0.74, -0.56, 0.16),
            (0.78, -0.12, 0.16),
            (1.14, -0.10, 0.02),
            (1.14, 0.10, 0.02),
            (0.78, 0.12, 0.16),
            (0.74, 0.56, 0.16),
            (-0.86, 0.56, 0.16),
            (-0.86, 0.0, 0),
        ],
        14,
    )
    grain = patterned(CHERRY, 0.40, 0.45, size=(900, 1400))
    band = rounded(
        [
            (0.135, thick / 2, 0),
            (0.135, 0.0, 0.03),
            (0.285, 0.0, 0.03),
            (0.285, thick, 0.03),
            (0.135, thick, 0.03),
            (0.135, thick / 2, 0),
        ],
        10,
    )
    loop = settled(lathe(band, patterned(CHERRY, 0.40, 0.45, size=(400, 900)), 160, 120).moved(1.37))
    # A thong of leather through the loop, to hang the board by.
    thong = curve(
        [
            (1.40, 0.0, 0.022),
            (1.50, 0.03, thick + 0.02),
            (1.60, 0.06, thick + 0.036),
            (1.71, 0.08, 0.09),
            (1.78, 0.04, 0.022),
            (1.84, -0.16, 0.022),
            (1.76, -0.42, 0.022),
            (1.54, -0.58, 0.022),
            (1.34, -0.50, 0.022),
            (1.40, -0.34, 0.022),
            (1.60, -0.22, 0.022),
            (1.74, -0.10, 0.05),
            (1.66, 0.0, thick + 0.034),
            (1.54, -0.02, thick + 0.034),
            (1.43, -0.04, 0.05),
            (1.38, -0.03, 0.022),
        ],
        16,
    )
    leather = patterned(lambda p: mix((0.21, 0.085, 0.035), (0.30, 0.13, 0.06), noise(p, 6.0, 95)), 0.6, 0.3)
    parts = [slab(outline, thick, 0.028, grain), loop, sweep(thong, 0.021, leather, segments=20)]
    if bread:
        crumb = plain((0.50, 0.30, 0.13), 0.9, 0.1)
        rng = np.random.default_rng(17)
        parts.append(_loaf().scaled(0.92).turned(14).moved(-0.10, 0.02, thick))
        for x, y in [(0.56, -0.30), (0.62, -0.18), (0.50, -0.42), (0.30, -0.50), (0.64, 0.20), (-0.60, -0.46)]:
            size = 0.010 + 0.010 * rng.random()
            parts.append(ball(size, crumb, 12).moved(x, y, thick + size * 0.8))
    return parts


def _bend(count: int = 120) -> Array:
    """The middle line of the salt pig: straight up, then over to the front."""
    up = np.stack([np.zeros(40), np.zeros(40), np.linspace(0.02, 0.66, 40, endpoint=False)], axis=1)
    a = np.radians(np.linspace(0, 62, count - 40))
    return np.vstack([up, np.stack([0 * a, -1.02 + 1.02 * np.cos(a), 0.66 + 1.02 * np.sin(a)], axis=1)])


def salt_pig(turn: float = 0.0) -> Model:
    saffron = speckled(glaze((0.66, 0.36, 0.045), (0.50, 0.25, 0.06), depth=0.14), (0.22, 0.09, 0.03), 0.35, 10.0)
    coat = dipped(saffron, clay((0.50, 0.33, 0.22)), 0.17, 0.02)
    cream = glaze((0.74, 0.68, 0.56), (0.6, 0.5, 0.4), depth=0.06)
    line = _bend()
    along = np.linspace(0, 1, len(line))
    radius = np.interp(
        along, [0.0, 0.03, 0.12, 0.30, 0.50, 0.70, 0.88, 1.0], [0.60, 0.64, 0.71, 0.76, 0.74, 0.66, 0.585, 0.58]
    )
    radius = np.convolve(np.pad(radius, 4, mode="edge"), np.ones(9) / 9, mode="valid")
    wall = 0.062
    outside = settled(sweep(line, radius, glazed(coat, 0.07, (900, 1200)), segments=160, caps=False))
    inside = settled(sweep(line[::-1], radius[::-1] - wall, glazed(cream, 0.08, (300, 300)), segments=160, caps=False))
    facing = line[-1] - line[-2]
    lip = settled(
        hoop(line[-1], facing, float(radius[-1]) - wall / 2, wall / 2 * 1.05, glazed(_rim(coat), 0.07, (200, 600)))
    )
    ear = curve(
        [(0, 0.68, 1.14), (0, 0.92, 1.20), (0, 1.10, 1.02), (0, 1.09, 0.74), (0, 0.92, 0.54), (0, 0.70, 0.48)], 18
    )
    handle = settled(
        sweep(ear, [0.12, 0.095, 0.085, 0.085, 0.095, 0.12], glazed(coat, 0.07, (500, 300)), squash=1.0, caps=False)
    )
    heap = lathe(np.array([(0.705, 0.60), (0.5, 0.66), (0.25, 0.70), (1e-4, 0.71)]), plain((0, 0, 0)), 260, 200)
    grains = noise(heap.points, 26.0, 96) * 0.035 + noise(heap.points, 4.0, 97) * 0.09
    salt = heap.points + np.stack([0 * grains, 0 * grains, grains], axis=-1)
    spoon = curve([(0.02, 0.06, 0.72), (0.06, -0.18, 1.02), (0.10, -0.42, 1.34), (0.15, -0.66, 1.62)], 20)
    beech = patterned(BEECH, 0.5, 0.35, size=(400, 160))
    parts = [
        outside,
        inside,
        lip,
        handle,
        Surface(salt, salt, plain((0.86, 0.85, 0.83), 0.7, 0.4)),
        sweep(spoon, [0.046, 0.036, 0.036, 0.060, 0.075, 0.070], beech, segments=32, squash=0.55),
    ]
    return placed(parts, turn=turn)


def _rim(coat: Solid) -> Solid:
    """Glaze thins over an edge, and the clay shows through."""
    return lambda p: mix(coat(p), (0.46, 0.27, 0.12), np.full(p.shape[:-1], 0.45))


def _pear(seed: int) -> Model:
    """A prop, standing at the origin, about three quarters of a unit tall."""
    skin = curve(
        [
            (1e-4, 0.03),
            (0.06, 0.005),
            (0.16, 0.03),
            (0.265, 0.15),
            (0.285, 0.27),
            (0.235, 0.40),
            (0.16, 0.52),
            (0.125, 0.62),
            (0.085, 0.69),
            (0.03, 0.705),
            (1e-4, 0.695),
        ],
        14,
    )

    def peel(p: Array) -> Array:
        q = p + seed * 3.1
        base = mix((0.34, 0.37, 0.055), (0.52, 0.43, 0.08), smooth(0.3, 0.7, clouds(q, 1.6, 3, 98)))
        side = smooth(0.05, 0.30, p[..., 0] + 0.1 * (noise(q, 3.0, 99) - 0.5))
        base = mix(base, (0.50, 0.20, 0.055), 0.55 * side)
        freckles = smooth(0.74, 0.80, noise(q, 30.0, 100))
        return mix(base, (0.27, 0.17, 0.06), 0.6 * freckles)

    whole = lathe(skin, glazed(peel, 0.24, (300, 400)), 120, 160)
    bent = whole.points + np.array([0.05, 0.02, 0]) * (np.clip(whole.points[..., 2:] - 0.35, 0, 1) ** 2) * 4
    stem = curve([(0.018, 0.007, 0.67), (0.035, 0.012, 0.76), (0.075, 0.01, 0.83), (0.10, 0.0, 0.87)], 10)
    return [
        Surface(bent, whole.solid, whole.material),
        sweep(stem, [0.020, 0.015, 0.017, 0.024], plain((0.11, 0.06, 0.03), 0.8), segments=16),
    ]


def bowl(fruit: bool = True) -> Model:
    oxblood = glaze((0.20, 0.016, 0.016), (0.44, 0.38, 0.29), rim=(0.70, 0.80), depth=0.22)

    def fired(p: Array) -> Array:
        # Copper red is uneven: it runs thick and dark into the well, thin and pink on the shoulder.
        r = np.hypot(p[..., 0], p[..., 1])
        streak = clouds(np.stack([p[..., 0], p[..., 1], 0.5 * p[..., 2] + 0.6 * r], axis=-1), 1.5, 4, 101)
        return mix(oxblood(p), (0.36, 0.060, 0.045), 0.55 * smooth(0.42, 0.62, streak))

    coat = dipped(fired, clay((0.40, 0.28, 0.20)), 0.075, 0.008)
    line = rounded(
        [
            (1e-4, 0.04, 0),
            (0.42, 0.04, 0.02),
            (0.45, 0.0, 0.015),
            (0.52, 0.0, 0.02),
            (0.55, 0.10, 0.05),
            (0.86, 0.22, 0.22),
            (1.16, 0.52, 0.3),
            (1.27, 0.80, 0.02),
            (1.215, 0.805, 0.02),
            (1.10, 0.55, 0.28),
            (0.80, 0.28, 0.22),
            (0.40, 0.15, 0.2),
            (1e-4, 0.13, 0),
        ],
        16,
    )
    parts: Model = [lathe(line, glazed(coat, 0.05, (1000, 1000)), 240, 420)]
    if fruit:
        for number, (x, y, z, turn, lean, way) in enumerate(
            [
                (-0.44, -0.28, 0.26, 20, -20, 28),
                (0.34, -0.42, 0.27, 140, 14, -40),
                (0.60, 0.16, 0.30, 250, 30, 10),
                (-0.10, 0.42, 0.28, 70, 6, 0),
                (-0.62, 0.24, 0.33, 300, -34, 0),
            ]
        ):
            pear = [part.turned(turn).turned(lean, "y").turned(way * 0.3, "x") for part in _pear(number)]
            parts += placed(pear, x, y, z)
    return parts
