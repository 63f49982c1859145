"""Meshes made of NumPy grids: everything is turned on a lathe, swept along a path or a rounded block.

A surface is a grid of rings, `points[i, j]`, closed around j. Textures are baked over the same grid (see
`textures.bake`), so grain and glaze are functions of the place in space and run on through a joint as they
would in the real thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Material = dict[str, Any]
Baker = Callable[["Surface"], Material]


@dataclass(frozen=True)
class Surface:
    """One grid of points with the way to shade it; `solid` keeps the coordinates that solid textures read."""

    points: Array
    solid: Array
    material: Material | Baker
    emission: Baker | None = None
    normals: Array | None = None

    def moved(self, dx: float = 0.0, dy: float = 0.0, dz: float = 0.0) -> Surface:
        return replace(self, points=self.points + np.array([dx, dy, dz]))

    def scaled(self, factor: float) -> Surface:
        return replace(self, points=self.points * factor)

    def turned(self, degrees: float, axis: str = "z") -> Surface:
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        rows = {
            "x": [[1, 0, 0], [0, c, -s], [0, s, c]],
            "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
            "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
        }[axis]
        matrix = np.array(rows, dtype=float).T
        normals = None if self.normals is None else self.normals @ matrix
        return replace(self, points=self.points @ matrix, normals=normals)


Model = list[Surface]


def placed(model: Model, dx: float = 0.0, dy: float = 0.0, dz: float = 0.0, turn: float = 0.0) -> Model:
    """The whole model, turned about the vertical axis and then moved."""
    return [part.turned(turn).moved(dx, dy, dz) for part in model]


def rounded(corners: Sequence[tuple[float, float, float]], steps: int = 10) -> Array:
    """A polyline (r, z, fillet) with every inner corner made a curve: real edges catch the light."""
    pts = np.array([(r, z) for r, z, _ in corners], dtype=float)
    out = [pts[0]]
    for i in range(1, len(pts) - 1):
        before, here, after = pts[i - 1], pts[i], pts[i + 1]
        to_before, to_after = before - here, after - here
        reach = min(corners[i][2], 0.48 * np.linalg.norm(to_before), 0.48 * np.linalg.norm(to_after))
        a = here + to_before / max(np.linalg.norm(to_before), 1e-9) * reach
        b = here + to_after / max(np.linalg.norm(to_after), 1e-9) * reach
        for t in np.linspace(0.0, 1.0, steps):
            out.append((1 - t) ** 2 * a + 2 * t * (1 - t) * here + t**2 * b)
    out.append(pts[-1])
    return np.array(out)


def curve(points: Sequence[Sequence[float]], steps: int = 24) -> Array:
    """A Catmull-Rom spline through the points, any dimension."""
    p = np.array(points, dtype=float)
    p = np.vstack([2 * p[0] - p[1], p, 2 * p[-1] - p[-2]])
    out = []
    for i in range(1, len(p) - 2):
        t = np.linspace(0.0, 1.0, steps, endpoint=False)[:, None]
        a, b, c, d = p[i - 1], p[i], p[i + 1], p[i + 2]
        out.append(0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3))
    out.append(p[-2][None])
    return np.vstack(out)


def resampled(line: Array, count: int) -> Array:
    """The same line with points at equal distances: even quads, even baked textures."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    at = np.linspace(0.0, along[-1], count)
    return np.stack([np.interp(at, along, line[:, k]) for k in range(line.shape[1])], axis=1)


def lathe(
    profile: Array,
    material: Material | Baker,
    segments: int = 160,
    rings: int = 220,
    shape: Callable[[Array, Array], Array] | None = None,
) -> Surface:
    """Turn a profile of (r, z) about the vertical axis; `shape(theta, z)` scales the radius, for flutes."""
    line = resampled(profile, rings)
    theta = np.linspace(0.0, 2 * np.pi, segments + 1)
    r = line[:, :1] * (np.ones((1, len(theta))) if shape is None else shape(theta[None, :], line[:, 1:]))
    points = np.stack([r * np.cos(theta), r * np.sin(theta), np.repeat(line[:, 1:], len(theta), axis=1)], axis=2)
    return Surface(points, points, material)


def sweep(
    path: Array,
    radius: Sequence[float] | Array | float,
    material: Material | Baker,
    segments: int = 48,
    squash: float = 1.0,
    caps: bool = True,
) -> Surface:
    """Sweep a circle (or an ellipse, `squash` along the second normal) along a path, with domed ends."""
    n = len(path)
    radii = np.interp(np.linspace(0, 1, n), np.linspace(0, 1, np.size(radius)), np.atleast_1d(radius))
    tangent = np.gradient(path, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    # Parallel transport: a frame that never spins, so that the grain of a bent handle does not twist.
    normal = np.cross(tangent[0], [0.0, 1.0, 0.0] if abs(tangent[0][1]) < 0.9 else [1.0, 0.0, 0.0])
    frames = []
    for t in tangent:
        normal = normal - t * np.dot(normal, t)
        normal = normal / np.linalg.norm(normal)
        frames.append((normal, np.cross(t, normal)))
    theta = np.linspace(0.0, 2 * np.pi, segments + 1)[:, None]
    rows = [
        c + r * (np.cos(theta) * u + np.sin(theta) * v * squash)
        for c, r, (u, v) in zip(path, radii, frames, strict=True)
    ]
    solid = [
        np.concatenate([r * np.cos(theta), r * np.sin(theta) * squash, np.full_like(theta, z)], axis=1)
        for r, z in zip(radii, np.linspace(0, _length(path), n), strict=True)
    ]
    if caps:
        for end, sign in ((0, -1.0), (-1, 1.0)):
            (u, v), c, r, t = frames[end], path[end], radii[end], tangent[end] * sign
            dome = [
                c + t * r * 0.55 * np.sin(a) + r * np.cos(a) * (np.cos(theta) * u + np.sin(theta) * v * squash)
                for a in np.linspace(0.0, np.pi / 2, 9)[1:]
            ]
            flat = [solid[end]] * len(dome)
            rows, solid = (dome[::-1] + rows, flat + solid) if sign < 0 else (rows + dome, solid + flat)
    return Surface(np.array(rows), np.array(solid), material)


def _length(path: Array) -> float:
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def ball(radius: float, material: Material | Baker, segments: int = 40) -> Surface:
    a = np.linspace(-np.pi / 2, np.pi / 2, segments)
    return lathe(np.stack([np.cos(a) * radius + 1e-5, np.sin(a) * radius], axis=1), material, segments, segments)


def ring(radius: float, thickness: float, material: Material | Baker, segments: int = 160) -> Surface:
    """A torus lying flat."""
    a = np.linspace(-np.pi, np.pi, 40)
    return lathe(np.stack([radius + thickness * np.cos(a), thickness * np.sin(a)], axis=1), material, segments, 40)


def hoop(centre: Array, facing: Array, radius: float, thickness: float, material: Material | Baker) -> Surface:
    """A torus around any axis: the lip of a spout."""
    axis = facing / np.linalg.norm(facing)
    u = np.cross(axis, [0.0, 1.0, 0.0])
    u /= np.linalg.norm(u)
    a = np.linspace(0, 2 * np.pi, 97)[:, None]
    path = centre + radius * (np.cos(a) * u + np.sin(a) * np.cross(axis, u))
    return sweep(path, thickness, material, segments=24, caps=False)


def block(size: tuple[float, float, float], edge: float, material: Material | Baker) -> Surface:
    """A box with rounded edges, as one grid: a sphere's grid pulled out to the corners of a smaller box."""
    # Nearly every direction lands on a corner of the inner box, so the flat sides are long quads and
    # all the vertices are spent on the edges.
    half = np.array(size) / 2 - edge
    a, b = np.linspace(-np.pi / 2, np.pi / 2, 97), np.linspace(0, 2 * np.pi, 193)
    normal = np.stack(
        [
            np.cos(a)[:, None] * np.cos(b),
            np.cos(a)[:, None] * np.sin(b),
            np.repeat(np.sin(a)[:, None], len(b), 1),
        ],
        axis=2,
    )
    core = np.clip(normal * 60.0 * np.max(half), -half, half)
    points = core + edge * normal
    return Surface(points, points, material, normals=normal)


def slab(outline: Array, thickness: float, edge: float, material: Material | Baker) -> Surface:
    """A board cut to a closed outline (x, y; counter-clockwise, seen from above), lying on the floor.

    Every point of the outline is to be in sight of the origin, from which the flat sides are filled.
    """
    line = resampled(outline, 481)
    along = np.gradient(np.vstack([line[-2], line, line[1]]), axis=0)[1:-1]
    out = np.stack([along[:, 1], -along[:, 0]], axis=1)
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    inner, a = line - edge * out, np.linspace(0, np.pi / 2, 9)
    bevel = [(inner + edge * np.sin(t) * out, edge * (1 - np.cos(t))) for t in a]
    rings = [(inner * k, 0.0) for k in np.linspace(1e-5, 1, 28)[:-1]] + bevel
    # A deep side gets rings of its own: textures have as many rows there as it has rings.
    upper = [(flat, thickness - z) for flat, z in reversed(rings)]
    deep = np.linspace(edge, thickness - edge, 2 + int(40 * (thickness - 2 * edge)))[1:-1]
    rings += [(line, float(z)) for z in deep] + upper
    points = np.array([np.concatenate([flat, np.full((len(flat), 1), z)], axis=1) for flat, z in rings])
    return Surface(points, points, material)


def settled(surface: Surface) -> Surface:
    """The same surface reading its textures where it stands now, so that they run on from its neighbours."""
    return replace(surface, solid=surface.points)


def _smooth_normals(p: Array) -> Array:
    along = np.gradient(p, axis=0)
    # The last column repeats the first: wrap before the difference, or a seam shows in every reflection.
    wrapped = np.concatenate([p[:, -2:-1], p, p[:, 1:2]], axis=1)
    around = (wrapped[:, 2:] - wrapped[:, :-2]) / 2
    normal = np.cross(around, along)
    size = np.linalg.norm(normal, axis=2, keepdims=True)
    normal = np.where(size > 1e-12, normal / np.maximum(size, 1e-12), 0.0)
    # A pole has no area; the neighbouring ring knows which way it points.
    for pole, beside in ((0, 1), (-1, -2)):
        if size[pole].max() < 1e-7:
            mean = normal[beside].mean(axis=0)
            normal[pole] = mean / max(float(np.linalg.norm(mean)), 1e-9)
    return normal


def write_ply(surface: Surface, path: Path) -> None:
    """Binary PLY with smooth normals and texture coordinates, which the renderer reads in every variant."""
    p = surface.points
    rows, cols = p.shape[:2]
    normal = _smooth_normals(p) if surface.normals is None else surface.normals
    u, v = np.meshgrid(np.linspace(0, 1, cols), np.linspace(0, 1, rows))
    vertex = np.concatenate([p.reshape(-1, 3), normal.reshape(-1, 3), u.reshape(-1, 1), v.reshape(-1, 1)], axis=1)
    i = (np.arange(rows - 1)[:, None] * cols + np.arange(cols - 1)).ravel()
    faces = np.concatenate([np.stack([i, i + 1, i + cols], 1), np.stack([i + 1, i + cols + 1, i + cols], 1)])
    record = np.empty(len(faces), dtype=[("n", "u1"), ("v", "<i4", 3)])
    record["n"], record["v"] = 3, faces
    head = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertex)}"]
    head += [f"property float {name}" for name in ("x", "y", "z", "nx", "ny", "nz", "u", "v")]
    head += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header", ""]
    path.write_bytes("\n".join(head).encode() + vertex.astype("<f4").tobytes() + record.tobytes())
