"""Prepared pictures on disk: they survive a restart, and a kill in the middle of a write.

D1. A file appears under its name only whole: it is written beside it and renamed.
D2. What is read is checked against its own hash; a file that is not what it was is removed and counts as missing.
D3. The least recently used go first when the bytes are above the limit.
D4. What a killed process left half written is removed at the next start, once it is old enough to be nobody's.
D5. Several processes may share a folder; a disk that is full, read-only or gone costs the speed and nothing else.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.encode import ENCODER, Encoded
from multimodal.pipes.intake import ImageSettings
from multimodal.pipes.ladder import Rung

__all__ = ["DiskStats", "PictureDisk"]

log = logging.getLogger(__name__)

_MAGIC = b"MMP1"
_LENGTH = struct.Struct(">I")
_HALF_WRITTEN = ".part"
STALE = 600.0
"""Seconds after which a half-written file belongs to nobody: writing one takes milliseconds."""
_HEADER_LIMIT = 64 * 1024


class DiskStats(msgspec.Struct, frozen=True):
    """What a folder of prepared pictures holds and did; `failed` counts reads and writes that the disk refused."""

    entries: int
    bytes: int
    hits: int
    misses: int
    spoilt: int
    evictions: int
    failed: int


class _Header(msgspec.Struct):
    name: str
    width_px: int
    height_px: int
    placeholder: str
    sha256: str
    media_type: str
    color: str
    note: str = ""


class PictureDisk:
    """D1-D5. A folder of prepared pictures, by the content of the file that they were made of.

    Args:
        folder: made when it is missing.
        limit_bytes: the most that it holds.

    Raises:
        UsageError: a limit below 1, or a folder that cannot be made or listed.
    """

    def __init__(self, folder: str | os.PathLike[str], limit_bytes: int = 1024**3) -> None:
        if limit_bytes < 1:
            raise UsageError(f"PictureDisk limit_bytes={limit_bytes} must be 1 or more")
        self.folder, self.limit_bytes = Path(folder), limit_bytes
        self._lock = threading.Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0
        self._counts: dict[str, int] = dict.fromkeys(("hits", "misses", "spoilt", "evictions", "failed"), 0)
        self._written = 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._look_round()
        except OSError as error:
            raise UsageError(f"cannot keep pictures in {self.folder}: {error.strerror or error}") from error

    @staticmethod
    def name(content: str, settings: ImageSettings, rung: Rung) -> str:
        """The name of an encoding: whatever changes its bytes is in it.

        Args:
            content: SHA-256 of the picture file, hex.
            settings: limits and sizes.
            rung: the encoding.
        """
        shown = (settings.quality, settings.preview_px, settings.background, settings.frame)
        made_of = (content, *shown, rung, ENCODER)
        return hashlib.sha256(msgspec.msgpack.encode(made_of)).hexdigest()

    def get(self, name: str) -> Encoded | None:
        """The encoding of that name; None = not here, or not what it was (D2)."""
        path = self._path(name)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            self._missed(name)
            return None
        except OSError as error:
            log.warning("cannot read %s: %s", path, error)
            self._missed(name, "failed")
            return None
        encoded = _unpack(name, raw)
        if encoded is None:
            log.warning("%s is spoilt, and was removed", path)
            self._remove([name])
            self._missed(name, "spoilt")
            return None
        try:
            os.utime(path)  # so that the next start knows what was used last
        except OSError:
            log.debug("cannot touch %s", path)
        with self._lock:
            self._counts["hits"] += 1
            self._note(name, len(raw))
        return encoded

    def put(self, name: str, encoded: Encoded) -> None:
        """Keep an encoding (D1); what cannot be kept is not."""
        raw = _pack(name, encoded)
        if len(raw) > self.limit_bytes:
            return
        path = self._path(name)
        with self._lock:
            self._written += 1
            part = path.with_name(f"{name}.{os.getpid()}.{self._written}{_HALF_WRITTEN}")
        try:
            path.parent.mkdir(exist_ok=True)
            with open(part, "wb") as out:
                out.write(raw)
                out.flush()
                # Renamed before its bytes are safe, a file could be empty after the power failed.
                os.fsync(out.fileno())
            os.replace(part, path)
        except OSError as error:
            log.warning("cannot write %s: %s", path, error)
            with suppress(OSError):
                part.unlink()
            with self._lock:
                self._counts["failed"] += 1
            return
        with self._lock:
            self._note(name, len(raw))
            gone = self._shrink()
        self._remove(gone)

    def stats(self) -> DiskStats:
        """Everything that was counted, at one instant."""
        with self._lock:
            return DiskStats(len(self._sizes), self._bytes, **self._counts)

    # ---- inside

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    def _look_round(self) -> None:
        """What earlier processes left: their pictures, oldest first, and what they did not finish (D4)."""
        found: list[tuple[float, str, int]] = []
        for parent in sorted(self.folder.iterdir()):
            if not parent.is_dir():
                continue
            for entry in os.scandir(parent):
                try:
                    status = entry.stat()
                    if not entry.name.endswith(_HALF_WRITTEN):
                        found.append((status.st_mtime, entry.name, status.st_size))
                    elif time.time() - status.st_mtime > STALE:
                        os.unlink(entry.path)
                except FileNotFoundError:  # another process removed it
                    continue
        for _, name, size in sorted(found):
            self._note(name, size)
        self._remove(self._shrink())

    def _note(self, name: str, size: int) -> None:
        self._bytes += size - self._sizes.pop(name, 0)
        self._sizes[name] = size

    def _shrink(self) -> list[str]:
        gone: list[str] = []
        while self._bytes > self.limit_bytes:
            name, size = self._sizes.popitem(last=False)
            self._bytes -= size
            self._counts["evictions"] += 1
            gone.append(name)
        return gone

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with suppress(OSError):  # gone already, or the disk is: what is there is checked when it is read
                self._path(name).unlink()

    def _missed(self, name: str, why: str = "misses") -> None:
        with self._lock:
            self._counts["misses"] += 1
            if why != "misses":
                self._counts[why] += 1
            self._bytes -= self._sizes.pop(name, 0)


def _pack(name: str, encoded: Encoded) -> bytes:
    header = _Header(
        name,
        encoded.width_px,
        encoded.height_px,
        encoded.placeholder,
        encoded.sha256,
        encoded.media_type,
        encoded.color,
        encoded.note,
    )
    head = msgspec.msgpack.encode(header)
    # The hash of the header too: a spoilt size or preview would be shown.
    return b"".join((_MAGIC, hashlib.sha256(head).digest(), _LENGTH.pack(len(head)), head, encoded.data))


def _unpack(name: str, raw: bytes) -> Encoded | None:
    start = len(_MAGIC) + 32 + _LENGTH.size
    if len(raw) < start or not raw.startswith(_MAGIC):
        return None
    (length,) = _LENGTH.unpack_from(raw, start - _LENGTH.size)
    head, data = raw[start : start + length], raw[start + length :]
    if length > _HEADER_LIMIT or hashlib.sha256(head).digest() != raw[len(_MAGIC) : len(_MAGIC) + 32]:
        return None
    header = msgspec.msgpack.decode(head, type=_Header)
    if header.name != name or hashlib.sha256(data).hexdigest() != header.sha256:
        return None
    return Encoded(
        data,
        header.width_px,
        header.height_px,
        header.placeholder,
        header.sha256,
        header.media_type,
        header.color,
        header.note,
    )
