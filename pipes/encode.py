"""From a picture file to a picture for the web: its size, its preview, its colour, and one encoding of the ladder.

Blocking and free of state: `multimodal.pipes.images` runs it in worker threads.
"""

from __future__ import annotations

import base64
import hashlib
import io

import msgspec
from PIL import Image
from PIL import __version__ as _pillow

from multimodal.pipes.encode_render import fit, open_picture, render
from multimodal.pipes.intake import ImageSettings, Moment, Source
from multimodal.pipes.ladder import AVIF, JPEG, WEBP, Rung

__all__ = ["ENCODER", "Encoded", "Look", "encode_picture", "look_at_picture"]

ENCODER = f"3/{_pillow}"
"""Of what a stored encoding was made; another version makes other bytes."""

# Above this a preview is not worth a decode of its own, unless the format has a reduced one (JPEG): it then
# comes with the picture. 8 megapixels of PNG take about 0.1 s.
_PREVIEW_PIXELS = 8_000_000
_STEP, _FLOOR = 15, 35
"""Quality is lowered by so much while a picture is above its budget, and no further than this: below it blocks show."""
_AVIF_LESS = 22
"""By so much AVIF's scale of quality lies above WebP's: at 58 a picture is as near to its original as WebP at 80 (SSIM
0.960 and 0.949 on rendered pictures of 960 px, 0.982 and 0.983 on photographs) in 0.86 and 0.54 of the bytes."""


class Look(msgspec.Struct, frozen=True):
    """What is known before a picture is encoded: its size once prepared, its preview ("" = comes later), its colour.

    `note` says which it is where the file holds several ("frame 1 of 24"); "" = it holds one.
    """

    width_px: int
    height_px: int
    placeholder: str
    color: str = ""
    note: str = ""


class Encoded(msgspec.Struct, frozen=True):
    """A prepared picture without a name: the same bytes may have several."""

    data: bytes
    width_px: int
    height_px: int
    placeholder: str
    sha256: str
    media_type: str = WEBP
    color: str = ""
    note: str = ""

    @property
    def look(self) -> Look:
        """The same without its bytes."""
        return Look(self.width_px, self.height_px, self.placeholder, self.color, self.note)


def look_at_picture(source: Source, settings: ImageSettings, rung: Rung | None = None) -> Look:
    """Size, preview and colour, at a fraction of the price of `encode_picture`.

    Args:
        source: the picture file, or the moment of a video.
        settings: limits and sizes.
        rung: the encoding that will follow; None = `max_px` of the settings.

    Raises:
        PictureRefused: it cannot be shown, and why.
    """
    opened = open_picture(source, settings)
    size = opened.size(rung.max_px if rung else settings.max_px)
    if opened.kind != "jpeg" and opened.image.width * opened.image.height > _PREVIEW_PIXELS:
        return Look(*size, placeholder="", note=opened.note)
    small = render(opened, fit(*size, settings.preview_px), settings.background)
    return Look(*size, *_preview(small), opened.note)


def encode_picture(
    source: Source, settings: ImageSettings, rung: Rung | None = None, look: Look | None = None
) -> Encoded:
    """The picture, upright, in sRGB, as one rung of the ladder, without metadata. The same file gives the same bytes.

    Args:
        source: the picture file, or the moment of a video.
        settings: limits and sizes.
        rung: format, size and budget; None = WebP at the size of the settings.
        look: what `look_at_picture` found, so that the two agree.

    Raises:
        PictureRefused: it cannot be shown, and why.
    """
    rung = rung or Rung(max_px=settings.max_px)
    if isinstance(source, Moment) and rung.media_type.startswith("video/"):
        return _encode_clip(source, settings, rung, look or look_at_picture(source, settings, rung))
    opened = open_picture(source, settings)
    size = opened.size(rung.max_px)
    # JPEG knows no see-through.
    background = settings.background or ("#ffffff" if rung.media_type == JPEG else "")
    plain = render(opened, size, background)
    placeholder, color = (look.placeholder, look.color) if look is not None else ("", "")
    if not placeholder:
        placeholder, color = _preview(plain.resize(fit(*size, settings.preview_px)))
    data = _encode(plain, rung, settings.quality)
    digest = hashlib.sha256(data).hexdigest()
    return Encoded(data, *size, placeholder, digest, rung.media_type, color, opened.note)


def _encode_clip(source: Moment, settings: ImageSettings, rung: Rung, look: Look) -> Encoded:
    from multimodal.pipes.video import make_clip

    clip = make_clip(source.path, settings, rung.media_type, rung.max_px, rung.budget_bytes, source.at)
    digest = hashlib.sha256(clip.data).hexdigest()
    return Encoded(clip.data, clip.width_px, clip.height_px, look.placeholder, digest, rung.media_type, look.color)


def _encode(plain: Image.Image, rung: Rung, quality: int) -> bytes:
    while True:
        out = io.BytesIO()
        if rung.media_type == AVIF:
            # Speed 8 takes 54 ms for 33 KiB, speed 6 222 ms for 34. One thread, so that the bytes are always the same.
            plain.save(out, "AVIF", quality=max(1, quality - _AVIF_LESS), speed=8, max_threads=1)
        elif rung.media_type == JPEG:
            plain.save(out, "JPEG", quality=quality)
        else:
            # A photograph of 800 px: method 0 takes 13 ms for 45 KiB, method 4 takes 60 ms for 43 KiB.
            plain.save(out, "WEBP", quality=quality, method=0)
        if not 0 < rung.budget_bytes < out.tell() or quality <= _FLOOR:
            return out.getvalue()
        quality = max(_FLOOR, quality - _STEP)


def _preview(small: Image.Image) -> tuple[str, str]:
    """The data URI of a tiny picture, and its dominant colour ("" where one looks through: it would show behind)."""
    out = io.BytesIO()
    small.save(out, "WEBP", quality=30, method=0)
    uri = f"data:{WEBP};base64,{base64.b64encode(out.getvalue()).decode()}"
    if small.mode != "RGB":
        return uri, ""
    # The most frequent of a few colours and not the mean, which nobody sees anywhere in the picture.
    few = small.quantize(4, Image.Quantize.MEDIANCUT)
    palette = few.getpalette() or [0, 0, 0]
    counts = few.histogram()
    index = max(range(len(palette) // 3), key=counts.__getitem__)
    return uri, "#{:02x}{:02x}{:02x}".format(*palette[3 * index : 3 * index + 3])
