"""Which encoding of a picture a viewer gets: a ladder of sizes and formats, each with a budget of bytes. Pure.

L1. The smallest size that fills the viewer's screen; one that saves data gets the smallest there is.
L2. WebP, which is quick to make; JPEG for a viewer that says what it decodes and does not name WebP.
L3. AVIF, a quarter smaller and four times slower to make, where the viewer decodes it and it was made beforehand.
L4. A viewer that said nothing gets the largest WebP.
L5. A clip comes as WebM or MP4, as the viewer plays them; to one that plays neither, or saves data, as a picture of it.
"""

from __future__ import annotations

import msgspec

from multimodal.errors import UsageError
from multimodal.values import ViewerNeeds

__all__ = ["AVIF", "BUDGETS", "CLIP", "JPEG", "MP4", "WEBM", "WEBP", "Ladder", "Rung"]

WEBP, AVIF, JPEG = "image/webp", "image/avif", "image/jpeg"
WEBM, MP4 = "video/webm", "video/mp4"
CLIP = (480, 120)
"""Long side in pixels and KiB of a clip: three seconds at 40 KiB, as much as a picture and no more."""

BUDGETS = ((320, 16), (640, 48), (960, 96), (1280, 160))
"""Long side in pixels -> KiB that a picture of it may take; above, its quality is lowered step by step. A photograph of
800 px takes 45 KiB as WebP at quality 80; twice the pixels take about 1.7 times the bytes."""


class Rung(msgspec.Struct, frozen=True):
    """One encoding of a picture.

    Args:
        media_type: its format.
        max_px: pixels of its long side; smaller pictures are never enlarged.
        budget_bytes: what it may take; 0 = whatever the quality takes.
    """

    media_type: str = WEBP
    max_px: int = 1280
    budget_bytes: int = 0


class Ladder:
    """The encodings that pictures come in.

    Args:
        max_px: the largest long side.
        budgets: long side in pixels -> KiB, ascending.

    Raises:
        UsageError: no rung, sizes that do not ascend, or a size or budget below 1.
    """

    def __init__(self, max_px: int = 1280, budgets: tuple[tuple[int, int], ...] = BUDGETS) -> None:
        sizes = [size for size, _ in budgets]
        if not budgets or sizes != sorted(set(sizes)) or min(min(pair) for pair in budgets) < 1:
            raise UsageError(f"a ladder's sizes have to ascend, and sizes and KiB to be 1 or more; it has {budgets}")
        kept = [(size, kib) for size, kib in budgets if size < max_px]
        # The largest is as large as the settings say, with a budget for its area where the table has none.
        size, kib = next(((s, k) for s, k in budgets if s >= max_px), budgets[-1])
        self.sizes = (*kept, (max_px, max(1, round(kib * max(1.0, (max_px / size) ** 2)))))

    def choose(self, viewer: ViewerNeeds | None) -> tuple[Rung, ...]:
        """The encodings that suit a viewer, best first; all but the last are worth having only if made beforehand.

        Args:
            viewer: what it said; None = nothing.
        """
        if viewer is None:
            return (self._rung(WEBP, *self.sizes[-1]),)
        if viewer.save_data:
            size = self.sizes[0]
        else:
            size = next((pair for pair in self.sizes if 0 < viewer.width_px <= pair[0]), self.sizes[-1])
        live = WEBP if not viewer.formats or WEBP in viewer.formats else JPEG
        formats = (AVIF, live) if AVIF in viewer.formats else (live,)
        return tuple(self._rung(media_type, *size) for media_type in formats)

    def choose_clip(self, viewer: ViewerNeeds | None) -> tuple[Rung, ...]:
        """The encodings of a clip that suit a viewer, as `choose` gives those of a picture (L5).

        Args:
            viewer: what it said; None = nothing.
        """
        playable = [each for each in (WEBM, MP4) if viewer and each in viewer.formats and not viewer.save_data]
        return (self._rung(playable[0], *CLIP),) if playable else self.choose(viewer)

    def every(self, formats: tuple[str, ...] = (WEBP,)) -> tuple[Rung, ...]:
        """All rungs of some formats, smallest first: what a warm-up makes."""
        return tuple(self._rung(media_type, *size) for size in self.sizes for media_type in formats)

    @staticmethod
    def _rung(media_type: str, size: int, kib: int) -> Rung:
        return Rung(media_type, size, kib * 1024)
