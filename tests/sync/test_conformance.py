"""The checks pass every pipe of ours, and catch each broken one by the number of its rule."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from multimodal import samples
from multimodal.errors import PipeError, SyncError
from multimodal.pipes.catalog import CatalogImagePipe
from multimodal.pipes.folder import FolderImagePipe
from multimodal.pipes.interleaved import split_interleaved
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptImagePipe, ScriptTextPipe
from multimodal.sync.conformance import check_image_pipe, check_text_pipe
from multimodal.sync.virtual import VirtualClock
from multimodal.values import Asset, EncodedImage, ImageFailure, Product, Token
from tests.support import virtual

WORDS = ["Meet ", "the ", "Halo ", "Kettle."]
TEXT = "".join(WORDS)


def image(key: str, product: str = "") -> EncodedImage:
    return EncodedImage(key, b"x", "image/webp", 4, 3, product=product, alt=f"picture {key}")


# ---- ours keep their contracts ---------------------------------------------------------------------------------------


async def generated() -> AsyncIterator[str]:
    for word in WORDS:
        await asyncio.sleep(0)
        yield word


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScriptTextPipe(WORDS, gap=0.01),
        lambda: ScriptTextPipe(TEXT, ttft=0.5, stalls={2: 1.0}),
        generated,
    ],
)
def test_our_text_pipes_conform(make: Callable[[], Any]) -> None:
    failing = lambda: ScriptTextPipe(WORDS, fail_at=(2, "the model is gone"))  # noqa: E731
    check_text_pipe(make, text=TEXT, failing=failing, run=virtual)
    check_text_pipe(make, text=TEXT, run=virtual)


def test_a_script_makes_a_token_when_it_is_asked() -> None:
    check_text_pipe(lambda: ScriptTextPipe(WORDS), text=TEXT, made=lambda pipe: pipe._index, run=virtual)


async def album() -> AsyncIterator[EncodedImage | ImageFailure]:
    yield image("a")
    yield ImageFailure("b", "truncated")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScriptImagePipe([image("a"), (image("b"), 2.0), ImageFailure("c", "truncated")]),
        lambda: ScriptImagePipe([]),
        lambda: PlannedScriptImagePipe([image("a"), (image("b"), 0.5), ImageFailure("c", "not_found")]),
        lambda: PlannedScriptImagePipe([image("a", "k")], products=[Product("k", "Halo Kettle")]),
        album,
    ],
)
def test_our_scripted_image_pipes_conform(make: Callable[[], Any]) -> None:
    failing = lambda: ScriptImagePipe([image("a")], fail_after=(1, "the disk is gone"))  # noqa: E731
    check_image_pipe(make, failing=failing, run=virtual)


def test_folders_and_catalogues_conform() -> None:
    check_image_pipe(lambda: FolderImagePipe(samples("kettle")))


def test_a_catalogue_conforms_with_its_broken_rows(tmp_path: Path) -> None:
    source = next(Path(samples("kettle")).glob("*.jpg"))
    (tmp_path / "one.jpg").write_bytes(source.read_bytes())
    (tmp_path / "broken.jpg").write_bytes(source.read_bytes()[:300])
    rows = "id,title,image\nkettle,Halo Kettle,one.jpg\nmug,Moss Mug,broken.jpg\nlamp,Ember Lamp,gone.jpg\nvase,Vase,\n"
    (tmp_path / "shop.csv").write_text(rows, encoding="utf-8")
    check_image_pipe(lambda: CatalogImagePipe(tmp_path / "shop.csv"))


async def interleaved() -> AsyncIterator[str | EncodedImage]:
    for word in WORDS:
        yield word
    yield image("a")


def test_the_text_of_an_interleaved_stream_conforms() -> None:
    check_text_pipe(lambda: split_interleaved(interleaved()).text, text=TEXT, run=virtual)


# ---- broken text pipes -----------------------------------------------------------------------------------------------


class Words:
    """A text pipe to break: subclasses change one thing."""

    token_unit = "word"

    def __init__(self) -> None:
        self.left: list[Any] = [Token(word) for word in WORDS]
        self.closed = False

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        if self.closed or not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)

    async def aclose(self) -> None:
        self.closed = True


class GivesBytes(Words):
    async def __anext__(self) -> Any:
        return (await super().__anext__()).text.encode()


class HalfASurrogate(Words):
    def __init__(self) -> None:
        super().__init__()
        self.left = ["a ", "\ud83d"]


class LosesAToken(Words):
    def __init__(self) -> None:
        super().__init__()
        del self.left[1]


class GoesOnAfterItsEnd(Words):
    async def __anext__(self) -> Any:
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            self.left = [Token(word) for word in WORDS]
            raise


class DropsWhileNobodyPulls(Words):
    """A queue of one place that throws away what does not fit: it is filled by a clock, not by pulls."""

    at: float | None = None

    async def __anext__(self) -> Any:
        now = asyncio.get_running_loop().time()
        if self.at is not None and now - self.at > 0.05:
            del self.left[:1]
        self.at = now
        return await super().__anext__()


class MakesAhead(Words):
    made = 0

    async def __anext__(self) -> Any:
        self.made = len(WORDS)
        return await super().__anext__()


class EndsWhereItFails(Words):
    async def __anext__(self) -> Any:
        if len(self.left) < 3:
            raise StopAsyncIteration
        return await super().__anext__()


class Hangs(Words):
    async def __anext__(self) -> Any:
        if len(self.left) < 3:
            await asyncio.Event().wait()
        return await super().__anext__()


class RaisesOnClosing(Words):
    async def aclose(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class SpeaksAfterClosing(Words):
    async def aclose(self) -> None:
        return None


class WrapsCancellation(Words):
    async def __anext__(self) -> Any:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError as error:
            raise PipeError("stopped") from error
        return await super().__anext__()


class LeavesATask(Words):
    async def __anext__(self) -> Any:
        self.task = asyncio.ensure_future(asyncio.sleep(3600))
        return await super().__anext__()


class PlaysTwice(Words):
    def __aiter__(self) -> Any:
        self.left = self.left or [Token(word) for word in WORDS]
        return self


class OddUnit(Words):
    token_unit = "syllable"


class LastInTheMiddle(Words):
    def __init__(self) -> None:
        super().__init__()
        self.left[1] = Token(WORDS[1], last=True)


class AwaitsTheMarks(Words):
    async def sync_every(self, tokens: int) -> None:
        await asyncio.sleep(0)


class RefusesTheMarks(Words):
    def sync_every(self, tokens: int) -> None:
        raise ValueError(tokens)


class LosesTextAtAMark(Words):
    def sync_every(self, tokens: int) -> None:
        del self.left[tokens - 1]


class NoIterator:
    pass


@pytest.mark.parametrize(
    ("broken", "rule", "told"),
    [
        (NoIterator, "T1", "has no __aiter__ and __anext__; give an async iterator"),
        (GivesBytes, "T1", "it gave bytes; give Token or str"),
        (HalfASurrogate, "T1", "holds half of a surrogate pair"),
        (LosesAToken, "T1", "it said 'Meet Halo Kettle.' in place of 'Meet the Halo Kettle.'"),
        (GoesOnAfterItsEnd, "T1", "pulled again after its end it gave Token"),
        (DropsWhileNobodyPulls, "T2", "pulled with a pause it said 'Meet the Kettle.'"),
        (MakesAhead, "T2", "after 2 pulls and 0.1 s it had made 4 tokens"),
        (Hangs, "T3", "nothing came for 2 s after 2 items"),
        (RaisesOnClosing, "T4", "aclose() raised RuntimeError"),
        (SpeaksAfterClosing, "T4", "pulled after aclose() it gave Token"),
        (WrapsCancellation, "T4", "a cancelled pull raised PipeError"),
        (LeavesATask, "T4", "tasks still run"),
        (OddUnit, "T5", "token_unit is 'syllable'; say one of delta, token, word"),
        (LastInTheMiddle, "T6", "follows a token that said last=True"),
        (PlaysTwice, "T7", "iterated anew it gave Token"),
        (AwaitsTheMarks, "T8", "sync_every() has to be awaited"),
        (RefusesTheMarks, "T8", "sync_every(2) raised ValueError(2)"),
        (LosesTextAtAMark, "T8", "told of the sync marks it said 'Meet Halo Kettle.'"),
    ],
)
def test_a_broken_text_pipe_is_caught_by_its_rule(broken: type[Any], rule: str, told: str) -> None:
    made = (lambda pipe: int(pipe.made)) if broken is MakesAhead else None
    text = None if broken is HalfASurrogate else TEXT
    with pytest.raises(SyncError) as caught:
        check_text_pipe(broken, text=text, made=made, limit=2, run=virtual)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the text pipe breaks its contract:"
    (line,) = [line for line in lines if line.startswith(f"  {rule}: ")]
    assert told in line
    assert "; " in line


def test_a_pipe_that_has_to_fail_must_not_end_quietly() -> None:
    with pytest.raises(SyncError, match="T3: the pipe that has to fail ended as if it were complete; raise"):
        check_text_pipe(Words, failing=EndsWhereItFails, run=virtual)
    with pytest.raises(SyncError, match="T3: the pipe that has to fail gave nothing for 1 s"):
        check_text_pipe(Words, failing=Hangs, limit=1, run=virtual)


# ---- broken image pipes ----------------------------------------------------------------------------------------------


class Album:
    """An image pipe with everything, to break: subclasses change one thing."""

    products: Sequence[Product] = (Product("k", "Halo Kettle"),)

    def __init__(self) -> None:
        self.held: dict[str, Any] = {key: image(key, "k") for key in "abc"}
        self.due: list[str] | None = None
        self.final = self.closed = False
        self.changed = asyncio.Event()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        if self.due is None:
            self.due, self.final = list(self.held), True
        while not self.closed:
            if self.due:
                return self.give(self.due.pop(0))
            if self.final:
                break
            self.changed.clear()
            await self.changed.wait()
        raise StopAsyncIteration

    def give(self, key: str) -> Any:
        return self.held.get(key) or ImageFailure(key, "unknown_key")

    def keys(self) -> Any:
        return list(self.held)

    def want(self, keys: Sequence[str], *, final: bool = False) -> Any:
        self.due = [*(self.due or ()), *keys]
        self.final = self.final or final
        self.changed.set()

    async def describe(self, keys: Sequence[str]) -> Any:
        return [Asset(key, "k", 8, 6, f"picture {key}") for key in keys if key in self.held]

    async def aclose(self) -> None:
        self.closed = True
        self.changed.set()


class Twice(Album):
    def want(self, keys: Sequence[str], *, final: bool = False) -> Any:
        super().want(keys, final=final)

    async def __anext__(self) -> Any:
        item = await super().__anext__()
        if item.key == "a" and not hasattr(self, "again") and self.due is not None and self.final:
            self.again = True
            self.due.append("a")
        return item


class SizeZero(Album):
    def give(self, key: str) -> Any:
        return EncodedImage(key, b"x", "image/webp", 0, 3, product="k", alt=f"picture {key}")


class GivesNone(Album):
    def give(self, key: str) -> Any:
        return super().give(key) if key in "ab" else None


class RaisesForOne(Album):
    def give(self, key: str) -> Any:
        if key not in self.held:
            raise KeyError(key)
        return super().give(key)


class NeverEnds(Album):
    async def __anext__(self) -> Any:
        if self.due == [] and self.final:
            await asyncio.Event().wait()
        return await super().__anext__()


class KeysOnce(Album):
    def keys(self) -> Any:
        return ["a", "b"]


class KeysAwaited(Album):
    async def keys(self) -> Any:
        return list(self.held)


class WantAwaited(Album):
    async def want(self, keys: Sequence[str], *, final: bool = False) -> Any:
        super().want(keys, final=final)


class Unasked(Album):
    def want(self, keys: Sequence[str], *, final: bool = False) -> Any:
        super().want([*keys, "c"], final=final)


class EndsUnasked(Album):
    def want(self, keys: Sequence[str], *, final: bool = False) -> Any:
        super().want(keys, final=True)


class ForgetsUnknown(Album):
    def want(self, keys: Sequence[str], *, final: bool = False) -> Any:
        super().want([key for key in keys if key in self.held], final=final)


class InventsPictures(Album):
    def give(self, key: str) -> Any:
        return image(key, "k")


class NeverWoken(Album):
    def want(self, keys: Sequence[str], *, final: bool = False) -> Any:
        self.due = [*(self.due or ()), *keys]
        self.final = self.final or final


class OtherShape(Album):
    async def describe(self, keys: Sequence[str]) -> Any:
        return [Asset(key, "k", 6, 8, f"picture {key}") for key in keys if key in self.held]


class OtherText(Album):
    async def describe(self, keys: Sequence[str]) -> Any:
        return [Asset(key, "k", 8, 6, "a mug") for key in keys if key in self.held]


class DescribesAnything(Album):
    async def describe(self, keys: Sequence[str]) -> Any:
        return [Asset(key, "k", 8, 6, f"picture {key}") for key in keys]


class CannotDescribe(Album):
    async def describe(self, keys: Sequence[str]) -> Any:
        return [Asset(self.held[key].key, "k", 8, 6, f"picture {key}") for key in keys]


class OtherProduct(Album):
    products = (Product("m", "Moss Mug"),)


class ShownTwice(Album):
    def __aiter__(self) -> Any:
        self.due = None
        return self


class ShowsAfterClosing(Album):
    async def aclose(self) -> None:
        return None


class CloseHangs(Album):
    async def aclose(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("broken", "rule", "told"),
    [
        (NoIterator, "I1", "has no __aiter__ and __anext__"),
        (Twice, "I1", "the key 'a' came twice"),
        (SizeZero, "I1", "'a' is 0 x 3 pixels"),
        (GivesNone, "I2", "it gave NoneType; give EncodedImage, and ImageFailure"),
        (RaisesForOne, "I2", "it raised KeyError"),
        (NeverEnds, "I3", "nothing came for 2 s after 3 items"),
        (KeysOnce, "I4", "keys() and what came differ by 'c'"),
        (KeysAwaited, "I4", "keys() gave coroutine"),
        (WantAwaited, "I5", "want() has to be awaited"),
        (Unasked, "I5", "it went on, or ended, before want() said final=True"),
        (EndsUnasked, "I5", "before want() said final=True"),
        (ForgetsUnknown, "I5", "was not yielded within 2 s"),
        (InventsPictures, "I5", "it gave a picture for a key that it does not hold"),
        (NeverWoken, "I5", "a pull that waited was not served"),
        (OtherShape, "I6", "was described as 6 x 8, came as 4 x 3"),
        (OtherText, "I6", "was described as 'k', 'a mug' and came as 'k', 'picture a'"),
        (DescribesAnything, "I6", "asked for 4 keys it described"),
        (CannotDescribe, "I6", "describe() raised KeyError"),
        (OtherProduct, "I7", "'a' shows 'k', which is none of its products"),
        (ShowsAfterClosing, "I8", "pulled after aclose() it gave EncodedImage"),
        (CloseHangs, "I8", "aclose() took more than 2 s"),
        (ShownTwice, "I9", "iterated anew it gave EncodedImage"),
    ],
)
def test_a_broken_image_pipe_is_caught_by_its_rule(broken: type[Any], rule: str, told: str) -> None:
    with pytest.raises(SyncError) as caught:
        check_image_pipe(broken, limit=2, run=virtual)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the image pipe breaks its contract:"
    (line,) = [line for line in lines if line.startswith(f"  {rule}: ")]
    assert told in line


def test_the_pipes_to_break_are_whole() -> None:
    check_text_pipe(Words, text=TEXT, run=virtual)
    with VirtualClock() as clock:
        check_image_pipe(Album, run=clock.run)


def test_an_image_pipe_that_has_to_fail_must_not_end_quietly() -> None:
    with pytest.raises(SyncError, match="I3: the pipe that has to fail ended"):
        check_image_pipe(album, failing=album, run=virtual)
