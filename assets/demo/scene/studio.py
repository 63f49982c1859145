"""The studio: a seamless sweep, three softboxes, a lens, and the darkroom that makes the JPEG."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mitsuba as mi
import mitsuba_oidn as oidn
import numpy as np
from PIL import Image
from scipy import ndimage

from .mesh import Array, Model, Surface, resampled, rounded, write_ply
from .textures import Colour


@dataclass(frozen=True)
class Shot:
    """One picture: where the camera stands, what it looks at (units of the model), how deep the focus is."""

    key: str
    model: str
    target: tuple[float, float, float]
    distance: float
    azimuth: float = 0.0
    elevation: float = 12.0
    backdrop: Colour = (0.62, 0.58, 0.53)
    fov: float = 24.0
    aperture: float = 0.02
    focus: tuple[float, float, float] | None = None
    exposure: float = 1.0
    samples: int = 8
    seed: int = 0


def _softbox(origin: Array, target: Array, width: float, height: float, radiance: Colour) -> dict[str, Any]:
    look = mi.ScalarTransform4f().look_at(origin=list(origin), target=list(target), up=[0, 0, 1])
    return {
        "type": "rectangle",
        "to_world": look @ mi.ScalarTransform4f().scale([width / 2, height / 2, 1]),
        "bsdf": {"type": "diffuse", "reflectance": {"type": "rgb", "value": 0.0}},
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": list(radiance)}},
    }


def _sweep(backdrop: Colour, folder: Path) -> dict[str, Any]:
    """Floor and wall in one piece of paper: no horizon."""
    line = resampled(rounded([(-9.0, 0.0, 0), (5.0, 0.0, 4.2), (5.0, 9.0, 0)], 60), 240)
    across = np.linspace(14.0, -14.0, 40)
    points = np.stack(
        [np.repeat(across[None], len(line), 0), np.repeat(line[:, :1], 40, 1), np.repeat(line[:, 1:], 40, 1)],
        axis=2,
    )
    normal = np.gradient(line, axis=0)
    normal = np.stack([np.zeros(len(line)), -normal[:, 1], normal[:, 0]], axis=1)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    paper = Surface(points, points, {}, normals=np.repeat(normal[:, None], 40, 1))
    write_ply(paper, folder / "paper.ply")
    return {
        "type": "ply",
        "filename": str(folder / "paper.ply"),
        "bsdf": {
            "type": "twosided",
            "bsdf": {"type": "diffuse", "reflectance": {"type": "rgb", "value": list(backdrop)}},
        },
    }


def _camera(shot: Shot, size: int, samples: int) -> dict[str, Any]:
    a, e = np.radians(shot.azimuth), np.radians(shot.elevation)
    target = np.array(shot.target)
    # Azimuth 0 stands in front of the paper (at negative y); positive goes to the viewer's right.
    origin = target + shot.distance * np.array([np.sin(a) * np.cos(e), -np.cos(a) * np.cos(e), np.sin(e)])
    focus = np.array(shot.focus or shot.target)
    forward = (target - origin) / np.linalg.norm(target - origin)
    return {
        "type": "thinlens",
        "fov": shot.fov,
        "aperture_radius": shot.aperture,
        "focus_distance": float(np.dot(focus - origin, forward)),
        "to_world": mi.ScalarTransform4f().look_at(origin=list(origin), target=list(target), up=[0, 0, 1]),
        # A box filter: the denoiser takes noise that neighbouring pixels share for detail, and keeps it.
        "film": {
            "type": "hdrfilm",
            "width": size,
            "height": size,
            "pixel_format": "rgb",
            "rfilter": {"type": "box"},
        },
        "sampler": {"type": "independent", "sample_count": samples},
    }


def prepared(model: Model) -> Model:
    """Bake every texture of a model once for all its pictures: baking takes as long as tracing."""
    return [replace(p, material=p.material(p)) if callable(p.material) else p for p in model]


def radiance(shot: Shot, model: Model, size: int, samples: int) -> Array:
    """Path-trace the shot and denoise it with the help of its albedo and normals."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        middle = np.array([0.0, 0.0, 0.9])
        scene: dict[str, Any] = {
            "type": "scene",
            "integrator": {
                "type": "aov",
                "aovs": "albedo:albedo,normal:sh_normal",
                "img": {"type": "path", "max_depth": 14},
            },
            "sensor": _camera(shot, size, samples),
            "paper": _sweep(shot.backdrop, folder),
            "key": _softbox(np.array([-4.6, -3.4, 5.2]), middle, 3.4, 3.4, (14.5, 13.8, 12.9)),
            "fill": _softbox(np.array([5.6, -3.0, 2.8]), middle, 2.2, 4.4, (3.4, 3.6, 3.9)),
            "top": _softbox(np.array([0.6, 1.6, 7.0]), middle, 4.2, 3.0, (7.2, 7.1, 7.0)),
            # The room itself: just enough to keep black metal and deep shadow from going to nothing.
            "room": {"type": "constant", "radiance": {"type": "rgb", "value": [0.17, 0.17, 0.18]}},
        }
        for index, part in enumerate(model):
            path = folder / f"{index}.ply"
            write_ply(part, path)
            shape: dict[str, Any] = {"type": "ply", "filename": str(path)}
            shape["bsdf"] = part.material
            if part.emission is not None:
                shape["emitter"] = part.emission(part)
            scene[f"part{index}"] = shape
        raw = np.array(mi.render(mi.load_dict(scene), spp=samples, seed=shot.seed), dtype=np.float32)
    colour, albedo, normal = (np.ascontiguousarray(raw[..., k : k + 3]) for k in (0, 3, 6))
    # One stray caustic sample would survive the filter as a dot; nothing here outshines a softbox.
    colour = np.clip(np.nan_to_num(colour), 0.0, 12.0)
    return np.asarray(oidn.denoise(colour, albedo=np.clip(np.nan_to_num(albedo), 0, 1), normal=normal, hdr=True))


def developed(light: Array, exposure: float, seed: int, grain: float = 1.0) -> Image.Image:
    """Tone curve with a soft shoulder, sRGB, and grain: without it no file weighs what a photograph does."""
    x = np.maximum(light * exposure, 0.0)
    knee = 0.55
    x = np.where(x < knee, x, knee + (1 - knee) * (1 - np.exp(-(x - knee) / (1 - knee))))
    srgb = np.where(x < 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 1e-9) ** (1 / 2.4) - 0.055)
    # A little print contrast, fixed at both ends and in the middle.
    srgb = 0.72 * srgb + 0.28 * srgb * srgb * (3 - 2 * srgb)
    rng = np.random.default_rng(seed + 1000)
    height, width = srgb.shape[:2]
    silver = ndimage.gaussian_filter(rng.standard_normal((height, width)), 0.55)
    dye = ndimage.gaussian_filter(rng.standard_normal((height, width, 3)), (0.9, 0.9, 0))
    level = srgb.mean(axis=2)
    # Grain is strongest in the middle tones and fades towards paper white.
    strength = 0.0085 + 0.013 * np.clip(level * (1 - level) * 4, 0, 1)
    srgb = srgb + grain * ((silver * strength)[..., None] + dye * 0.006)
    return Image.fromarray((np.clip(srgb, 0, 1) * 255 + 0.5).astype(np.uint8), "RGB")


def save(picture: Image.Image, path: Path, quality: int = 86) -> int:
    """Write a JPEG without any metadata and say how many bytes it took."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality, optimize=True, progressive=False)
    path.write_bytes(buffer.getvalue())
    return buffer.tell()


__all__ = ["Shot", "developed", "prepared", "radiance", "save"]
