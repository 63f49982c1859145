"""How much of a prompt a step reads beside rows that speak, from measured step times. Pure."""

from __future__ import annotations

from multimodal.errors import UsageError
from multimodal.pipes.local_quantum import QUANTUM

__all__ = ["PrefillPace"]

SMOOTH = 0.2
"""Weight of the newest step in a number of rows' usual time: ten steps make nine tenths of it."""


class PrefillPace:
    """Additive increase, halving: the share grows while steps stay below `slowdown` times their usual length.

    Args:
        chunk: most prompt tokens of a step, and what a step takes while nobody speaks.
        slowdown: how many times longer than usual a step may take while a prompt is read; 0 = always `chunk`.

    Raises:
        UsageError: a chunk below one quantum, a slowdown that is neither 0 nor above 1.
    """

    def __init__(self, chunk: int = 256, slowdown: float = 1.8) -> None:
        if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < QUANTUM:
            raise UsageError(f"prefill_chunk={chunk!r} is out of range; give {QUANTUM} tokens or more")
        if slowdown != 0 and not slowdown > 1:
            raise UsageError(f"prefill_slowdown={slowdown!r} is out of range; give more than 1, or 0 (off)")
        self.chunk, self.slowdown = chunk, slowdown
        self._share = min(chunk, 4 * QUANTUM)
        self._usual: dict[int, float] = {}

    def room(self, speaking: int) -> int:
        """Prompt tokens that the next step may read beside so many rows that speak."""
        return self._share if speaking and self.slowdown else self.chunk

    def measured(self, speaking: int, read: int, seconds: float) -> None:
        """A step with so many speaking rows read so many prompt tokens in so long."""
        if not speaking:
            return
        usual = self._usual.get(speaking)
        if not read:
            self._usual[speaking] = seconds if usual is None else usual + SMOOTH * (seconds - usual)
            return
        usual = self._near(speaking) if usual is None else usual
        if usual is not None and read >= self._share // 2:
            if seconds > self.slowdown * usual:
                self._share = max(QUANTUM, self._share // 2 // QUANTUM * QUANTUM)
            elif seconds < 0.8 * self.slowdown * usual:
                self._share = min(self.chunk, self._share + QUANTUM)

    def _near(self, speaking: int) -> float | None:
        """While prompts come, some numbers of rows never speak alone: what the nearest took, if it is near enough."""
        near = [rows for rows in self._usual if speaking <= 2 * rows <= 4 * speaking]
        return self._usual[min(near, key=lambda rows: abs(rows - speaking))] if near else None
