"""What sessions leave behind that register callbacks of every kind and go away without a word."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import msgspec

from multimodal.pipes.callbacks import Callbacks, StageChange, Update

__all__ = ["Left", "churn"]


class Left(msgspec.Struct, frozen=True):
    """What is still alive after the sessions, of the objects that they made.

    Args:
        sessions: how many there were.
        registries, handles, objects: of each kind, still alive.
        tracked: objects that the collector knows beyond those at the beginning.
    """

    sessions: int
    registries: int
    handles: int
    objects: int
    tracked: int


class _Screen:
    """An application's object, large enough that a leak would show in memory."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.large = bytearray(64 * 1024)

    def show(self, event: object) -> None:
        self.seen.append(event)

    def show_as(self, how: str, event: object) -> None:
        self.seen.append((how, event))


def churn(sessions: int, *, drain: float = 30.0) -> Left:
    """Run so many sessions one after the other, each with a bound method, a lambda over a large object, two partials,
    `list.append` and an owner that its callback refers to. Half of them close; a quarter remove a handle.

    Args:
        sessions: how many.
        drain: seconds the last events may take.
    """
    gc.collect()
    before = len(gc.get_objects())
    registries: weakref.WeakSet[Any] = weakref.WeakSet()
    handles: weakref.WeakSet[Any] = weakref.WeakSet()
    objects: weakref.WeakSet[Any] = weakref.WeakSet()
    for number in range(sessions):
        _session(number, registries, handles, objects, drain)
    gc.collect()
    return Left(sessions, len(registries), len(handles), len(objects), len(gc.get_objects()) - before)


def _session(
    number: int,
    registries: weakref.WeakSet[Any],
    handles: weakref.WeakSet[Any],
    objects: weakref.WeakSet[Any],
    drain: float,
) -> None:
    callbacks, screen, other = Callbacks(), _Screen(), _Screen()
    kinds: list[Callable[[Any], object]] = [
        screen.show,
        lambda event: other.show(event),
        functools.partial(screen.show_as, "large"),
        functools.partial(lambda held, event: held, [screen, callbacks]),
        other.seen.append,
    ]
    held = [callbacks.register("update", kind) for kind in kinds]
    held.append(callbacks.register("stage_change", lambda event: screen.show(event), owner=screen))
    callbacks.emit(StageChange("answer", "greeting", number))
    callbacks.emit(Update(number, 1, "word "))
    if number % 2:
        callbacks.close()
    elif number % 4:
        held[0].remove()
    callbacks.drain(drain)
    registries.add(callbacks)
    handles.update(held)
    objects.update((screen, other))
