"""The pictures of one stream: the newest in memory, the others in a file, so that a long tour grows no larger."""

from __future__ import annotations

import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import KeysView
from typing import IO

import msgspec

from multimodal.errors import UsageError
from multimodal.values import EncodedImage

__all__ = ["KEEP_BYTES", "Shelf"]

log = logging.getLogger(__name__)

KEEP_BYTES = 4 * 1024 * 1024
"""In memory: some hundred pictures, more than are ever on their way to a viewer at one time. An hour may bring 500, and
whoever comes back, or joins late, asks for old ones seldom."""
_NO_BYTES = b"-"


class Shelf:
    """Pictures by their keys.

    What goes to the file is read back at need. That blocks, for some 20 us, since it stands in the system's own cache.

    Args:
        keep_bytes: of them in memory; the newest picture is, whatever its size.

    Raises:
        UsageError: below 0.
    """

    def __init__(self, keep_bytes: int = KEEP_BYTES) -> None:
        if keep_bytes < 0:
            raise UsageError(f"keep_bytes={keep_bytes} must be 0 or more")
        self._keep_bytes = keep_bytes
        self._images: dict[str, EncodedImage] = {}
        self._here: OrderedDict[str, int] = OrderedDict()
        self._places: dict[str, tuple[int, int]] = {}
        self._bytes = self._end = 0
        self._file: IO[bytes] | None = None
        self._full = False

    def __contains__(self, key: str) -> bool:
        return key in self._images

    def __len__(self) -> int:
        return len(self._images)

    @property
    def held_bytes(self) -> int:
        """In memory."""
        return self._bytes

    def keys(self) -> KeysView[str]:
        """Of all pictures, in the order in which they came."""
        return self._images.keys()

    def put(self, image: EncodedImage) -> None:
        """Keep a picture; its key is new."""
        self._images[image.key] = image
        self._here[image.key] = len(image.data)
        self._bytes += len(image.data)
        while self._bytes > self._keep_bytes and len(self._here) > 1 and not self._full:
            self._store(next(iter(self._here)))

    def get(self, key: str) -> EncodedImage | None:
        """A picture; None = it never came, or the shelf is closed and it was in the file."""
        image = self._images.get(key)
        place = self._places.get(key)
        if image is None or place is None:
            return image
        if self._file is None:
            return None
        offset, size = place
        return msgspec.structs.replace(image, data=os.pread(self._file.fileno(), size, offset))

    def close(self) -> None:
        """Let go of the file; what comes afterwards stays in memory. Twice is once."""
        self._full = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _store(self, key: str) -> None:
        image = self._images[key]
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="multimodal-")  # noqa: SIM115 - `close` does
            view = memoryview(image.data)
            while view:
                view = view[os.pwrite(self._file.fileno(), view, self._end + len(image.data) - len(view)) :]
        except OSError as error:
            # Better large than without pictures.
            self._full = True
            log.warning("pictures stay in memory, as there is no room in %s: %s", tempfile.gettempdir(), error)
            return
        self._places[key] = (self._end, len(image.data))
        self._end += len(image.data)
        self._images[key] = msgspec.structs.replace(image, data=_NO_BYTES)
        self._bytes -= self._here.pop(key)
