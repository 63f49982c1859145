"""Odd and hostile picture files, made in code: what shops have, what attackers send, and what each has to come to.

Nothing here is committed as bytes. `make` writes all of them into a folder; `Odd` says of each whether it is shown,
with which colours and how large, or why it is missed. The colours are those the file was made of, computed by hand;
where libvips decodes the file too, it is a second reference.
"""

from __future__ import annotations

from pathlib import Path

from tests.pipes.corpus import bitmaps, jpegs, moving, pngs, strangers, tiffs
from tests.pipes.corpus.chart import Odd

__all__ = ["Odd", "make"]


def make(folder: Path) -> list[Odd]:
    """Write every odd file into a folder, which has to be empty; gives what is in it, in the order of the names."""
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Odd] = []
    for maker in (jpegs, pngs, moving, tiffs, bitmaps, strangers):
        found += maker.make(folder)
    names = [odd.name for odd in found]
    assert len(set(names)) == len(names), "two odd files of one name"
    return found
