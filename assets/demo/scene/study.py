"""Things for the study: marble bookends with their books, and a knitted pouf. The floor is z = 0; two units wide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .materials import BRASS, metal, patterned, plain
from .mesh import Array, Material, Model, Surface, block, lathe, placed, resampled, rounded, settled, slab
from .textures import Colour, clouds, mix, noise, smooth


def _marble(p: Array) -> Array:
    """White stone with grey veins: sheets where two slow noises agree, soft on one side and sharp on the other."""
    q = p + 0.42 * np.stack([clouds(p, 1.7, 5, s) - 0.5 for s in (121, 131, 141)], axis=-1)
    sheet = q @ np.array([0.62, 0.30, 0.72])
    wide = np.abs(((sheet * 1.5 + 0.25 * clouds(q, 1.2, 3, 125) + 0.55) % 1.0) - 0.5)
    fine = np.abs(((sheet * 3.4 + 0.9 * clouds(q, 1.1, 3, 126) + 0.3) % 1.0) - 0.5)
    strength = smooth(0.36, 0.60, clouds(p, 1.6, 2, 127))
    vein = (1 - smooth(0.0, 0.030, wide)) * (0.55 + 0.45 * strength) + 0.26 * (1 - smooth(0.0, 0.13, wide))
    vein = np.clip(vein + 0.75 * (1 - smooth(0.0, 0.030, fine)) * strength, 0, 1)
    cloud = mix((0.76, 0.75, 0.73), (0.60, 0.605, 0.615), smooth(0.40, 0.62, clouds(q, 1.8, 4, 128)))
    return mix(cloud, (0.12, 0.125, 0.135), 0.9 * vein)


def _quarter(radius: float, depth: float) -> Surface:
    """A quarter of a round, standing on one straight side with the other towards +x."""
    a = np.radians(np.linspace(180, 90, 60))
    arc = [(radius + radius * np.cos(t), radius * np.sin(t), 0.0) for t in a]
    centre = np.array([radius * 0.58, radius * 0.42])
    # Clockwise as drawn, and the outline has to run the other way round.
    corners = [(radius, radius * 0.5, 0), *[(x, y, 0.0) for x, y, _ in arc[::-1]], (0, 0, 0.02), (radius, 0.0, 0.03)]
    line = rounded([*corners, (radius, radius * 0.5, 0)], 6)
    stone = patterned(_marble, 0.16, 0.5, coat=0.5, size=(900, 1400))
    flat = slab(resampled(line, 481) - centre, depth, 0.022, stone)
    upright = flat.moved(centre[0], centre[1], -depth / 2).turned(90, "x")
    return upright


def _book(width: float, height: float, depth: float, cloth: Colour, bands: tuple[float, ...]) -> Model:
    """Standing at the origin, spine to the front, its left side at x = 0."""
    weave = patterned(
        lambda p: np.asarray(cloth) * (0.80 + 0.4 * noise(p, (75.0, 75.0, 75.0), 129))[..., None],
        0.8,
        0.25,
        size=(320, 240),
    )
    leaf = patterned(
        lambda p: mix((0.72, 0.66, 0.54), (0.52, 0.46, 0.36), smooth(0.45, 0.75, noise(p, (95.0, 1.0, 1.0), 130))),
        0.9,
        0.1,
        size=(200, 320),
    )
    board = 0.022
    middle, back = width / 2, depth / 2
    parts: Model = [
        block((board, depth, height), 0.009, weave).moved(board / 2, back, height / 2),
        block((board, depth, height), 0.009, weave).moved(width - board / 2, back, height / 2),
        block((width, 0.11, height), 0.040, weave).moved(middle, 0.03, height / 2),
        block((width - board, depth - 0.07, height - 0.06), 0.006, leaf).moved(middle, back, height / 2),
    ]
    for at in bands:
        parts.append(block((width * 0.80, 0.02, 0.012), 0.004, metal(BRASS, 0.3)).moved(middle, -0.018, height * at))
    return [settled(part) for part in parts]


BOOKS: tuple[tuple[float, float, float, Colour, tuple[float, ...]], ...] = (
    (0.20, 1.28, 0.92, (0.045, 0.115, 0.105), (0.84, 0.80, 0.14)),
    (0.15, 1.14, 0.84, (0.50, 0.37, 0.21), (0.80,)),
    (0.25, 1.40, 0.98, (0.27, 0.052, 0.040), (0.86, 0.82, 0.18, 0.14)),
    (0.13, 1.20, 0.86, (0.55, 0.50, 0.41), (0.82, 0.16)),
    (0.19, 1.32, 0.94, (0.050, 0.075, 0.150), (0.85, 0.13)),
)


def bookends(books: bool = True) -> Model:
    radius, depth = 0.86, 0.62
    left = _quarter(radius, depth)
    right = settled(left.moved(3.0, 1.0, 2.0)).turned(180)
    right = right.moved(-right.points[..., 0].min(), -right.points[..., 1].mean(), -right.points[..., 2].min())
    parts: Model = []
    x = 0.0
    if books:
        for width, height, deep, cloth, bands in BOOKS:
            parts += placed(_book(width, height, deep, cloth, bands), x, -0.44 + 0.5 * (0.98 - deep))
            x += width + 0.004
    else:
        x = 0.006
    shift = -x / 2
    parts = placed(parts, shift)
    return [*parts, left.moved(-radius + shift), right.moved(x + shift)]


def _stitches(around: Array, along: Array) -> Array:
    """Stocking stitch as a height of 0..1: columns of V, each leg a fat strand leaning to the middle."""
    column = around - np.floor(around)
    off = np.abs(column - 0.5)
    across = np.clip(1 - ((off - 0.25) / 0.27) ** 2, 0, 1)
    lean = along + 0.9 * (0.5 - off)
    pull = lean - np.floor(lean)
    strand = np.clip(1 - (np.abs(pull - 0.5) / 0.53) ** 2.2, 0, 1)
    return np.sqrt(across) * (0.05 + 0.95 * np.sqrt(strand))


def pouf() -> Model:
    columns = 36
    line = resampled(
        rounded(
            [
                (0.10, 0.0, 0),
                (0.80, 0.0, 0.20),
                (1.16, 0.16, 0.26),
                (1.22, 0.50, 0.40),
                (1.13, 0.84, 0.30),
                (0.72, 1.00, 0.40),
                (0.12, 0.955, 0.02),
                (0.05, 0.925, 0),
            ],
            18,
        ),
        560,
    )
    base = lathe(line, plain((0, 0, 0)), columns * 24, 560).points
    theta = np.linspace(0, columns, columns * 24 + 1)[None, :]
    step = np.linalg.norm(np.diff(line, axis=0), axis=1)
    # A stitch is as long as it is wide, so the rows close up where the columns are drawn together.
    width = 2 * np.pi * np.maximum(line[:, 0], 0.22) / columns
    rows = np.concatenate([[0.0], np.cumsum(step / (1.25 * (width[1:] + width[:-1]) / 2))])[:, None]
    uneven = 0.10 * (noise(base, 2.5, 132) - 0.5)
    height = _stitches(theta + uneven, rows + 1.6 * uneven)
    tangent = np.gradient(line, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    out = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    angle = theta * 2 * np.pi / columns
    normal = np.stack(
        [out[:, :1] * np.cos(angle), out[:, :1] * np.sin(angle), np.repeat(out[:, 1:], theta.shape[1], 1)], axis=2
    )
    thick = 0.062 * np.clip(line[:, 0] / 0.8, 0.25, 1.0)[:, None]
    sag = 0.030 * (noise(base, (1.1, 1.1, 0.6), 133) - 0.5)
    points = base + normal * (thick * height + sag)[..., None]
    points[..., 2] = np.maximum(points[..., 2], 0.0)

    def wool(surface: Surface) -> Material:
        fibre = noise(base, 42.0, 134) * 0.6 + noise(base, 90.0, 135) * 0.4
        tone = mix((0.055, 0.020, 0.036), (0.235, 0.098, 0.165), np.clip(height * 0.85 + 0.5 * (fibre - 0.5), 0, 1))
        return patterned(lambda p: p, 0.95, 0.15, size=(1120, 1728))(replace(surface, solid=tone))

    button = lathe(
        rounded([(0.155, 0.93, 0), (0.16, 0.965, 0.03), (0.10, 0.995, 0.05), (1e-4, 1.0, 0)], 10),
        plain((0.12, 0.048, 0.082), 0.9, 0.15),
        96,
        80,
    )
    return [Surface(points, points, wool), button]
