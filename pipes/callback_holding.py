"""Who holds a callback, and on which loop it runs (C2-C4 in `callbacks`)."""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

from multimodal.errors import UsageError

__all__ = ["HOLDS", "Call", "holding", "inner", "loop_for", "nobody"]

Call = Callable[[Any], object]

HOLDS = "_multimodal_callbacks"
"""The attribute by which an owner holds its callbacks. A table of ours from owner to callback would keep alive every
owner to which its callback refers; held by the owner itself both are an ordinary cycle."""


class _Held:
    """What an owner holds: it can be referred to weakly, whatever the callback is."""

    __slots__ = ("__weakref__", "fn")

    def __init__(self, fn: Call) -> None:
        self.fn = fn


def nobody() -> None:
    """How to find a callback that was let go of."""
    return None


def inner(fn: Any) -> Any:
    """What a partial calls in the end."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def loop_for(fn: Call, name: str) -> asyncio.AbstractEventLoop | None:
    """The running loop for a coroutine function; None for a plain one.

    Raises:
        UsageError: a coroutine function, and no loop runs.
    """
    called = inner(fn)
    if not (inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(getattr(called, "__call__", None))):  # noqa: B004
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            f"the callback {name} is a coroutine function and no event loop runs here; register it on the loop on "
            "which it shall run"
        ) from None


def holding(fn: Call, owner: object) -> tuple[Callable[[], Call | None], Callable[[], object]]:
    """How to find the callback, and how to let go of it.

    Raises:
        UsageError: the owner cannot hold it.
    """
    if owner is not None:
        return _held_by(owner, fn)
    method = inner(fn)
    if inspect.ismethod(method):
        try:
            found = weakref.WeakMethod(method)
        except TypeError:  # an object without room for weak references
            return (lambda: fn), nobody
        if method is fn:
            return found, nobody
        return _rebuilt(fn, found), nobody
    return (lambda: fn), nobody


def _rebuilt(fn: Any, found: weakref.WeakMethod[Any]) -> Callable[[], Call | None]:
    """A partial over a bound method without the method: its arguments, and where to find the method."""
    layers: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    while isinstance(fn, functools.partial):
        layers.append((fn.args, fn.keywords))
        fn = fn.func
    args = tuple(arg for layer, _ in reversed(layers) for arg in layer)
    keywords = {name: value for _, layer in reversed(layers) for name, value in layer.items()}

    def find() -> Call | None:
        method = found()
        return None if method is None else functools.partial(method, *args, **keywords)

    return find


def _held_by(owner: object, fn: Call) -> tuple[Callable[[], Call | None], Callable[[], object]]:
    held = _Held(fn)
    try:
        holder = weakref.ref(owner)
        vars(owner).setdefault(HOLDS, []).append(held)
    except (AttributeError, TypeError):
        raise UsageError(
            f"owner is a {type(owner).__name__}, which has no attributes of its own to hold a callback by; give the "
            "object that the callback belongs to, or none"
        ) from None
    found = weakref.ref(held)

    def find() -> Call | None:
        held = found()
        return None if held is None else held.fn

    def release() -> None:
        owner, held = holder(), found()
        if owner is not None and held is not None and held in (holds := vars(owner).get(HOLDS, [])):
            holds.remove(held)

    return find, release
