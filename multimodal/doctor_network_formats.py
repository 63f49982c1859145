"""What this Python can make for a viewer, and with what: one picture and one clip are really encoded in each format."""

from __future__ import annotations

import platform
import ssl
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from multimodal.doctor_network_finding import Finding, broken, good, note

__all__ = ["LIBRARIES", "examine_formats", "examine_versions"]

LIBRARIES = ("aiortc", "aioice", "av", "pillow", "starlette", "uvicorn", "websockets", "msgspec")
"""What the network of a tour stands on; all of them are always needed."""
_OPTIONAL = ("pyjwt", "redis", "uvloop", "httptools", "wsproto")

_PIXELS = 64
"""Enough to prove an encoder, and quick."""
_WEB = "pip install --force-reinstall {}: its wheels bring this, builds of one's own may not"


def examine_versions() -> Finding:
    """What is installed, as a report of a fault needs it."""
    tried = "read the versions of what is installed"
    found = {name: _version(name) for name in (*LIBRARIES, *_OPTIONAL)}
    told = [f"{name} {version}" for name, version in found.items() if version]
    own = f"multimodal-stream {_version('multimodal-stream') or 'from a bare checkout'}, Python {_python()}"
    came = f"{own}, {ssl.OPENSSL_VERSION}, {platform.system()} {platform.release()}; {', '.join(told)}"
    missing = [name for name in LIBRARIES if not found[name]]
    if missing:
        advice = "pip install multimodal-stream, without --no-deps"
        return broken("versions", tried, f"{', '.join(missing)} not installed; {came}", advice)
    return good("versions", tried, came)


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def examine_formats() -> list[Finding]:
    """Encode a sample in every format that a player may ask for; about half a second of work. Blocking.

    A player names in its hello what it decodes. Current browsers: AVIF, WebP, JPEG, PNG, and WebM or MP4 or both.
    """
    return [
        _encode("WebP", "image/webp", _WEB.format("pillow"), needed="what live pictures are sent as"),
        _encode("JPEG", "image/jpeg", _WEB.format("pillow"), needed="for browsers without WebP"),
        _encode("AVIF", "image/avif", f"{_WEB.format('pillow')}; until then pictures made beforehand are WebP, too"),
        _clip("WebM", "video/webm", "halo-kettle-turn.webm"),
        _clip("MP4", "video/mp4", "halo-kettle-turn.mp4"),
    ]


def _encode(name: str, media_type: str, advice: str, needed: str = "") -> Finding:
    def make() -> bytes:
        from multimodal.pipes.encode import encode_picture
        from multimodal.pipes.intake import ImageSettings
        from multimodal.pipes.ladder import Rung
        from multimodal.pipes.samples import samples

        picture = samples("kettle") / "1-hero.jpg"
        return encode_picture(picture, ImageSettings(), Rung(media_type, _PIXELS)).data

    tried = f"made a sample picture of {_PIXELS} px as {media_type}"
    return _tried(name, tried, make, advice, f" ({needed})" if needed else "", needed=bool(needed))


def _clip(name: str, media_type: str, file: str) -> Finding:
    def make() -> bytes:
        from importlib.resources import files

        from multimodal.pipes.intake import ImageSettings
        from multimodal.pipes.video import make_clip

        path = Path(str(files("multimodal.assets"))) / "demo" / "clips" / file
        return make_clip(path, ImageSettings(), media_type, _PIXELS).data

    tried = f"read a sample clip and made {_PIXELS} px of it as {media_type}"
    return _tried(name, tried, make, f"{_WEB.format('av')}; until then such viewers get a picture of it", "")


def _tried(
    name: str, tried: str, make: Callable[[], bytes], advice: str, purpose: str, *, needed: bool = False
) -> Finding:
    began = time.monotonic()
    try:
        size = len(make())
    except Exception as error:  # a library may raise anything: what it said is the finding
        said = str(error).splitlines() or [""]
        came = f"failed{purpose}: {type(error).__name__}: {said[0][:200]}"
        return broken(name, tried, came, advice) if needed else note(name, tried, came, advice)
    return good(name, tried, f"{size:,} bytes in {time.monotonic() - began:.2f} s{purpose}")
