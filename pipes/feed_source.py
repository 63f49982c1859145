"""A catalogue's file as bytes and as text: which encoding it has, and how far it was read."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from multimodal.errors import UsageError

__all__ = ["MAX_WHOLE_BYTES", "FeedSource"]

MAX_WHOLE_BYTES = 512 * 2**20
"""A JSON file or a page is read as a whole; a larger one is refused before that."""

_CHUNK = 1 << 18
_HEAD = 1 << 16
_LINE = 1 << 24


class FeedSource:
    """One file of a catalogue.

    Args:
        path: the file.
        encoding: its encoding; None = UTF-8, UTF-16 with its mark, else Windows-1252, which is what spreadsheets save
            where they are not told otherwise.

    Raises:
        UsageError: it is missing, not a plain file, not readable, empty, or not text.
    """

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self.path = path
        self.done = 0
        self.note = ""
        self._errors = "strict"
        try:
            if path.exists() and not path.is_file():
                raise UsageError(f"cannot read the catalogue {path}: not a file")
            self.size = path.stat().st_size
            self.encoding = self._checked(encoding) if encoding else self._found()
            with path.open(encoding=self.encoding, errors=self._errors) as file:
                self.head = file.read(_HEAD)
        except UnicodeError as error:
            raise UsageError(f"the catalogue {path} is not text in {encoding or 'UTF-8'}; save it as UTF-8") from error
        except OSError as error:
            raise self._unreadable(error) from error
        if not self.head.strip() and self.size <= _HEAD:
            raise UsageError(f"the catalogue {path} is empty")

    def lines(self) -> Iterator[str]:
        """Its lines with their ends, one at a time."""
        try:
            with self.path.open(encoding=self.encoding, errors=self._errors, newline="") as file:
                while line := file.readline(_LINE):
                    if len(line) == _LINE and not line.endswith(("\n", "\r")):
                        what = f"a line of the catalogue {self.path} is longer than {_LINE >> 20} MiB"
                        raise UsageError(f"{what}; it is no table")
                    self.done += len(line)
                    yield line
        except OSError as error:
            raise self._unreadable(error) from error

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, as they are, a quarter of a MiB at a time."""
        try:
            with self.path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    self.done += len(chunk)
                    yield chunk
        except OSError as error:
            raise self._unreadable(error) from error

    def texts(self) -> Iterator[str]:
        """Its text, a quarter of a MiB at a time."""
        decoder = codecs.getincrementaldecoder(self.encoding)(self._errors)
        for chunk in self.chunks():
            yield decoder.decode(chunk)
        yield decoder.decode(b"", final=True)

    def whole(self) -> bytes:
        """All of it in UTF-8, without a byte order mark.

        Raises:
            UsageError: it is larger than `MAX_WHOLE_BYTES`.
        """
        self.check_size()
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise self._unreadable(error) from error
        if self.encoding == "utf-8-sig" and self._errors == "strict":
            return data.removeprefix(codecs.BOM_UTF8)
        return data.decode(self.encoding, self._errors).encode("utf-8", "replace")

    def check_size(self) -> None:
        """Before a file is read whose content has to be held as a whole.

        Raises:
            UsageError: it is larger than `MAX_WHOLE_BYTES`.
        """
        if self.size > MAX_WHOLE_BYTES:
            limit = f"{MAX_WHOLE_BYTES >> 20} MiB"
            raise UsageError(f"the catalogue {self.path} is larger than {limit}, and has to be read whole; part it")

    def _unreadable(self, error: OSError) -> UsageError:
        return UsageError(f"cannot read the catalogue {self.path}: {error.strerror or error}")

    def _checked(self, encoding: str) -> str:
        try:
            name = codecs.lookup(encoding).name
        except LookupError as error:
            raise UsageError(f"no encoding is called {encoding!r}; try utf-8, gb18030, shift_jis or cp1252") from error
        for _ in self._decoded(name, "strict"):
            pass
        return "utf-8-sig" if name == "utf-8" else name

    def _found(self) -> str:
        with self.path.open("rb") as file:
            mark = file.read(2)
        if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return self._checked("utf-16")
        try:
            return self._checked("utf-8")
        except UnicodeError:
            pass
        bad = good = 0
        for part in self._decoded("utf-8", "replace"):
            bad += part.count("\ufffd")
            good += len(part) - len(part.encode("ascii", "ignore")) - part.count("\ufffd")
        if good > bad:
            # The file is UTF-8 with some damage: read as anything else, all its other letters would be wrong.
            self._errors, self.note = "replace", f"damaged UTF-8; what is lost reads as \ufffd, {bad} times"
            return "utf-8-sig"
        name = self._checked("cp1252")
        self.note = "not UTF-8; read as Windows-1252"
        return name

    def _decoded(self, encoding: str, errors: str) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        with self.path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield decoder.decode(chunk)
        yield decoder.decode(b"", final=True)
