"""What lies beside pictures under a picture's name: pages, answers, archives, films, and things that are no files."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from pathlib import Path

from tests.pipes.corpus.chart import Odd, data_of, picture, write
from tests.pipes.videos import gradient, write_video

__all__ = ["make"]


def make(folder: Path) -> list[Odd]:
    """Write them all."""
    page = b"<!doctype html><html><title>404 Not Found</title></html>"
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
    entities = b'<?xml version="1.0"?>\n<!DOCTYPE svg [' + b"<!ENTITY a 'aaaaaaaaaaaaaaaa'>" * 100 + b"]>"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as inside:
        inside.writestr("picture.jpg", data_of(picture(), "JPEG"))
    files = [
        (b"", Odd("empty.jpg", "empty")),
        (svg, Odd("drawing.jpg", "svg")),
        (entities + svg, Odd("drawing-with-entities.png", "svg")),
        (b"\xff\xfe" + svg.decode().encode("utf-16-le"), Odd("drawing-utf16.png", "svg")),
        (gzip.compress(svg, mtime=0), Odd("drawing-packed.svgz", "unknown_format", says="gzip")),
        (page, Odd("page.jpg", "html")),
        (b"\xff\xfe" + page.decode().encode("utf-16-le"), Odd("page-utf16.jpg", "html")),
        (b"<!-- cached -->\n" * 100 + page, Odd("page-with-comment.jpg", "html")),
        (b'{"error": {"code": 403, "message": "expired"}}', Odd("answer.jpg", "unknown_format", says="JSON")),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", Odd("s3.jpg", "unknown_format", says="XML")),
        (b"Not found.\n", Odd("letter.jpg", "unknown_format", says="text")),
        ("找不到图片。".encode(), Odd("letter-zh.jpg", "unknown_format", says="text")),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", Odd("leaflet.jpg", "unknown_format", says="PDF")),
        (archive.getvalue(), Odd("archive.jpg", "unknown_format", says="ZIP")),
        (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(50), Odd("jpeg2000.jpg", "unknown_format", says="JPEG 2000")),
        (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(50), Odd("jpegxl.jpg", "unknown_format", says="JPEG XL")),
        (b"8BPS\0\1" + bytes(50), Odd("layers.jpg", "unknown_format", says="Photoshop")),
        (b"\0\0\1\0\1\0" + bytes(50), Odd("icon.jpg", "unknown_format", says="icon")),
        (b"\x7fELF" + bytes(50), Odd("program.jpg", "unknown_format", says="not a picture")),
        (bytes(range(256)) * 20, Odd("bytes.jpg", "unknown_format", says="not a picture")),
        (bytes(5000), Odd("zeros.jpg", "unknown_format", says="not a picture")),
        (data_of(picture(), "JPEG", quality=95), Odd("a name\nwith 'odd' \"marks\" \u202e 图 🫖.jpg")),
        (data_of(picture(), "PNG"), Odd(os.fsdecode(b"caf\xe9.png"))),
        (data_of(picture(), "JPEG", quality=95), Odd("x" * 240 + ".jpg")),
    ]
    found = [write(folder, data, odd) for data, odd in files]
    film = write_video(folder / "film.mp4", [gradient(number) for number in range(5)])
    film.rename(folder / "film.jpg")
    os.mkfifo(folder / "fifo.jpg")
    (folder / "folder.jpg").mkdir()
    (folder / "loop.jpg").symlink_to("loop.jpg")
    (folder / "nowhere.jpg").symlink_to("no such file")
    (folder / "link.jpg").symlink_to("one-pixel.jpg")
    # A regular file that its owner cannot read either: nothing is mapped at address 0.
    (folder / "unreadable.jpg").symlink_to("/proc/self/mem")
    with open(folder / "too-large.jpg", "wb") as large:
        large.write(data_of(picture(), "JPEG"))
        large.truncate(80 * 2**20)
    return [
        *found,
        Odd("film.jpg", "video"),
        Odd("fifo.jpg", "unreadable"),
        Odd("folder.jpg", "unreadable", listed=False),
        Odd("loop.jpg", "unreadable"),
        Odd("nowhere.jpg", "not_found"),
        Odd("link.jpg", size=(1, 1), patches=((200, 60, 50),) * 8),
        Odd("unreadable.jpg", "unreadable"),
        Odd("too-large.jpg", "too_many_bytes"),
    ]
