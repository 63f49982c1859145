"""What a test runner tells the kit of the test that runs: its limits, where reports go, whether goldens may change."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from multimodal.sync.log import SyncLog

__all__ = ["Context", "current"]


class Context(msgspec.Struct, frozen=True):
    """How assertions behave where the test itself does not say.

    Args:
        preset: of `assert_in_sync`, when it is called without one.
        max_tokens: its `max_token_drift` then; None = as the preset says.
        max_ms: its limit then, early and late; None = as the preset says.
        report: writes the log that failed, and says where that is; None = nothing is written.
        update_golden: `assert_same_log` rewrites its file instead of failing, and tells this what changed.
    """

    preset: str = "default"
    max_tokens: int | None = None
    max_ms: float | None = None
    report: Callable[[SyncLog], str] | None = None
    update_golden: Callable[[str], None] | None = None


current: ContextVar[Context] = ContextVar("multimodal_sync_context", default=Context())  # noqa: B039 - it is frozen
"""Of the running test; asyncio tasks inherit it."""
