"""Materials as renderer dictionaries; those with a pattern are bakers that wait for their surface."""

from __future__ import annotations

from typing import Any

import mitsuba as mi
import numpy as np

from .mesh import Array, Baker, Material, Surface
from .textures import Colour, Solid, bake


def image(pixels: Array) -> dict[str, Any]:
    """A bitmap taken as it is (linear); `clamp` because the ends of a baked grid are ends, except around."""
    return {"type": "bitmap", "bitmap": mi.Bitmap(np.asarray(pixels, dtype=np.float32)), "raw": True}


def rgb(colour: Colour) -> dict[str, Any]:
    return {"type": "rgb", "value": list(colour)}


def plain(colour: Colour, roughness: float = 0.5, specular: float = 0.4) -> Material:
    return {
        "type": "twosided",
        "bsdf": {
            "type": "principled",
            "base_color": rgb(colour),
            "roughness": roughness,
            "specular": specular,
        },
    }


def metal(colour: Colour, roughness: float = 0.22) -> Material:
    """A lacquered metal; the reflectance carries the colour, so brass stays brass under a white softbox."""
    return {
        "type": "twosided",
        "bsdf": {
            "type": "roughconductor",
            "material": "none",
            "alpha": roughness,
            "specular_reflectance": rgb(colour),
        },
    }


def glass(inside: float = 1.5, outside: float = 1.0, tint: Colour = (0.985, 0.995, 0.992)) -> Material:
    return {"type": "dielectric", "int_ior": inside, "ext_ior": outside, "specular_transmittance": rgb(tint)}


def patterned(
    solid: Solid,
    roughness: float = 0.4,
    specular: float = 0.5,
    coat: float = 0.0,
    relief: float = 0.0,
    size: tuple[int, int] = (1024, 1024),
) -> Baker:
    """A solid texture under an optional clear coat; `relief` lets the dark parts stand back a little."""

    def make(surface: Surface) -> Material:
        pixels = bake(surface, solid, size)
        bsdf: Material = {
            "type": "principled",
            "base_color": image(pixels),
            "roughness": roughness,
            "specular": specular,
            "clearcoat": coat,
            "clearcoat_gloss": 0.96,
        }
        if relief:
            height = pixels.mean(axis=2, keepdims=True)
            bsdf = {"type": "bumpmap", "arbitrary": image(height), "scale": relief, "bsdf": bsdf}
        return {"type": "twosided", "bsdf": bsdf}

    return make


def glazed(solid: Solid, roughness: float = 0.06, size: tuple[int, int] = (1024, 1024)) -> Baker:
    """Glass over colour: a smooth dielectric on a diffuse body, which is what a glaze is."""

    def make(surface: Surface) -> Material:
        return {
            "type": "twosided",
            "bsdf": {
                "type": "roughplastic",
                "distribution": "ggx",
                "alpha": roughness,
                "nonlinear": True,
                "diffuse_reflectance": image(bake(surface, solid, size)),
            },
        }

    return make


BRASS: Colour = (0.80, 0.56, 0.25)
