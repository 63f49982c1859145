"""An engine over transformers' own continuous batching: paged KV, prefix sharing, joining and leaving at every step.

The manager runs the model in one thread. What it does not do by itself is added here and in `local_manager_core`: its
tokens go straight into mailboxes, each row has a sampler of its own, slow readers stop their row, a reader that is gone
frees it before the next step, and a failure reaches everyone.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from multimodal.errors import UsageError
from multimodal.pipes.engine import EngineStats, Mailbox
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.local_manager_core import Core
from multimodal.pipes.local_manager_fit import manager_refuses

if TYPE_CHECKING:
    from multimodal.pipes.batching import Admission
    from multimodal.pipes.local_loading import LocalModel

__all__ = ["POOL_BYTES", "ManagerEngine"]

POOL_BYTES = 512 * 2**20
"""KV memory unless told: 11,000 tokens of a 135 M model. The manager's own default is 60 % of the machine's memory."""
PAGE_TOKENS = 16
"""A prefix is shared in whole pages; transformers' 256 would share nothing of a shop's prompts of 50 to 500 tokens."""
BATCH_TOKENS = 256
"""Most tokens of one forward pass, so that a long prompt is read in parts and holds up no row for longer than one."""


class ManagerEngine:
    """E1-E6 on transformers' ContinuousBatchingManager.

    It runs a copy of the modules, with linear layers packed for this CPU where that is possible (`local_linear`), so
    that the model itself may be used meanwhile. A failure in a
    step ends all answers of that moment, as do numbers that are not finite: attention over one packed batch spreads
    them to every row. The next request finds a sound engine.

    Args:
        local: the model.
        max_rows: most rows of a step; more take turns or wait.
        pool_bytes: memory for keys and values; None = `POOL_BYTES`. A request that could never fit is refused.
        keep_free: share of the pool below which no new prompt is begun while others run.
        reclaim_policy: must be None: the manager gives up kept prefixes all at once, when room is short.
        admission: who joins when; None = whoever came first, at once.
        page_tokens: tokens of a page, the unit of prefix sharing.
        batch_tokens: most tokens of one forward pass.

    Raises:
        UsageError: a value out of its range, or a model that the manager cannot run.
    """

    kind = "manager"

    def __init__(
        self,
        local: LocalModel,
        *,
        max_rows: int = 16,
        pool_bytes: int | None = None,
        keep_free: float = 0.1,
        reclaim_policy: str | None = None,
        admission: Admission | None = None,
        page_tokens: int = PAGE_TOKENS,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        reason = manager_refuses(local)
        if reason is not None:
            raise UsageError(f"engine='manager' cannot run this model: {reason}; take engine='steps'")
        if reclaim_policy is not None:
            raise UsageError(
                f"reclaim_policy={reclaim_policy!r}: transformers' manager has one of its own; take engine='steps'"
            )
        _check(max_rows=max_rows, keep_free=keep_free, page_tokens=page_tokens, batch_tokens=batch_tokens)
        self.why = "asked for"
        """Why this engine and not another."""
        self._core = Core(local, POOL_BYTES if pool_bytes is None else pool_bytes, page_tokens, batch_tokens)
        self._core.configure(max_rows, keep_free, admission)
        self._core.start()
        self._drop = weakref.finalize(self, self._core.close)

    @property
    def extra_bytes(self) -> int:
        """Weights that are held a second time, in the form that batches are run in."""
        return self._core.copies

    def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        """E1.

        Raises:
            UsageError: the engine is closed, a token the model does not have, or a request that needs more positions
                than the model or more memory than the pool has.
        """
        self._core.submit(request, mailbox)

    def configure(
        self,
        *,
        max_rows: int | None = None,
        keep_free: float | None = None,
        admission: Admission | None = None,
        **other: Any,
    ) -> None:
        """Other settings from the next step on; None = as it is.

        Raises:
            UsageError: a value out of its range, or a setting that this engine has only when it is made, or not at all.
        """
        if any(value is not None for value in other.values()):
            raise UsageError(f"{', '.join(other)}: nothing that can be changed on transformers' manager while it runs")
        given = {"max_rows": max_rows, "keep_free": keep_free}
        _check(**{name: value for name, value in given.items() if value is not None})
        self._core.configure(max_rows, keep_free, admission)

    def warm_up(self, count: int) -> int:
        """Run so many short prompts to their second token, and wait for them; gives how many were run.

        It takes memory into use and lets libraries set themselves up, so that the first answer need not.

        Raises:
            UsageError: a negative count, or the engine is closed.
        """
        if count < 0:
            raise UsageError(f"warm_up({count}): give 0 prompts or more")
        vocabulary = self._core.local.vocab_size
        for first in range(0, count, self._core.book.max_rows):
            mailboxes = []
            for number in range(first, min(count, first + self._core.book.max_rows)):
                ids = tuple((number * 31 + place * 7) % vocabulary for place in range(32))
                mailboxes.append(Mailbox())
                self.submit(GenerationRequest(ids, max_new_tokens=2), mailboxes[-1])
            for mailbox in mailboxes:
                while not mailbox.ended:
                    mailbox.wait_blocking()
                    mailbox.take()
        return count

    def stats(self) -> EngineStats:
        """What it did so far, and what it holds now."""
        return self._core.stats()

    def close(self) -> None:
        """E6. It also closes by itself when nobody holds it any more, and at the end of the process."""
        self._drop()


def _check(**values: float) -> None:
    for name, value in values.items():
        whole = name != "keep_free"
        low, high = {"keep_free": (0, 1), "page_tokens": (4, 4096)}.get(name, (1, 2**31))
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else (int, float))
            or not low <= value < (high if not whole else high + 1)
        ):
            kind = "a whole number" if whole else "a number"
            raise UsageError(f"{name}={value!r} is out of range; give {kind} from {low} to {high}")
