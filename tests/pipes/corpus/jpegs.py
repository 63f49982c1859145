"""JPEG: the ways of colour, of turning, of lying about oneself, and of ending too early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyvips
from PIL import Image

from tests.pipes.corpus.chart import CHART, GREYS, Odd, chart, data_of, grey, picture, write
from tests.pipes.corpus.profiles import grey_gamma, in_wide_gamut, wide_gamut

__all__ = ["make", "turned", "with_exif"]

_UNTURN: dict[int, tuple[Image.Transpose, ...]] = {
    1: (),
    2: (Image.Transpose.FLIP_LEFT_RIGHT,),
    3: (Image.Transpose.ROTATE_180,),
    4: (Image.Transpose.FLIP_TOP_BOTTOM,),
    5: (Image.Transpose.TRANSPOSE,),
    6: (Image.Transpose.ROTATE_90,),
    7: (Image.Transpose.TRANSVERSE,),
    8: (Image.Transpose.ROTATE_270,),
}


def turned(image: Image.Image, orientation: int) -> Image.Image:
    """How a camera held that way stores an upright scene (TIFF 6.0, tag 274)."""
    for way in _UNTURN[orientation]:
        image = image.transpose(way)
    return image


def with_exif(orientation: int = 1, *, gps: bool = False) -> Image.Exif:
    """Camera metadata."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    if gps:
        exif[0x010F] = "SECRET CAMERA"
        exif.get_ifd(0x8825).update({1: "N", 2: (52.0, 31.0, 12.0), 3: "E", 4: (13.0, 24.0, 18.0)})
    return exif


def make(folder: Path) -> list[Odd]:
    """Write them all."""

    def jpeg(name: str, image: Image.Image, odd: Odd | None = None, **options: Any) -> Odd:
        data = data_of(image, "JPEG", **{"quality": 95, **options})
        return write(folder, data, odd or Odd(name))

    plain = picture()
    whole, progressive = data_of(noise(), "JPEG", quality=85), data_of(noise(), "JPEG", quality=85, progressive=True)
    cut = {
        "cut-header.jpg": whole[:30],
        "cut-tables.jpg": whole[:400],
        "cut-middle.jpg": whole[: len(whole) // 2],
        "cut-end.jpg": whole[: len(whole) * 97 // 100],
        "cut-progressive.jpg": progressive[: len(progressive) // 2],
    }
    page = b"<!DOCTYPE html><html><script>alert(1)</script></html>"
    large = plain.resize((4000, 3000), Image.Resampling.NEAREST)
    return [
        jpeg("baseline-444.jpg", plain, subsampling=0),
        jpeg("baseline-420.jpg", plain, subsampling=2),
        jpeg("progressive.jpg", plain, progressive=True),
        jpeg("restarts.jpg", plain, restart_marker_rows=1),
        jpeg("kept-as-rgb.jpg", plain, keep_rgb=True),
        jpeg("grey.jpg", grey(), Odd("grey.jpg", patches=GREYS)),
        # libvips takes a press profile for CMYK without one; browsers, and we, multiply.
        jpeg("cmyk.jpg", in_cmyk(), Odd("cmyk.jpg", vips=False)),
        write(folder, ycck(), Odd("ycck.jpg", vips=False)),
        write(folder, cmyk_with_profile(), Odd("cmyk-profile.jpg", patches=(None,) * 8)),
        *(
            jpeg(f"orientation-{way}.jpg", turned(plain, way), Odd(f"orientation-{way}.jpg"), exif=with_exif(way))
            for way in range(1, 9)
        ),
        jpeg("wide-gamut.jpg", Image.fromarray(in_wide_gamut(chart())), icc_profile=wide_gamut(), subsampling=0),
        jpeg(
            "grey-profile.jpg", grey_in_gamma(1.4), Odd("grey-profile.jpg", patches=GREYS), icc_profile=grey_gamma(1.4)
        ),
        jpeg("broken-profile.jpg", plain, icc_profile=b"no profile at all"),
        jpeg("broken-exif.jpg", plain, exif=b"Exif\0\0II*\0\xff\xff\xff\xffgarbage"),
        jpeg("gps.jpg", turned(plain, 6), exif=with_exif(6, gps=True), comment=b"SECRET COMMENT", xmp=b"<SECRET/>"),
        jpeg("12-megapixels.jpg", large, Odd("12-megapixels.jpg", size=(1280, 960))),
        jpeg("named.png", plain, Odd("named.png")),
        jpeg(
            "one-pixel.jpg",
            Image.new("RGB", (1, 1), CHART[0]),
            Odd("one-pixel.jpg", size=(1, 1), patches=CHART[:1] * 8),
        ),
        jpeg(
            "thread.jpg",
            Image.new("RGB", (65_000, 2), CHART[1]),
            Odd("thread.jpg", size=(1280, 1), patches=CHART[1:2] * 8),
        ),
        write(folder, data_of(plain, "JPEG", quality=95) + bytes(5000) + b"garbage", Odd("garbage-behind.jpg")),
        write(
            folder,
            data_of(plain, "MPO", quality=95, save_all=True, append_images=[picture(tuple(reversed(CHART)))]),
            Odd("stereo.mpo"),
        ),
        jpeg("polyglot-html.jpg", plain, Odd("polyglot-html.jpg"), comment=page),
        *(write(folder, data, Odd(name, "truncated")) for name, data in cut.items()),
        write(
            folder,
            whole.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc3\x00\x11\x0c", 1),
            Odd("lossless.jpg", "unreadable"),
        ),
        write(folder, whole[:20] + bytes(len(whole) - 20), Odd("zeros-behind-header.jpg", "truncated")),
        write(folder, sized(whole, 60_000, 60_000), Odd("bomb.jpg", "too_many_pixels")),
    ]


def noise() -> Image.Image:
    """A picture that does not compress, so that a cut hits its pixels."""
    return Image.effect_noise((320, 240), 80).convert("RGB")


def in_cmyk() -> Image.Image:
    """The chart in CMYK with as much black as can be, which multiplies back to the same colours."""
    rgb = chart().astype(np.float64) / 255
    key = rgb.max(axis=2, keepdims=True)
    inks = np.concatenate([1 - rgb / key, 1 - key], axis=2)
    return Image.frombytes("CMYK", (rgb.shape[1], rgb.shape[0]), np.rint(inks * 255).astype(np.uint8).tobytes())


def ycck() -> bytes:
    """A CMYK JPEG whose first three channels are YCbCr, as Adobe's programs write them (transform 2)."""
    inks = np.asarray(in_cmyk())
    # Stored inverted: what stands for ink is light, and light is what YCbCr is made of.
    light = Image.fromarray(np.ascontiguousarray(inks[..., :3]))
    stored = np.dstack([np.asarray(light.convert("YCbCr")), 255 - inks[..., 3]])
    # The encoder inverts what it is given; what is given is inverted first.
    given = Image.frombytes("CMYK", light.size, (255 - stored).tobytes())
    data = bytearray(data_of(given, "JPEG", quality=98, subsampling=0))
    marker = data.index(b"Adobe")
    data[marker + 11] = 2
    return bytes(data)


def cmyk_with_profile() -> bytes:
    """The chart through the press profile that comes with libvips."""
    image = pyvips.Image.new_from_array(chart(), interpretation="srgb")
    data: bytes = image.icc_export(output_profile="cmyk", intent="perceptual").jpegsave_buffer(Q=95, profile="cmyk")
    return data


def grey_in_gamma(gamma: float) -> Image.Image:
    """Grey whose values mean the chart's under another curve than sRGB's."""
    share = np.asarray(grey()) / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return Image.fromarray(np.rint(255 * linear ** (1 / gamma)).astype(np.uint8))


def sized(data: bytes, width: int, height: int) -> bytes:
    """The same file with another size in its header."""
    place = data.index(b"\xff\xc0") + 5
    return data[:place] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[place + 4 :]
