"""Pipes that play a script: the newcomer's first narration, and the test double of every test.

Latency, stalls and failures are data, and time is the running loop's own: on a virtual clock an hour passes
at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import regex

from multimodal.errors import PipeError, UsageError
from multimodal.loops import loop_here
from multimodal.pipes.base import played_already
from multimodal.values import Asset, EncodedImage, ImageFailure, Product, Token

__all__ = ["PlannedScriptImagePipe", "ScriptImagePipe", "ScriptTextPipe", "split_tokens"]

# Scripts written without spaces: a word cannot be told from its neighbour without a dictionary. Line_Break=SA
# holds those of South-East Asia (UAX #14); the rest is CJK and its punctuation, full-width letters and digits
# excepted.
_NO_SPACES = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\p{Tibetan}\p{Line_Break=SA}"
    r"\u3001-\u303F\u30FB\u30FC\uFE30-\uFE4F\uFF01-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65]"
)
_CLUSTERS = regex.compile(r"\X")


def split_tokens(text: str) -> list[str]:
    """Split into tokens whose concatenation is `text`: words, each with the whitespace after it.

    In scripts written without spaces (Han, kana, Thai, Khmer, ...) a token is one grapheme cluster; Hangul
    goes by word, as it is spaced. No grapheme cluster is ever cut (UAX #29): emoji families, flags and
    combining marks stay whole. Leading whitespace goes with the first token; text of whitespace alone is
    one token.
    """
    tokens: list[str] = []
    current: list[str] = []
    has_letters = closed = False  # closed: nothing but whitespace may still join the current token
    for cluster in _CLUSTERS.findall(text):
        if cluster.isspace():
            closed = has_letters
        else:
            alone = _NO_SPACES.match(cluster) is not None
            if has_letters and (closed or alone):
                tokens.append("".join(current))
                current.clear()
            has_letters, closed = True, alone
        current.append(cluster)
    if current:
        tokens.append("".join(current))
    return tokens


class ScriptTextPipe:
    """A text pipe that plays given words at a given pace.

    The schedule is absolute, so that sleeping too long does not add up; a pull that comes late (backpressure,
    a pause) is served at once and the schedule goes on from there. Cancelling a pull loses no token.

    Args:
        source: text, split by `split_tokens`; a list of str, one token each; or a `pathlib.Path` to UTF-8.
        ttft: seconds from the first pull to the first token.
        gap: seconds between tokens; a sequence gives one gap after the other, over and over.
        speed: divides every time: 2 is twice as fast.
        stalls: extra seconds before the token of that index.
        fail_at: (token index, what to raise in its stead): a message becomes a PipeError, an exception is
            raised as it is. The index after the last token fails at the end.

    Raises:
        UsageError: a wrong argument, or a file that is missing, empty or not UTF-8.
    """

    def __init__(
        self,
        source: str | Sequence[str] | Path,
        *,
        ttft: float = 0.0,
        gap: float | Sequence[float] = 0.05,
        speed: float = 1.0,
        stalls: Mapping[int, float] | None = None,
        fail_at: tuple[int, str | Exception] | None = None,
    ) -> None:
        self.token_unit = "word"
        if isinstance(source, Path):
            self.tokens = split_tokens(_read_script(source))
        elif isinstance(source, str):
            self.tokens = split_tokens(source)
        else:
            self.tokens = _list_of_str(source)
            self.token_unit = "token"
        _check_encodable(self.tokens)
        count = len(self.tokens)
        self._speed = _positive("ScriptTextPipe speed", speed)
        gaps = [gap] if isinstance(gap, (int, float)) else list(gap)
        if not gaps:
            raise UsageError("ScriptTextPipe gap is an empty sequence; give at least one number of seconds")
        self._gaps = [_seconds("ScriptTextPipe gap", each) for each in gaps]
        self._stalls = dict(stalls or {})
        for index, extra in self._stalls.items():
            _seconds(f"ScriptTextPipe stalls[{index}]", extra)
            _index("ScriptTextPipe stalls", index, count)
        if fail_at is not None:
            _index("ScriptTextPipe fail_at", fail_at[0], count)
        self._fail_at = fail_at
        self._index = 0
        self._due = _seconds("ScriptTextPipe ttft", ttft) / self._speed
        self._started = self._ended = self._pulling = False

    def __aiter__(self) -> ScriptTextPipe:
        if self._ended:
            raise played_already(self)
        return self

    async def __anext__(self) -> Token:
        if self._pulling:
            raise UsageError("ScriptTextPipe is pulled twice at once; a pipe has one reader")
        fails = self._fail_at is not None and self._fail_at[0] == self._index
        if self._ended or (self._index >= len(self.tokens) and not fails):
            self._ended = True
            raise StopAsyncIteration
        self._pulling = True
        try:
            await self._wait_for_turn()
        finally:
            self._pulling = False
        if self._ended:
            raise StopAsyncIteration
        if fails:
            self._ended = True
            raise self._failure()
        token = self._take()
        # Its reader may know this end and never pull again (T6).
        self._ended = token.last
        return token

    def upcoming(self, limit: int) -> str:
        """The text that is still to come, at most `limit` characters (T9)."""
        parts: list[str] = []
        length = 0
        for text in islice(self.tokens, self._index, None):
            parts.append(text)
            length += len(text)
            if length >= limit:
                break
        return "".join(parts)[:limit]

    def skip_to(self, index: int) -> list[str]:
        """Go on with token `index`, at once; gives the tokens passed over. It never goes back."""
        index = max(self._index, min(index, len(self.tokens)))
        passed = self.tokens[self._index : index]
        if passed:
            self._index, self._due = index, 0.0
        return passed

    async def aclose(self) -> None:
        """End the pipe: the next pull, and one that waits, end the iteration. Twice is once."""
        self._ended = True

    async def _wait_for_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._started:
            self._started = True
            self._due += now + self._stalls.get(0, 0.0) / self._speed
        wait = self._due - now
        if wait < 0:
            self._due = now
        # With nothing to wait for it still gives way once: a reader's loop must not starve the other tasks.
        await asyncio.sleep(max(wait, 0.0))

    def _take(self) -> Token:
        text = self.tokens[self._index]
        gap = self._gaps[self._index % len(self._gaps)]
        self._index += 1
        self._due += (gap + self._stalls.get(self._index, 0.0)) / self._speed
        at_end = self._index == len(self.tokens)
        return Token(text, last=at_end and self._fail_at is None)

    def _failure(self) -> Exception:
        assert self._fail_at is not None
        index, what = self._fail_at
        if isinstance(what, Exception):
            return what
        return PipeError(f"{what} (scripted: fail_at token {index} of {len(self.tokens)})")


ScriptedPicture = EncodedImage | ImageFailure


class ScriptImagePipe:
    """An image pipe that gives pictures after given delays: the plainest kind, with no plan or description.

    Args:
        items: pictures or failures, each alone or with its delay in seconds; delays count from the first
            pull, all at the same time. `math.inf` is a picture that never comes: the pipe then hangs and
            never ends.
        speed: divides every delay.
        fail_after: (how many pictures come before, what to raise then), as `ScriptTextPipe.fail_at`.

    Raises:
        UsageError: a wrong argument, or a key twice.
    """

    def __init__(
        self,
        items: Iterable[ScriptedPicture | tuple[ScriptedPicture, float]],
        *,
        speed: float = 1.0,
        fail_after: tuple[int, str | Exception] | None = None,
    ) -> None:
        _positive("ScriptImagePipe speed", speed)
        self._items: dict[str, ScriptedPicture] = {}
        self._delays: dict[str, float] = {}
        for entry in items:
            item, delay = entry if isinstance(entry, tuple) else (entry, 0.0)
            if item.key in self._items:
                raise UsageError(f"ScriptImagePipe has the key {item.key!r} twice; a key names one picture")
            self._items[item.key] = item
            endless = delay == math.inf
            self._delays[item.key] = delay if endless else _seconds("ScriptImagePipe delay", delay) / speed
        if fail_after is not None:
            _index("ScriptImagePipe fail_after", fail_after[0], len(self._items))
        self._fail_after = fail_after
        self._due: dict[str, float] | None = None
        self._given = 0
        self._closed = False
        self._changed = asyncio.Event()

    def __aiter__(self) -> ScriptImagePipe:
        if self._closed:
            raise played_already(self)
        return self

    async def __anext__(self) -> ScriptedPicture:
        loop = asyncio.get_running_loop()
        if self._due is None:
            self._due = self._start_all(loop.time())
        while not self._closed:
            if self._fail_after is not None and self._given >= self._fail_after[0]:
                self._closed = True
                what = self._fail_after[1]
                raise what if isinstance(what, Exception) else PipeError(what)
            if not self._due and self._complete():
                self._closed = True
                break
            key = min(self._due, key=self._due.__getitem__, default=None)
            due = math.inf if key is None else self._due[key]
            if key is not None and due <= loop.time():
                del self._due[key]
                self._given += 1
                return self._items.get(key) or ImageFailure(key, "unknown_key", "the script has no such picture")
            self._changed.clear()
            timer = None if due == math.inf else loop.call_at(due, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                if timer is not None:
                    timer.cancel()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the pipe, also for a pull that waits. Twice is once."""
        self._closed = True
        self._changed.set()

    def _start_all(self, now: float) -> dict[str, float]:
        return {key: now + delay for key, delay in self._delays.items()}

    def _complete(self) -> bool:
        return True


class PlannedScriptImagePipe(ScriptImagePipe):
    """A `ScriptImagePipe` that the plan drives (I4-I7): delays count from the moment a key is wanted.

    Args:
        items: as in `ScriptImagePipe`.
        products: the products its pictures belong to.
        speed: divides every delay.
        fail_after: as in `ScriptImagePipe`.

    Raises:
        UsageError: a wrong argument, or a key twice.
    """

    def __init__(
        self,
        items: Iterable[ScriptedPicture | tuple[ScriptedPicture, float]],
        *,
        products: Sequence[Product] = (),
        speed: float = 1.0,
        fail_after: tuple[int, str | Exception] | None = None,
    ) -> None:
        super().__init__(items, speed=speed, fail_after=fail_after)
        self.products: Sequence[Product] = tuple(products)
        self.wanted: list[str] = []
        self._final = False

    def keys(self) -> list[str]:
        """Every key of the script, in order."""
        return list(self._items)

    def want(self, keys: Sequence[str], *, final: bool = False) -> None:
        """Start the delays of these keys; `wanted` lists all that were asked for, in order.

        Raises:
            UsageError: no event loop runs here.
        """
        now = loop_here("want()").time()
        if self._due is None:
            self._due = {}
        for key in keys:
            if key not in self.wanted:
                self.wanted.append(key)
                self._due[key] = now + self._delays.get(key, 0.0)
        self._final = self._final or final
        self._changed.set()

    async def describe(self, keys: Sequence[str]) -> list[Asset]:
        """Size, alternative text and preview of the pictures that will come."""
        found = (self._items.get(key) for key in keys)
        return [_described(item) for item in found if isinstance(item, EncodedImage)]

    def _start_all(self, now: float) -> dict[str, float]:
        # Pulled before it was ever wanted: a plain `async for` gets everything (I5).
        self.wanted, self._final = self.keys(), True
        return super()._start_all(now)

    def _complete(self) -> bool:
        return self._final


def _described(image: EncodedImage) -> Asset:
    return Asset(image.key, image.product, image.width_px, image.height_px, image.alt, image.placeholder)


def _read_script(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read the narration {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        where = f"byte {error.start}"
        raise UsageError(f"the narration {path} is not UTF-8 ({where}); save it as UTF-8") from error
    if not text.strip():
        raise UsageError(f"the narration {path} is empty; write the words to speak into it")
    return text


def _list_of_str(source: object) -> list[str]:
    if isinstance(source, Sequence) and not isinstance(source, (bytes, bytearray, memoryview)):
        wrong = [index for index, item in enumerate(source) if not isinstance(item, str)]
        if not wrong:
            return list(source)
        kind = type(source[wrong[0]]).__name__
        raise UsageError(f"ScriptTextPipe source[{wrong[0]}] is a {kind}; a list holds one str per token")
    kind = type(source).__name__
    raise UsageError(f"ScriptTextPipe source is a {kind}; give a str, a list of str or a pathlib.Path")


def _check_encodable(tokens: Sequence[str]) -> None:
    for index, text in enumerate(tokens):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"ScriptTextPipe token {index} holds a lone surrogate, which no wire can carry: {text!r}"
            ) from error


def _seconds(what: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise UsageError(f"{what}={value!r} must be a finite number of seconds, 0 or more")
    return float(value)


def _positive(what: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise UsageError(f"{what}={value!r} must be a finite number above 0")
    return float(value)


def _index(what: str, index: int, count: int) -> None:
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index <= count:
        raise UsageError(f"{what} names index {index!r}; there are {count}, counted from 0")
