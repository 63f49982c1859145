"""Things for the other rooms: a lamp, a stool, a vase and a clock. The floor is z = 0; two units tall."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from .materials import BRASS, glazed, image, metal, patterned, plain
from .mesh import Array, Model, Surface, ball, block, curve, lathe, ring, rounded, sweep
from .textures import bake, clay, glaze, mix, smooth, weave, wood

# Oak is browner than ash and its pores are long and dark; without them the two cannot be told apart.
OAK_TONES = (0.50, 0.315, 0.150), (0.285, 0.152, 0.064)
OAK = wood(*OAK_TONES, rings=8.0, pores=0.36)
OAK_BAR = wood(*OAK_TONES, rings=8.0, axis="x", pores=0.36)
OAK_SEAT = wood(*OAK_TONES, rings=13.0, axis="x", shift=1.1, pores=0.36)


def _linen(colour: tuple[float, float, float], around: float, up: float, glow: float) -> tuple[Any, Any]:
    """Cloth with a lamp behind it: the same weave shades the front and lets the light through."""

    def pattern(p: Array) -> Array:
        angle = np.arctan2(p[..., 1], p[..., 0])
        return weave(angle / (2 * np.pi), p[..., 2], around, up)

    def cloth(p: Array) -> Array:
        return np.asarray(colour) * (0.55 + 0.45 * pattern(p))[..., None]

    def shine(p: Array) -> Array:
        # Brightest at the bulb's height; thin places between the threads let more through.
        height = np.exp(-(((p[..., 2] - 1.83) / 0.42) ** 2))
        through = (0.45 + 0.75 * height) * (1.12 - 0.38 * pattern(p))
        return mix((0.60, 0.27, 0.095), (0.84, 0.46, 0.20), height) * through[..., None]

    def material(surface: Surface) -> dict[str, Any]:
        pixels = bake(surface, cloth, (840, 2520))
        bump = {"type": "bumpmap", "arbitrary": image(pixels[..., :1]), "scale": 0.02}
        return bump | {"bsdf": {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": image(pixels)}}}

    def emission(surface: Surface) -> dict[str, Any]:
        return {"type": "area", "radiance": image(bake(surface, shine, (840, 2520)) * glow)}

    return material, emission


def lamp() -> Model:
    terracotta = patterned(clay((0.52, 0.205, 0.115)), 0.62, 0.3, size=(512, 768))
    base = rounded(
        [
            (0.0001, 0.0, 0),
            (0.36, 0.0, 0.03),
            (0.4, 0.06, 0.05),
            (0.56, 0.36, 0.25),
            (0.52, 0.66, 0.25),
            (0.22, 0.92, 0.25),
            (0.13, 1.1, 0.1),
            (0.15, 1.16, 0.02),
            (0.0001, 1.17, 0),
        ],
        16,
    )
    # Slow throwing rings: the potter's fingers.
    rings = lathe(base, terracotta, rings=600, shape=lambda t, z: 1 + 0.004 * np.sin(z * 95) + 0 * t)
    cloth, shine = _linen((0.66, 0.57, 0.45), 210, 70, 1.0)
    shade = np.array([(0.90, 1.42), (0.66, 2.28)])
    parts = [
        rings,
        lathe(
            rounded([(0.13, 1.15, 0), (0.075, 1.20, 0.02), (0.055, 1.28, 0.02), (0.055, 1.60, 0)]),
            metal(BRASS),
        ),
        Surface(*(lathe(shade, cloth, 200, 120).points,) * 2, cloth, emission=shine),
        ring(0.90, 0.016, plain((0.62, 0.54, 0.43), 0.9)).moved(dz=1.42),
        ring(0.66, 0.016, plain((0.62, 0.54, 0.43), 0.9)).moved(dz=2.28),
        ball(0.14, plain((0.9, 0.85, 0.75))).moved(dz=1.80),
        lathe(
            rounded([(1e-4, 2.25, 0), (0.05, 2.25, 0.01), (0.05, 2.31, 0.02), (0.02, 2.37, 0.02), (1e-4, 2.38, 0)]),
            metal(BRASS),
        ),
    ]
    inside = lathe(shade * [0.985, 1], plain((0.8, 0.7, 0.55), 0.9))
    parts.append(Surface(inside.points, inside.points, inside.material))
    # A key switch on the neck, and the cord in woven cotton.
    stem = np.array([[0.04, 0, 1.33], [0.11, 0, 1.33], [0.17, 0, 1.33]])
    parts.append(sweep(stem, 0.018, metal(BRASS)).turned(-50))
    parts.append(ball(0.048, metal(BRASS)).moved(0.195, 0, 1.33).turned(-50))
    cord = curve(
        [(0.34, 0.1, 0.03), (0.60, 0.35, 0.024), (1.0, 0.45, 0.024), (1.5, 0.95, 0.024), (2.6, 1.3, 0.024)],
        30,
    )
    parts.append(sweep(cord, 0.022, plain((0.42, 0.16, 0.09), 0.9)))
    return parts


def stool() -> Model:
    seat = rounded(
        [
            (0.0001, 1.7, 0),
            (0.62, 1.7, 0.1),
            (0.8, 1.76, 0.06),
            (0.82, 1.84, 0.05),
            (0.775, 1.89, 0.05),
            (0.6, 1.85, 0.3),
            (0.3, 1.812, 0.3),
            (0.0001, 1.8, 0),
        ],
        16,
    )
    parts: Model = [lathe(seat, patterned(OAK_SEAT, 0.42, 0.45, 0.0, 0.012, (1200, 1600)), 200, 400)]
    grain = patterned(OAK, 0.42, 0.45, size=(900, 200))
    for k in range(3):
        a = np.radians(90 + 120 * k + 16)
        out = np.array([np.cos(a), np.sin(a), 0.0])
        foot, head = out * 0.80 + [0, 0, 0.035], out * 0.46 + [0, 0, 1.76]
        line = foot + (head - foot) * np.linspace(0, 1, 60)[:, None]
        parts.append(sweep(line, [0.058, 0.075, 0.088, 0.092], grain, segments=56))
    # The foot ring is let into the inner side of the legs, which stand 0.69 from the axis at this height.
    parts.append(ring(0.640, 0.030, metal(BRASS, 0.2)).moved(dz=0.62))
    return parts


def vase(stems: bool = True) -> Model:
    flutes = 22

    def twisted(theta: Array, z: Array) -> Array:
        wave = np.abs(np.sin(0.5 * flutes * (theta - 0.62 * z)))
        fade = smooth(0.02, 0.22, z) * (1 - smooth(1.56, 1.80, z))
        return 1 + fade * (0.075 * (wave**0.8 - 0.6))

    cobalt = glaze((0.022, 0.055, 0.21), (0.30, 0.34, 0.42), rim=(1.86, 1.95), depth=0.22)

    def pooled(p: Array) -> Array:
        r = np.hypot(p[..., 0], p[..., 1])
        around = np.interp(p[..., 2], [0, 0.5, 0.9, 1.5, 1.9], [0.42, 0.64, 0.68, 0.36, 0.30])
        crest = smooth(0.985, 1.035, r / around) * smooth(0.1, 0.3, p[..., 2]) * (1 - smooth(1.5, 1.7, p[..., 2]))
        # Glaze runs off a crest and pools in the groove beside it.
        return mix(cobalt(p), (0.085, 0.15, 0.36), 0.75 * crest)

    line = rounded(
        [
            (0.0001, 0.0, 0),
            (0.4, 0.0, 0.03),
            (0.46, 0.1, 0.1),
            (0.68, 0.62, 0.4),
            (0.66, 1.02, 0.4),
            (0.32, 1.52, 0.35),
            (0.26, 1.76, 0.12),
            (0.34, 1.96, 0.02),
            (0.31, 1.965, 0.012),
            (0.235, 1.76, 0.1),
            (0.25, 1.2, 0),
        ],
        18,
    )
    parts: Model = [lathe(line, glazed(pooled, 0.07, (640, 1408)), 880, 420, twisted)]
    if not stems:
        return parts
    rng = np.random.default_rng(9)
    straw, yellow = plain((0.30, 0.27, 0.10), 0.8), plain((0.80, 0.50, 0.045), 0.9, 0.1)
    for x, y, z in [
        (-0.50, 0.05, 2.80),
        (-0.12, -0.12, 3.06),
        (0.30, 0.10, 2.78),
        (0.64, -0.04, 2.94),
        (0.07, 0.2, 2.50),
    ]:
        path = curve(
            [
                (x * 0.1, y * 0.1, 1.2),
                (x * 0.27, y * 0.4, 1.85),
                (x * 0.62, y * 0.8, 2.2 + (z - 2.2) * 0.4),
                (x, y, z),
            ],
            24,
        )
        parts.append(sweep(path, 0.014, straw, segments=16))
        flower = ball(1.0, yellow, 150)
        # A billy button is some two hundred florets on a sphere, in the spiral that every daisy uses.
        k = np.arange(230) + 0.5
        up, turn = 1 - 2 * k / 230, np.pi * (1 + 5**0.5) * k
        side = np.sqrt(1 - up**2)
        florets = np.stack([side * np.cos(turn), side * np.sin(turn), up], axis=1)
        away, _ = cKDTree(florets).query(flower.points.reshape(-1, 3))
        bumps = 1.0 - 0.16 * (away / 0.11).reshape(flower.points.shape[:2]) ** 2 * 0.6
        flower = Surface(flower.points * bumps[..., None], flower.solid, yellow)
        parts.append(flower.scaled(0.135 + 0.02 * rng.random()).turned(rng.random() * 360, "x").moved(x, y, z))
    return parts


def clock() -> Model:
    """Built lying on its back, face up, then stood into its oak cradle."""

    def dial(p: Array) -> Array:
        r, a = np.hypot(p[..., 0], p[..., 1]), np.arctan2(p[..., 0], p[..., 1])
        base = np.broadcast_to((0.80, 0.76, 0.67), p.shape)
        ink = np.zeros(r.shape)
        for count, inner, outer, half in (
            (60, 0.735, 0.765, 0.0035),
            (12, 0.62, 0.765, 0.012),
            (4, 0.56, 0.765, 0.020),
        ):
            step = 2 * np.pi / count
            off = np.abs((a + step / 2) % step - step / 2) * r
            mark = (1 - smooth(half - 0.002, half + 0.002, off)) * smooth(inner - 0.002, inner + 0.002, r)
            ink = np.maximum(ink, mark * (1 - smooth(outer - 0.002, outer + 0.002, r)))
        return mix(base, (0.03, 0.045, 0.06), ink)

    case = rounded(
        [
            (0.0001, -0.2, 0),
            (0.86, -0.2, 0.08),
            (0.94, -0.12, 0.06),
            (0.94, 0.1, 0.05),
            (0.9, 0.14, 0.03),
            (0.855, 0.13, 0.02),
            (0.84, 0.03, 0.02),
            (0.8, 0.02, 0),
        ],
        14,
    )
    face = rounded([(0.85, 0.03, 0), (0.4, 0.03, 0.1), (1e-4, 0.03, 0)])
    ink, accent = plain((0.03, 0.045, 0.06), 0.35), plain((0.62, 0.16, 0.07), 0.4)
    parts: Model = [
        lathe(case, metal(BRASS, 0.2), rings=320),
        lathe(face, patterned(dial, 0.5, 0.4, size=(1200, 4096))),
        lathe(rounded([(0.045, 0.03, 0), (0.045, 0.115, 0.01), (1e-4, 0.12, 0)]), metal(BRASS, 0.15)),
    ]

    def hand(degrees: float, length: float, width: float, z: float, what: Any, tail: float = 0.12) -> Surface:
        bar = block((width, length + tail, 0.014), 0.005, what).moved(0, (length - tail) / 2, z)
        return bar.turned(-degrees)

    parts += [
        hand(304.2, 0.42, 0.050, 0.060, ink),
        hand(50.4, 0.64, 0.034, 0.082, ink),
        hand(212.0, 0.66, 0.012, 0.102, accent, 0.2),
    ]
    stood = [part.turned(84, "x").moved(0, 0, 1.08) for part in parts]
    # The cradle is a bar of oak with the case let into it.
    oak = patterned(OAK_BAR, 0.42, 0.45, size=(512, 1024))
    return [*stood, block((1.25, 0.62, 0.26), 0.05, oak).moved(0, 0, 0.13)]
