"""One stream of words and pictures, as some models emit it, parted into the two pipes that a tour needs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import NamedTuple

from multimodal.errors import PipeError, UsageError
from multimodal.values import Cue, EncodedImage, ImageFailure, LatePolicy, Token

__all__ = ["CueFeed", "Interleaved", "InterleavedImagePipe", "InterleavedTextPipe", "Part", "split_interleaved"]

Part = str | Token | EncodedImage | ImageFailure
"""What such a stream yields: one token of text, or a picture where it belongs."""

PICTURES_AHEAD = 8
"""Pictures that may wait to be taken before the stream is no longer read."""
READERS = 2
"""Tasks that a picture passes before it is fed: the one that pulls the image pipe, and the one that feeds the tour."""


class CueFeed:
    """Where the pictures stood, told in the order of the text.

    A cue is told before the token that reaches its boundary comes out of the text pipe. Until somebody is connected
    they wait.
    """

    def __init__(self) -> None:
        self._waiting: list[Cue] = []
        self._declare: Callable[[Cue], object] | None = None

    def connect(self, declare: Callable[[Cue], object]) -> None:
        """Call this with every cue, those told before first.

        Raises:
            UsageError: another is connected.
        """
        if self._declare is not None:
            raise UsageError("the cues of this interleaved stream are connected already; one tour takes them")
        self._declare = declare
        waiting, self._waiting = self._waiting, []
        for cue in waiting:
            declare(cue)

    def tell(self, cue: Cue) -> None:
        """One more cue."""
        if self._declare is None:
            self._waiting.append(cue)
        else:
            self._declare(cue)


class _Source:
    """The stream that both pipes share. The text pipe reads it, one part ahead; pictures wait to be taken."""

    def __init__(self, parts: AsyncIterator[Part], cues: CueFeed, late: LatePolicy | None) -> None:
        self._parts, self._cues = parts, cues
        self._late: LatePolicy | None = late
        self._ahead: Token | None = None
        self._tokens = 0
        self._given: dict[str, str] = {}
        self._pictures: deque[EncodedImage | ImageFailure] = deque()
        self._failure: Exception | None = None
        self._reading = self._ended = self._closed = False
        self._changed = asyncio.Event()

    async def token(self) -> Token | None:
        """The next token, once it is known whether a picture stands behind it; None = the end."""
        if self._reading:
            raise UsageError("the text of an interleaved stream is pulled twice at once; a pipe has one reader")
        self._reading = True
        try:
            while not (self._ended or self._closed):
                token = await self._read()
                if token is not None:
                    return token
        finally:
            self._reading = False
            if self._closed:
                await self._close_parts()
        last, self._ahead = self._ahead, None
        if last is not None and not self._closed:
            # The end may share the instant of the last token, but a failure comes behind it.
            return Token(last.text, last=self._failure is None)
        if self._failure is not None and not self._closed:
            raise self._failure
        return None

    async def picture(self) -> EncodedImage | ImageFailure | None:
        """The next picture; None = no more will come."""
        while not self._pictures:
            if self._closed or self._ended:
                if self._failure is not None and not self._closed:
                    raise PipeError(
                        f"the interleaved stream failed: {self._failure}",
                        retryable=getattr(self._failure, "retryable", False),
                    ) from self._failure
                return None
            await self._changed.wait()
        picture = self._pictures.popleft()
        self._wake()
        return picture

    async def close(self, *, pictures: bool) -> None:
        """End both pipes; `pictures` = drop also those that wait. A text that was read to its end closes nothing."""
        self._closed = self._closed or not self._ended
        if pictures or self._closed:
            self._pictures.clear()
        if not self._reading:
            await self._close_parts()
        self._wake()

    async def _read(self) -> Token | None:
        """One part; gives the token that stands before it, if it is one. Cancelling loses nothing that was read."""
        while len(self._pictures) >= PICTURES_AHEAD and not self._closed:
            await self._changed.wait()
        try:
            part = await anext(self._parts)
            if isinstance(part, EncodedImage | ImageFailure):
                self._place(part)
            elif not isinstance(part, str | Token):
                raise PipeError(f"it gave {type(part).__name__}; give str, Token, EncodedImage or ImageFailure")
        except StopAsyncIteration:
            self._ended = True
            self._wake()
            return None
        except Exception as error:
            self._failure, self._ended = error, True
            self._wake()
            return None
        if isinstance(part, EncodedImage | ImageFailure):
            # Whoever reads pictures goes first, so that this one is there an instant before its words.
            for _ in range(READERS):
                await asyncio.sleep(0)
            return None
        self._tokens += 1
        token, self._ahead = self._ahead, part if isinstance(part, Token) else Token(part)
        return Token(token.text) if token is not None and token.last else token

    def _place(self, picture: EncodedImage | ImageFailure) -> None:
        product, digest = (picture.product, picture.sha256) if isinstance(picture, EncodedImage) else ("", "")
        known = self._given.get(picture.key)
        if known not in (None, digest):
            raise PipeError(
                f"the interleaved stream gave two different pictures the key {picture.key!r}; a key names one picture"
            )
        self._cues.tell(Cue(self._tokens, picture.key, self._late, product=product))
        if known is None:
            self._given[picture.key] = digest
            self._pictures.append(picture)
            self._wake()

    def _wake(self) -> None:
        """Whoever waits looks again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _close_parts(self) -> None:
        close = getattr(self._parts, "aclose", None)
        if close is not None:
            await close()


class InterleavedTextPipe:
    """The words of an interleaved stream (T1-T6). `aclose` ends both pipes."""

    def __init__(self, source: _Source) -> None:
        self._source = source

    def __aiter__(self) -> InterleavedTextPipe:
        return self

    async def __anext__(self) -> Token:
        token = await self._source.token()
        if token is None:
            raise StopAsyncIteration
        return token

    async def aclose(self) -> None:
        """End both pipes and close the stream; while a pull is under way, when that ends. Twice is once."""
        await self._source.close(pictures=False)


class InterleavedImagePipe:
    """The pictures of an interleaved stream (I1-I3, I8). `aclose` ends both pipes."""

    def __init__(self, source: _Source) -> None:
        self._source = source

    def __aiter__(self) -> InterleavedImagePipe:
        return self

    async def __anext__(self) -> EncodedImage | ImageFailure:
        picture = await self._source.picture()
        if picture is None:
            raise StopAsyncIteration
        return picture

    async def aclose(self) -> None:
        """As that of the text."""
        await self._source.close(pictures=True)


class Interleaved(NamedTuple):
    """The two pipes, and where the pictures stood."""

    text: InterleavedTextPipe
    images: InterleavedImagePipe
    cues: CueFeed


def split_interleaved(parts: AsyncIterable[Part], *, late: LatePolicy | None = None) -> Interleaved:
    """Part one stream of words and pictures into a text pipe and an image pipe.

    Each picture is tied to the boundary at which it stood: behind the tokens that came before it. For that the text is
    one part late: a token comes out when it is known what follows. The text pipe alone reads the stream, so that
    pictures come as far as the text was pulled; it waits while eight of them are not taken.

    A picture that comes again under its key and with its bytes is shown again and not sent again. A failure of the
    stream comes out of both pipes, behind what came before it.

    Args:
        parts: what the model emits: `str` or `Token` for a token, `EncodedImage` or `ImageFailure` for a picture.
        late: what the pictures do that are not ready at their mark; None = the stream's own setting.

    Raises:
        UsageError: `parts` is no async iterator.
        PipeError: out of the pipes, when one key names two different pictures.
    """
    if not hasattr(parts, "__aiter__"):
        raise UsageError(
            f"parts is {type(parts).__name__}; it must be an async iterator of str, Token, EncodedImage or ImageFailure"
        )
    cues = CueFeed()
    source = _Source(aiter(parts), cues, late)
    return Interleaved(InterleavedTextPipe(source), InterleavedImagePipe(source), cues)
