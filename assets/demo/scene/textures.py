"""Procedural materials: solid functions of the place in space, baked over a surface's own grid.

Colours are linear RGB reflectances. Every pattern reads seeded noise, so a render repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import ndimage

from .mesh import Array, Surface

Solid = Callable[[Array], Array]
Colour = tuple[float, float, float]


@cache
def _lattice(seed: int) -> Array:
    values = np.random.default_rng(seed).random((48, 48, 48))
    return np.asarray(ndimage.spline_filter(values, order=2, mode="grid-wrap"))


def noise(p: Array, scale: float | tuple[float, float, float] = 1.0, seed: int = 1) -> Array:
    """Smooth noise of about 0..1; `scale` cells per unit, per axis for stretched patterns."""
    q = np.moveaxis(p * np.array(scale), -1, 0)
    flat = ndimage.map_coordinates(_lattice(seed), q.reshape(3, -1), order=2, mode="grid-wrap", prefilter=False)
    return np.asarray(flat.reshape(p.shape[:-1]))


def clouds(p: Array, scale: float, octaves: int = 4, seed: int = 1) -> Array:
    """Several octaves of noise, about 0..1."""
    total = sum(noise(p, scale * 2**k, seed + k) * 0.5**k for k in range(octaves))
    return np.asarray(total / sum(0.5**k for k in range(octaves)))


def mix(a: Colour | Array, b: Colour | Array, t: Array) -> Array:
    return np.asarray(a) * (1 - t[..., None]) + np.asarray(b) * t[..., None]


def smooth(lo: float, hi: float, x: Array) -> Array:
    t = np.clip((x - lo) / (hi - lo), 0.0, 1.0)
    return t * t * (3 - 2 * t)


def bake(surface: Surface, solid: Solid, size: tuple[int, int] = (1024, 1024)) -> Array:
    """Evaluate a solid function over the surface: image rows follow the rings, columns go around."""
    rows, cols = surface.solid.shape[:2]
    v = np.linspace(0, rows - 1, size[0])
    u = np.linspace(0, cols - 1, size[1])
    grid = np.meshgrid(v, u, indexing="ij")
    place = np.stack([ndimage.map_coordinates(surface.solid[..., k], grid, order=1) for k in range(3)], axis=-1)
    return np.ascontiguousarray(np.clip(solid(place), 0.0, 1.0).astype(np.float32))


def wood(
    light: Colour, dark: Colour, rings: float = 5.0, axis: str = "z", shift: float = 0.9, pores: float = 0.28
) -> Solid:
    """Growth rings around a pith that lies beside the piece, plus fibres along the grain and pores this dark."""
    order = {"z": (0, 1, 2), "x": (1, 2, 0), "y": (2, 0, 1)}[axis]

    def at(p: Array) -> Array:
        q = p[..., list(order)]
        wobble = np.stack([noise(q, (1.2, 1.2, 0.35), 11) - 0.5, noise(q, (1.2, 1.2, 0.35), 12) - 0.5], axis=-1)
        across = q[..., :2] + 0.35 * wobble + np.array([shift, shift * 0.6])
        age = np.hypot(across[..., 0], across[..., 1]) * rings
        year = age - np.floor(age)
        # Early wood darkens slowly towards a sharp late-wood line: a saw tooth with a soft tooth.
        grain = year**2.2 * (1 - smooth(0.93, 1.0, year))
        fibre = noise(q, (38.0, 38.0, 1.6), 13) * 0.6 + noise(q, (85.0, 85.0, 3.0), 14) * 0.4
        open_ = smooth(0.66, 0.8, noise(q, (60.0, 60.0, 2.2), 15))
        tone = 0.14 + 0.55 * grain + 0.38 * (fibre - 0.5) + 0.22 * (clouds(q, 0.7, 2, 16) - 0.5)
        return mix(light, dark, np.clip(tone, 0, 1)) * (1 - pores * open_)[..., None]

    return at


def glaze(colour: Colour, edge: Colour, rim: tuple[float, float] | None = None, depth: float = 0.16) -> Solid:
    """A fired glaze: uneven in thickness, breaking towards `edge` above the height `rim`."""

    def at(p: Array) -> Array:
        thick = clouds(p * np.array([1.0, 1.0, 0.6]), 2.2, 4, 21)
        body = np.asarray(colour) * (1 + depth * 2 * (thick - 0.5))[..., None]
        if rim is None:
            return body
        thin = smooth(rim[0], rim[1], p[..., 2] + 0.06 * (noise(p, 5.0, 24) - 0.5))
        return mix(body, edge, thin)

    return at


def _dots(p: Array, scale: float, share: float, seed: int) -> Array:
    """Round dots of uneven size: one possible dot in each cell of a lattice, clear of the cell's walls."""
    q = p * scale
    cell = np.floor(q)
    table = np.random.default_rng(seed).random((4096, 5))
    index = (cell @ np.array([73856093, 19349663, 83492791])).astype(np.int64) % 4096
    draw = table[index]
    radius = np.where(draw[..., 3] < share, 0.06 + 0.16 * draw[..., 4] ** 2, -1.0)
    away = np.linalg.norm(q - cell - (0.25 + 0.5 * draw[..., :3]), axis=-1)
    return 1 - smooth(-0.03, 0.03, away - radius)


def speckled(base: Solid, speck: Colour, share: float = 0.5, scale: float = 12.0) -> Solid:
    """Iron specks burning through the glaze, in three sizes."""

    def at(p: Array) -> Array:
        q = p + 0.006 * np.stack([noise(p, 30.0, s) for s in (33, 34, 35)], axis=-1)
        specks = [0.95 * _dots(q, scale, share, 31), 0.8 * _dots(q + 5.3, scale * 1.9, share, 32)]
        specks.append(0.55 * _dots(q + 9.1, scale * 3.1, share, 36))
        return mix(base(p), speck, np.max(specks, axis=0))

    return at


def dipped(glazed: Solid, bare: Solid, line: float, wave: float = 0.02) -> Solid:
    """Glaze above a hand-dipped line, bare clay below it."""

    def at(p: Array) -> Array:
        level = line + wave * (noise(p, (2.2, 2.2, 0.0), 41) - 0.5) * 2
        return mix(bare(p), glazed(p), smooth(-0.006, 0.006, p[..., 2] - level))

    return at


def clay(colour: Colour) -> Solid:
    def at(p: Array) -> Array:
        return np.asarray(colour) * (0.86 + 0.28 * clouds(p, 9.0, 3, 51))[..., None]

    return at


def weave(p_around: Array, p_up: Array, warp: float, weft: float) -> Array:
    """A plain weave as a height of 0..1: threads go over and under, uneven as flax is."""
    x, y = p_around * warp, p_up * weft
    place = np.stack([np.floor(x) * 0.731, y * 0.07, np.zeros_like(x)], axis=-1)
    cross = np.stack([x * 0.05, np.floor(y) * 0.613, np.ones_like(x) * 7.3], axis=-1)
    thick_x, thick_y = 0.6 + 0.8 * noise(place, 1.0, 61), 0.6 + 0.8 * noise(cross, 1.0, 62)
    up = np.abs(np.sin(np.pi * x)) ** 0.7 * thick_x
    over = np.abs(np.sin(np.pi * y)) ** 0.7 * thick_y
    checker = (np.floor(x) + np.floor(y)) % 2
    return np.asarray(np.clip(np.where(checker > 0, up * 0.75 + 0.2 * over, over * 0.75 + 0.2 * up), 0, 1.2) / 1.2)
