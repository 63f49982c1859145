"""The amounts of a fact sheet, asked for in any unit, as a comparison, and of a side. Pure.

G5  What is said "under", "over" or "nearly" so much has to be close by: from half of it, up to twice as much, and at
    most a tenth less. That is a choice: "under fifty euros" tells something of 49, and misleads of 9.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from decimal import Decimal

from multimodal.pipes.claim_base import Bound
from multimodal.pipes.claim_words import BRITISH, FOREIGN, MEASURES

__all__ = ["Amounts"]

_ROUNDED = Decimal("0.03")
"""How far a rounded conversion may be off: two feet are not half a metre."""
_CLOSE: dict[Bound, tuple[Decimal, Decimal]] = {
    "under": (Decimal("0.5"), Decimal(1)),
    "over": (Decimal(1), Decimal(2)),
    "near": (Decimal("0.9"), Decimal(1)),
}


class Amounts:
    """Numbers with their units, in order: what they allow is found by search.

    Args:
        numbers: each with its unit in the one spelling; "" = none.
    """

    def __init__(self, numbers: Iterable[tuple[Decimal, str]] = ()) -> None:
        once = set(numbers)
        measured: dict[tuple[str, bool], set[Decimal]] = {}
        units: dict[str, set[Decimal]] = {}
        for number, unit in once:
            units.setdefault(unit, set()).add(number)
            if unit in MEASURES:
                measure, factor = MEASURES[unit]
                amounts = measured.setdefault((measure, unit in FOREIGN), set())
                amounts.update((number * factor, number * BRITISH.get(unit, factor)))
        # By measure and system, in the smallest unit.
        self._measured = {key: sorted(amounts) for key, amounts in measured.items()}
        self._units = {unit: sorted(amounts) for unit, amounts in units.items()}

    def converted(self, number: Decimal, unit: str, exact: Decimal) -> bool:
        """Whether it is here in some unit of its measure: 1,500 ml are 1.5 l, and 49 cm are 19 inches.

        Args:
            number, unit: what is said.
            exact: one unit of its last digit: between metres and inches, what is said is rounded.
        """
        if unit not in MEASURES:
            return False
        measure, factor = MEASURES[unit]
        foreign = unit in FOREIGN
        for each in dict.fromkeys((factor, BRITISH.get(unit, factor))):
            rounded = min(exact / 2, number * _ROUNDED) * each
            if _near(self._measured.get((measure, foreign), ()), number * each, Decimal(0)) or _near(
                self._measured.get((measure, not foreign), ()), number * each, rounded
            ):
                return True
        return False

    def compares(self, number: Decimal, unit: str, bound: Bound) -> bool:
        """Whether something is here of which a comparison with this is true (G5)."""
        if bound not in _CLOSE:
            return False
        low, high = _CLOSE[bound]
        if unit not in MEASURES:
            return _between(self._units.get(unit, ()), number * low, number * high, bound)
        measure, factor = MEASURES[unit]
        return any(
            _between(self._measured.get((measure, foreign), ()), number * factor * low, number * factor * high, bound)
            for foreign in (False, True)
        )


def _near(amounts: list[Decimal] | tuple[()], amount: Decimal, rounded: Decimal) -> bool:
    at = bisect_left(amounts, amount - rounded)
    return at < len(amounts) and amounts[at] <= amount + rounded


def _between(amounts: list[Decimal] | tuple[()], low: Decimal, high: Decimal, bound: Bound) -> bool:
    """The number that is said is none of them: "under 24 euros" is not said of 24 here, but where it is exact."""
    at = bisect_right(amounts, low) if bound == "over" else bisect_left(amounts, low)
    return at < len(amounts) and (amounts[at] <= high if bound == "over" else amounts[at] < high)
