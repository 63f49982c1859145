"""The piece in which prompts meet their keys; apart, because it needs no torch."""

from __future__ import annotations

__all__ = ["QUANTUM"]

QUANTUM = 4
"""Positions of a prompt that meet their keys in one call. The kernel's rounding depends on how many do, so it must not
depend on how much of a prompt a step takes (E5); a step takes a multiple of it."""
