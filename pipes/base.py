"""What a text pipe and an image pipe owe, in numbered sentences. No base class to inherit: anything that fits, works.

Text pipe
    T1. It is an async iterator of `Token` or `str`; one item is one token, empty text included.
    T2. It is pulled: it makes the next token when asked, and not being asked stops it.
    T3. It raises out of `async for` when it fails; `PipeError` says whether trying again may help.
    T4. `aclose()`, where it has one, frees what it holds; twice is once. Cancelling a pull does the same.
    T5. `token_unit`, where it has one, says what a token is: word, delta or token; `narrator`, who speaks.
    T6. Where it knows its end, its last `Token` says `last=True`.
    T7. It is played once. A pull after the end is the end again; a new `async for` after the end, or after
        `aclose()`, raises UsageError, as a second stream would otherwise be silent.
    T8. `sync_every(tokens)`, where it has one, is called once before the first pull with the tokens between two sync
        marks, so that a pipe that keeps filler words back lets go of them at each mark. It returns at once.
    T9. `upcoming(limit)`, where it has one, gives the text that is certain to come, at most `limit` characters of
        it, so that the pictures of what it names are prepared in that order.
    T10. `cut`, where it has one, is True once it has ended before it had said all: at a limit of tokens, or by a
        filter. Its last sentence may be half of one. While it plays, and at an end of its own, it is False.

Image pipe
    I1. It is an async iterator of `EncodedImage`, in any order, each key at most once.
    I2. A picture that will not come is yielded as `ImageFailure`; the rest goes on.
    I3. It ends when nothing more will come. Raising fails every picture still awaited.
    I4. `keys()`, where it has one, lists what it holds, in order, before any byte is read.
    I5. `want(keys)`, where it has one, is called with the plan: prepare these, soonest first. It returns at
        once. Keys asked for earlier stay asked for. Keys that it does not hold are yielded as
        `ImageFailure`. A pipe that has `want` prepares nothing of its own accord and ends when every wanted
        key was yielded and `want` said `final=True`. Pulled before it was ever wanted, it takes all its
        keys, in order, as the final plan, so that a plain `async for` works.
    I6. `describe(keys)`, where it has one, gives an `Asset` for each key that it can, before the bytes:
        size, alternative text and preview. It leaves out what it cannot.
    I7. `products`, where it has one, are the catalogue's products, for the viewer and for assertions.
    I8. `aclose()` as in T4.
    I9. It is played once, as in T7.
    I10. `fit(viewer)`, where it has one, is told what the viewer can show, before the first pull where that is
        known by then. It returns at once; pictures that are not prepared yet come in the encoding that suits.
    I11. `forget(keys)`, where it has one, takes wishes back: work on them that has not begun is dropped, and they
        are not yielded unless they are wanted again. It returns at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

from multimodal.errors import UsageError
from multimodal.values import Asset, EncodedImage, ImageFailure, Product, Token, ViewerNeeds

__all__ = [
    "Describes",
    "Fits",
    "FollowsMarks",
    "Foretells",
    "Forgets",
    "HasKeys",
    "HasProducts",
    "ImagePipe",
    "TextPipe",
    "Wants",
    "played_already",
    "was_cut",
]

TextPipe = AsyncIterator[Token] | AsyncIterator[str] | AsyncIterator[Token | str]
"""T1-T10. Whatever `async for` takes."""

ImagePipe = AsyncIterator[EncodedImage] | AsyncIterator[EncodedImage | ImageFailure]
"""I1-I11. Whatever `async for` takes."""


def played_already(pipe: object) -> UsageError:
    """What a used-up pipe raises when it is iterated anew (T7, I9)."""
    return UsageError(f"this {type(pipe).__name__} was played already; make a new one for each stream")


def was_cut(pipe: object) -> bool:
    """Whether a text pipe that has ended was cut, so that its last sentence may be half of one (T10)."""
    return getattr(pipe, "cut", False) is True


@runtime_checkable
class FollowsMarks(Protocol):
    """T8: the pipe lets go of what it keeps back at each sync mark."""

    def sync_every(self, tokens: int) -> None: ...


@runtime_checkable
class HasKeys(Protocol):
    """I4: the pipe knows what it holds."""

    def keys(self) -> Sequence[str]: ...


@runtime_checkable
class Wants(Protocol):
    """I5: the plan drives the pipe."""

    def want(self, keys: Sequence[str], *, final: bool = False) -> None: ...


@runtime_checkable
class Describes(Protocol):
    """I6: size, alternative text and preview come before the bytes."""

    async def describe(self, keys: Sequence[str]) -> Sequence[Asset]: ...


@runtime_checkable
class Foretells(Protocol):
    """T9: the pipe knows what it will say."""

    def upcoming(self, limit: int) -> str: ...


@runtime_checkable
class Forgets(Protocol):
    """I11: the pipe can be told that pictures are no longer wanted."""

    def forget(self, keys: Sequence[str]) -> None: ...


@runtime_checkable
class Fits(Protocol):
    """I10: the pipe chooses encodings for a viewer."""

    def fit(self, viewer: ViewerNeeds) -> None: ...


@runtime_checkable
class HasProducts(Protocol):
    """I7: the pipe knows its products."""

    @property
    def products(self) -> Sequence[Product]: ...
