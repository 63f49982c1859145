"""WebP, AVIF, HEIC, GIF and APNG: stills, animations, what they hide, and how they break."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pillow_heif
import pyvips
from PIL import Image

from tests.pipes.corpus.chart import CHART, WHITE, Odd, chart, data_of, picture, write
from tests.pipes.corpus.jpegs import noise, turned, with_exif
from tests.pipes.corpus.pngs import SIGNATURE, alpha, chunk, png, see_through
from tests.pipes.corpus.profiles import in_wide_gamut, wide_gamut

__all__ = ["make"]


def make(folder: Path) -> list[Odd]:
    """Write them all."""
    plain, other, third = picture(), picture(tuple(reversed(CHART))), picture(CHART[4:] + CHART[:4])
    glass = Image.fromarray(np.dstack([chart(), alpha().astype(np.uint8)]))
    moving: dict[str, Any] = {"save_all": True, "append_images": [other, third], "duration": 100}
    wide: dict[str, Any] = {"icc_profile": wide_gamut()}
    paint = Image.fromarray(in_wide_gamut(chart()))
    noisy = {kind: data_of(noise(), kind) for kind in ("WEBP", "AVIF", "GIF")}
    vips = pyvips.Image.new_from_array(chart(), interpretation="srgb")
    deep = (vips * 257).cast("ushort").copy(interpretation="rgb16")

    def shown(name: str, image: Image.Image, kind: str, odd: Odd | None = None, **options: Any) -> Odd:
        return write(folder, data_of(image, kind, **options), odd or Odd(name))

    def missed(name: str, data: bytes, reason: str) -> Odd:
        return write(folder, data, Odd(name, reason))

    return [
        shown("lossy.webp", plain, "WEBP", quality=90),
        shown("lossless.webp", plain, "WEBP", lossless=True),
        shown("alpha.webp", glass, "WEBP", Odd("alpha.webp", patches=see_through(CHART)), lossless=True),
        shown("moving.webp", plain, "WEBP", Odd("moving.webp", frames=3), lossless=True, **moving),
        shown("orientation.webp", turned(plain, 8), "WEBP", exif=with_exif(8, gps=True)),
        shown("wide-gamut.webp", paint, "WEBP", lossless=True, **wide),
        missed("cut.webp", noisy["WEBP"][: len(noisy["WEBP"]) // 2], "truncated"),
        missed("cut-head.webp", noisy["WEBP"][:24], "truncated"),
        missed("bomb.webp", webp_canvas(16_384, 16_384), "too_many_pixels"),
        shown("plain.avif", plain, "AVIF", quality=90),
        write(folder, deep.heifsave_buffer(compression="av1", bitdepth=10, Q=90), Odd("10-bit.avif")),
        shown("alpha.avif", glass, "AVIF", Odd("alpha.avif", patches=see_through(CHART)), quality=95),
        *(
            shown(f"turned-{way}.avif", turned(plain, way), "AVIF", quality=90, exif=with_exif(way))
            for way in (2, 5, 6, 8)
        ),
        shown("moving.avif", plain, "AVIF", Odd("moving.avif", frames=3, vips=False), quality=90, **moving),
        shown("wide-gamut.avif", paint, "AVIF", quality=95, subsampling="4:4:4", **wide),
        missed("cut.avif", noisy["AVIF"][: len(noisy["AVIF"]) // 2], "truncated"),
        missed("cut-head.avif", noisy["AVIF"][:60], "truncated"),
        shown("plain.gif", plain, "GIF"),
        shown("moving.gif", plain, "GIF", Odd("moving.gif", frames=3), **moving),
        write(folder, gif((gif_frame(0, 0, 192, 96, transparent=1),), 192, 96), Odd("transparent.gif", patches=key(1))),
        write(
            folder,
            gif((gif_frame(48, 0, 48, 48, 3),), 192, 96),
            Odd("small-frame.gif", patches=alone(1, 3), vips=False),
        ),
        write(
            folder,
            gif((gif_frame(48, 0, 48, 48, 3, transparent=7), gif_frame(0, 0, 192, 96)), 192, 96),
            Odd("small-frame-moving.gif", patches=alone(1, 3), frames=2),
        ),
        write(folder, gif((gif_frame(0, 0, 192, 96),), 8, 8), Odd("frame-beyond-canvas.gif")),
        write(folder, gif((gif_frame(0, 0, 192, 96),), 192, 96) + b"PK\5\6" + bytes(18), Odd("polyglot-zip.gif")),
        missed("cut.gif", noisy["GIF"][: len(noisy["GIF"]) // 2], "truncated"),
        missed("bomb.gif", gif((gif_frame(0, 0, 1, 1, 0),), 65_535, 65_535), "too_many_pixels"),
        missed(
            "bomb-frame.gif", gif((gif_frame(0, 0, 65_535, 65_535, 0, data=b"\2\2\x44\1\0"),), 8, 8), "too_many_pixels"
        ),
        missed("no-frame.gif", gif((), 192, 96), "unreadable"),
        missed(
            "many-frames.gif", gif((gif_frame(0, 0, 1, 1, 0, data=b"\2\2\x44\1\0"),) * 5000, 8, 8), "too_many_frames"
        ),
        shown("moving.png", plain, "PNG", Odd("moving.png", frames=3), **moving),
        write(folder, hidden_default(), Odd("default-apart.png", frames=2, vips=False)),
        missed("many-frames.png", apng_head(100_000), "too_many_frames"),
        *heics(folder, plain, glass),
    ]


def heics(folder: Path, plain: Image.Image, glass: Image.Image) -> list[Odd]:
    """What phones write; the extra ``heic`` is among those of the tests."""

    def heic(image: Image.Image, odd: Odd, **options: Any) -> Odd:
        file = folder / odd.name
        pillow_heif.from_pillow(image).save(file, quality=90, **options)
        return odd

    found = [
        heic(plain, Odd("plain.heic", heic=True, vips=False)),
        heic(turned(plain, 6), Odd("turned.heic", heic=True, vips=False), exif=with_exif(6, gps=True).tobytes()),
        heic(glass, Odd("alpha.heic", heic=True, vips=False, patches=see_through(CHART)), chroma=444),
    ]
    data = heic_of(noise())
    return [*found, write(folder, data[: len(data) // 2], Odd("cut.heic", "truncated", heic=True))]


def heic_of(image: Image.Image) -> bytes:
    """A HEIC as bytes."""
    out = io.BytesIO()
    pillow_heif.from_pillow(image).save(out, quality=80)
    return out.getvalue()


def key(place: int) -> tuple[tuple[int, int, int], ...]:
    """The chart with one patch see-through."""
    return tuple(WHITE if each == place else color for each, color in enumerate(CHART))


def alone(place: int, color: int) -> tuple[tuple[int, int, int], ...]:
    """One patch, and the page around it."""
    return tuple(CHART[color] if each == place else WHITE for each in range(8))


def gif(frames: tuple[bytes, ...], width: int, height: int) -> bytes:
    """A GIF by hand (GIF89a specification) with the chart's colours as its palette."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF2, 0, 0)
    return head + bytes(part for color in CHART for part in color) + b"".join(frames) + b";"


def gif_frame(
    left: int,
    top: int,
    width: int,
    height: int,
    color: int | None = None,
    transparent: int | None = None,
    data: bytes = b"",
) -> bytes:
    """A frame of one colour of the palette, or of the whole chart; `data` = its compressed pixels."""
    control = b"" if transparent is None else b"!\xf9\4" + struct.pack("<BHBB", 1, 10, transparent, 0)
    if not data:
        whole = np.arange(8).reshape(2, 4).repeat(height // 2, axis=0).repeat(width // 4, axis=1)
        data = packed(whole if color is None else np.full((height, width), color))
    return control + b"," + struct.pack("<HHHHB", left, top, width, height, 0) + data


def packed(places: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> bytes:
    """Pixels of a GIF without compression: a clear code before the table outgrows four bits."""
    codes = []
    for number, place in enumerate(places.ravel()):
        if number % 6 == 0:
            codes.append(8)  # clear
        codes.append(int(place))
    codes.append(9)  # end
    bits = np.array(codes, np.uint8)[:, None] >> np.arange(4) & 1
    raw = np.packbits(bits.ravel().astype(np.uint8), bitorder="little").tobytes()
    blocks = (raw[start : start + 255] for start in range(0, len(raw), 255))
    return b"\3" + b"".join(bytes((len(block),)) + block for block in blocks) + b"\0"


def apng_head(frames: int, width: int = 192, height: int = 96) -> bytes:
    """A PNG that announces so many frames."""
    control = chunk(b"fcTL", struct.pack(">5I2H2B", 0, width, height, 0, 0, 1, 10, 0, 0))
    return png(chart(), 8, 2, chunk(b"acTL", struct.pack(">2I", frames, 0)) + control)


def hidden_default() -> bytes:
    """An APNG whose plain picture is no frame: what old programs show. The chart is its first frame."""
    first, second = (png(chart(colors), 8, 2) for colors in (CHART, tuple(reversed(CHART))))
    body = SIGNATURE + png(chart(((255, 0, 255),) * 8), 8, 2)[8:-12]
    head = len(SIGNATURE) + 25
    body = body[:head] + chunk(b"acTL", struct.pack(">2I", 2, 0)) + body[head:]
    for number, frame in enumerate((first, second)):
        control = struct.pack(">5I2H2B", 2 * number, 192, 96, 0, 0, 1, 10, 0, 0)
        start = frame.index(b"IDAT")
        size = int.from_bytes(frame[start - 4 : start], "big")
        pixels = frame[start + 4 : start + 4 + size]
        body += chunk(b"fcTL", control) + chunk(b"fdAT", struct.pack(">I", 2 * number + 1) + pixels)
    return body + chunk(b"IEND", b"")


def webp_canvas(width: int, height: int) -> bytes:
    """An extended WebP that announces a canvas (RIFF container, VP8X)."""
    body = b"\2\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", len(body)) + body
    still = data_of(picture(), "WEBP")[12:]
    frame = bytes(6) + (15).to_bytes(3, "little") * 2 + bytes(4) + still
    anim = b"ANIM" + struct.pack("<IIH", 6, 0, 0) + b"ANMF" + struct.pack("<I", len(frame)) + frame
    return b"RIFF" + struct.pack("<I", len(body) + len(anim)) + body + anim
