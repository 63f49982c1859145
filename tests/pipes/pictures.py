"""Picture files made for tests, good and bad."""

from __future__ import annotations

import asyncio
import io
import struct
import threading
import zlib
from collections.abc import Sized
from pathlib import Path
from typing import Any

from PIL import Image

from multimodal.values import EncodedImage

RED, GREEN, BLUE, WHITE = (220, 20, 20), (20, 200, 20), (20, 20, 220), (255, 255, 255)


def quarters(width: int = 96, height: int = 64) -> Image.Image:
    """Red, green / blue, white: no two of the eight ways to turn it look alike, and it is not square."""
    image = Image.new("RGB", (width, height), WHITE)
    image.paste(RED, (0, 0, width // 2, height // 2))
    image.paste(GREEN, (width // 2, 0, width, height // 2))
    image.paste(BLUE, (0, height // 2, width // 2, height))
    return image


def data_of(image: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def write(path: Path, image: Image.Image | bytes, kind: str = "JPEG", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image if isinstance(image, bytes) else data_of(image, kind, **options))
    return path


def decoded(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return image.convert("RGB")


def pixel(image: Image.Image, x: float, y: float) -> tuple[int, ...]:
    """The colour at a place given as shares of width and height."""
    value = image.convert("RGB").getpixel((int(x * image.width), int(y * image.height)))
    assert isinstance(value, tuple)
    return tuple(int(part) for part in value)


def near(color: tuple[int, ...], wanted: tuple[int, ...], tolerance: int = 24) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(color, wanted, strict=True))


def png_header(width: int, height: int) -> bytes:
    """A PNG that announces a size and holds no pixels: whoever decodes it finds it broken."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def got(item: object) -> EncodedImage:
    assert isinstance(item, EncodedImage), item
    return item


def picture_threads() -> int:
    """How many threads of picture stores are alive."""
    return sum(thread.name == "multimodal-pictures" for thread in threading.enumerate())


async def reaches(log: Sized, count: int) -> None:
    """Wait until a log that a worker thread writes is that long; the caller's limit ends a wait in vain."""
    while len(log) < count:  # noqa: ASYNC110 - threads know no asyncio.Event
        await asyncio.sleep(0.005)
