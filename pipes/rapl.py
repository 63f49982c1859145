"""What the machine draws, where the kernel's powercap says so; elsewhere watts are None: "not measured"."""

from __future__ import annotations

from pathlib import Path

__all__ = ["POWERCAP", "Rapl"]

POWERCAP = Path("/sys/class/powercap")


class Rapl:
    """Watts of all CPU packages, from the energy counters of the kernel's powercap interface (intel-rapl, AMD too).

    Virtual machines and containers mostly have none, and since 2020 they are readable by root alone.

    Args:
        path: the folder of the interface.
    """

    def __init__(self, path: Path = POWERCAP) -> None:
        self.why_not = ""
        """Why watts are not measured; "" = they are."""
        self._last: tuple[float, dict[Path, int]] | None = None
        # A package contains its zones (core, uncore); counting both would count twice.
        self._packages = [
            zone for zone in sorted(path.glob("intel-rapl:*")) if _text(zone / "name").startswith("package")
        ]
        if not self._packages:
            self.why_not = f"{path} has no intel-rapl package"
        elif self._energy() is None:
            self.why_not = f"{self._packages[0] / 'energy_uj'} cannot be read; the kernel lets only root"

    def watts(self, now: float) -> float | None:
        """Average since the last call; None = not measured, or the first call.

        Args:
            now: seconds, monotonic.
        """
        energy = self._energy() if self._packages else None
        before, self._last = self._last, None if energy is None else (now, energy)
        if energy is None or before is None or now <= before[0]:
            return None
        joules = sum(_passed(zone, before[1][zone], after) for zone, after in energy.items()) / 1e6
        return joules / (now - before[0])

    def _energy(self) -> dict[Path, int] | None:
        try:
            return {zone: int((zone / "energy_uj").read_text()) for zone in self._packages}
        except (OSError, ValueError):
            return None


def _passed(zone: Path, before: int, after: int) -> int:
    """Microjoules between two readings of a counter that begins anew at its range."""
    if after >= before:
        return after - before
    range_ = _text(zone / "max_energy_range_uj")
    return after - before + int(range_) if range_.isdigit() else after


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
