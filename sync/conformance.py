"""Whether a pipe or a link of one's own keeps its contract: checks to call from a test, numbered as the contracts are.

    def test_my_pipe():
        check_text_pipe(lambda: MyPipe("prompt"), text="what it says")

Each plays what it is given several times over on an event loop of its own, and raises one `SyncError` that lists every
rule that was broken: its number, what was seen, what to do. T1-T8, T10 and I1-I9 stand at the head of
`multimodal.pipes.base`, L1-L4 and the errors of a link at that of `multimodal.transport.base`. What is checked is duck
typing: nothing has to inherit from anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from inspect import isawaitable
from typing import Any

from multimodal.sync.findings import (
    QUIET,
    Findings,
    TookTooLongError,
    check_closed,
    check_ended,
    close,
    in_time,
    made_by,
    nothing_left,
    pulled,
)
from multimodal.sync.link_conformance import check_link_pair
from multimodal.values import Asset, EncodedImage, ImageFailure, Token

__all__ = ["Run", "check_image_pipe", "check_text_pipe", "check_transport"]

Run = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine to its end: `asyncio.run`, or `run` of a `VirtualClock` for scripted pipes."""

AT_ONCE = 0.25
"""Seconds that a call may take which has to return at once: it must not wait for a picture or a network."""
UNKNOWN = "no such picture, asked for by a conformance check"
MARKS_EVERY = 2
"""Tokens between two sync marks, of which a pipe is told."""
UNITS = frozenset({"word", "delta", "token"})


# ---- text ------------------------------------------------------------------------------------------------------------


def check_text_pipe(
    make: Callable[[], Any],
    *,
    text: str | None = None,
    made: Callable[[Any], int] | None = None,
    failing: Callable[[], Any] | None = None,
    limit: float = 10.0,
    run: Run = asyncio.run,
) -> None:
    """T1-T8 of a text pipe, and that `cut` is what T10 says.

    Args:
        make: gives a fresh pipe, or an awaitable of one; called in the loop, several times. It must play to its end.
        text: the whole narration, where it is known: then nothing may be lost while nobody pulls (T2).
        made: how many tokens a pipe has made so far: then it is checked that it stops when it is not asked (T2).
        failing: gives a pipe that has to fail: then it is checked that it does so out of the iteration (T3).
        limit: seconds that any one token may take.
        run: what runs the check.

    Raises:
        SyncError: a rule is broken.
    """
    found = Findings("the text pipe")

    async def check() -> None:
        async with nothing_left(found, "T4"):
            pipe = await made_by(make)
            if not hasattr(pipe, "__aiter__") or not hasattr(type(pipe), "__anext__"):
                seen = f"{type(pipe).__name__} has no __aiter__ and __anext__"
                return found.add("T1", seen, "give an async iterator: an async generator is one")
            await _whole_text(pipe, found, text, limit)
            await _paused_text(await made_by(make), found, text, made, limit)
            await _marked_text(await made_by(make), found, text, limit)
            await check_closed(make, found, "T4", limit)
            if failing is not None:
                await _failing(await made_by(failing), found, limit)

    run(check())
    found.settle()


async def _whole_text(pipe: Any, found: Findings, text: str | None, limit: float) -> None:
    unit = getattr(pipe, "token_unit", None)
    if unit is not None and unit not in UNITS:
        found.add("T5", f"token_unit is {unit!r}", f"say one of {', '.join(sorted(UNITS))}, or leave it out")
    spoken, last = "", False
    async for item in pulled(pipe, found, "T3", limit):
        if last:
            found.add("T6", f"{item!r} follows a token that said last=True", "say it of the last token only")
        word = item.text if isinstance(item, Token) else item
        if not isinstance(word, str):
            found.add("T1", f"it gave {type(item).__name__}", "give Token or str, one item for each token")
            continue
        try:
            word.encode()
        except UnicodeEncodeError:
            found.add("T1", f"{word!r} holds half of a surrogate pair", "join the halves: no wire can carry one")
        spoken += word
        last = isinstance(item, Token) and item.last
    if text is not None and spoken != text:
        found.add("T1", f"it said {spoken[:60]!r} in place of {text[:60]!r}", "give every token once, unchanged")
    if not isinstance(cut := getattr(pipe, "cut", False), bool):
        found.add("T10", f"cut is {cut!r} at its end", "make it a bool: True where a limit or a filter ended the text")
    await check_ended(pipe, found, "T1", limit, "T7")


async def _paused_text(
    pipe: Any, found: Findings, text: str | None, made: Callable[[Any], int] | None, limit: float
) -> None:
    """Pull two tokens, wait, pull the rest: what was made meanwhile is not lost, and little of it was made."""
    items: list[Any] = []
    pulls = pulled(pipe, found, "T3", limit)
    async for item in pulls:
        items.append(item)
        if len(items) == 2:
            await asyncio.sleep(QUIET)
            if made is not None and made(pipe) > len(items) + 1:
                seen = f"after 2 pulls and {QUIET:g} s it had made {made(pipe)} tokens"
                found.add("T2", seen, "make the next token when it is asked for, so that a slow viewer slows the model")
    spoken = "".join(item.text if isinstance(item, Token) else str(item) for item in items)
    if text is not None and spoken != text and not found.has("T1"):
        seen = f"pulled with a pause it said {spoken[:60]!r} in place of {text[:60]!r}"
        found.add("T2", seen, "keep what was not pulled yet: a bounded queue must wait, not drop")


async def _marked_text(pipe: Any, found: Findings, text: str | None, limit: float) -> None:
    """Told of the sync marks before the first pull, it says what it says without them."""
    if not hasattr(pipe, "sync_every"):
        return
    try:
        answer = pipe.sync_every(MARKS_EVERY)
    except Exception as error:
        found.add("T8", f"sync_every({MARKS_EVERY}) raised {error!r}", "take any number of tokens from 1 on")
        return await close(pipe, found, "T4", limit)
    if isawaitable(answer):
        if isinstance(answer, Coroutine):
            answer.close()
        found.add("T8", "sync_every() has to be awaited", "make it a plain method that notes the number and returns")
        return await close(pipe, found, "T4", limit)
    spoken = ""
    async for item in pulled(pipe, found, "T3", limit):
        spoken += item.text if isinstance(item, Token) else str(item)
    if text is not None and spoken != text and not found.has("T1"):
        seen = f"told of the sync marks it said {spoken[:60]!r} in place of {text[:60]!r}"
        found.add("T8", seen, "let held tokens go at a mark, all of them, in their order")


async def _failing(pipe: Any, found: Findings, limit: float) -> None:
    try:
        while True:
            await in_time(pipe.__anext__(), limit)
    except StopAsyncIteration:
        seen = "the pipe that has to fail ended as if it were complete"
        found.add("T3", seen, "raise out of __anext__, best a PipeError that says whether trying again may help")
    except TookTooLongError:
        found.add("T3", f"the pipe that has to fail gave nothing for {limit:g} s", "raise instead of waiting for ever")
    except Exception:
        return await check_ended(pipe, found, "T3", limit)
    finally:
        await close(pipe, found, "T4", limit)


# ---- pictures --------------------------------------------------------------------------------------------------------


def check_image_pipe(
    make: Callable[[], Any],
    *,
    failing: Callable[[], Any] | None = None,
    limit: float = 10.0,
    run: Run = asyncio.run,
) -> None:
    """I1-I9 of an image pipe; what it does not have (`keys`, `want`, `describe`, `products`) is not asked of it.

    Args:
        make: gives a fresh pipe, or an awaitable of one; called in the loop, several times. It must end by itself.
        failing: gives a pipe that has to fail as a whole: then it is checked that it raises (I3).
        limit: seconds that any one picture may take.
        run: what runs the check.

    Raises:
        SyncError: a rule is broken.
    """
    found = Findings("the image pipe")

    async def check() -> None:
        async with nothing_left(found, "I8"):
            pipe = await made_by(make)
            if not hasattr(pipe, "__aiter__") or not hasattr(type(pipe), "__anext__"):
                seen = f"{type(pipe).__name__} has no __aiter__ and __anext__"
                return found.add("I1", seen, "give an async iterator: an async generator is one")
            images = await _whole_album(pipe, found, limit)
            if hasattr(pipe, "want"):
                await _wanted(make, found, list(images), limit)
            await check_closed(make, found, "I8", limit)
            if failing is not None:
                await _broken_album(await made_by(failing), found, limit)

    run(check())
    found.settle()


async def _whole_album(pipe: Any, found: Findings, limit: float) -> dict[str, EncodedImage | ImageFailure]:
    """Pull everything, unasked: what it holds, what it told before, and whether both agree."""
    keys = _keys(pipe, found)
    products = {product.id for product in getattr(pipe, "products", ()) or ()}
    told = await _described(pipe, found, keys or [], limit)
    images: dict[str, EncodedImage | ImageFailure] = {}
    async for item in pulled(pipe, found, "I3", limit):
        if not isinstance(item, EncodedImage | ImageFailure):
            seen = f"it gave {type(item).__name__}"
            found.add(
                "I2", seen, "give EncodedImage, and ImageFailure with the reason for a picture that will not come"
            )
            continue
        if item.key in images:
            found.add("I1", f"the key {item.key!r} came twice", "give each picture once, or its failure, not both")
        images[item.key] = item
        if isinstance(item, EncodedImage):
            _compare(item, told.get(item.key), products, found)
    await check_ended(pipe, found, "I3", limit, "I9")
    if keys is not None and (odd := set(images) ^ set(keys)):
        seen = f"keys() and what came differ by {', '.join(sorted(map(repr, odd)))}"
        found.add("I4", seen, "list in keys() what it holds, no more and no less; a picture that fails is a failure")
    return images


def _keys(pipe: Any, found: Findings) -> list[str] | None:
    if not hasattr(pipe, "keys"):
        return None
    keys = pipe.keys()
    if isawaitable(keys) or not isinstance(keys, Sequence) or isinstance(keys, str):
        if isinstance(keys, Coroutine):
            keys.close()
        found.add("I4", f"keys() gave {type(keys).__name__}", "give a list of str, before any byte is read; not async")
        return None
    if len(set(keys)) < len(keys):
        found.add("I4", "keys() lists a key twice", "list each picture once")
    return list(keys)


async def _described(pipe: Any, found: Findings, keys: list[str], limit: float) -> dict[str, Asset]:
    if not hasattr(pipe, "describe"):
        return {}
    asked = [*keys, UNKNOWN]
    try:
        assets = list(await in_time(pipe.describe(asked), limit))
    except Exception as error:
        found.add("I6", f"describe() raised {error!r}", "leave out what it cannot describe, an unknown key for one")
        return {}
    if odd := [asset for asset in assets if not isinstance(asset, Asset)]:
        found.add("I6", f"describe() gave {type(odd[0]).__name__}", "give Asset: size, alternative text, preview")
        return {}
    told = {asset.key: asset for asset in assets}
    if UNKNOWN in told or told.keys() - set(asked) or len(told) < len(assets):
        found.add(
            "I6", f"asked for {len(asked)} keys it described {list(told)}", "describe what was asked and is known"
        )
    return told


def _compare(image: EncodedImage, told: Asset | None, products: set[str], found: Findings) -> None:
    if image.width_px <= 0 or image.height_px <= 0:
        size = f"{image.width_px} x {image.height_px}"
        found.add("I1", f"{image.key!r} is {size} pixels", "say its size, so that the slot can be reserved")
    if products and image.product not in {*products, ""}:
        seen = f"{image.key!r} shows {image.product!r}, which is none of its products"
        found.add("I7", seen, "use the product's id in EncodedImage.product")
    if told is None:
        return
    if (told.product, told.alt) != (image.product, image.alt):
        was, came = f"{told.product!r}, {told.alt!r}", f"{image.product!r}, {image.alt!r}"
        seen = f"{image.key!r} was described as {was} and came as {came}"
        found.add("I6", seen, "describe the picture that will come")
    if told.width_px and told.height_px and image.width_px > 0 and image.height_px > 0:
        stretch = told.width_px * image.height_px / (told.height_px * image.width_px)
        # A pixel of rounding at either side is no other shape.
        if abs(stretch - 1) > 0.02 + 1 / min(image.width_px, image.height_px):
            shapes = f"{told.width_px} x {told.height_px}, came as {image.width_px} x {image.height_px}"
            found.add(
                "I6", f"{image.key!r} was described as {shapes}", "tell the shape of what will come: the page jumps"
            )


async def _wanted(make: Callable[[], Any], found: Findings, keys: list[str], limit: float) -> None:
    """The plan drives it: nothing unasked, asked for keys stay asked for, an unknown one fails, `final` ends it."""
    pipe = await made_by(make)
    loop = asyncio.get_running_loop()
    first, rest = keys[:1], keys[1:2]
    begun = loop.time()
    answer = pipe.want([*first, UNKNOWN])
    if isawaitable(answer):
        if isinstance(answer, Coroutine):
            answer.close()
        return found.add("I5", "want() has to be awaited", "make it a plain method that notes the keys and returns")
    if loop.time() - begun > AT_ONCE:
        found.add("I5", f"want() took {loop.time() - begun:.2f} s", "only note the keys; prepare them elsewhere")
    got: dict[str, Any] = {}
    for _ in range(len(first) + 1):
        await _pull_into(got, pipe, found, limit)
    if set(got) != {*first, UNKNOWN}:
        seen = f"wanted {[*first, UNKNOWN]}, it gave {list(got)}"
        found.add(
            "I5", seen, "prepare what is wanted, nothing else; yield ImageFailure for a key that it does not hold"
        )
    elif not isinstance(got[UNKNOWN], ImageFailure):
        found.add("I5", "it gave a picture for a key that it does not hold", "yield ImageFailure for it")
    if found.has("I5"):
        return await close(pipe, found, "I8", limit)
    more = asyncio.ensure_future(pipe.__anext__())
    await asyncio.wait([more], timeout=QUIET)
    if more.done():
        seen = "it went on, or ended, before want() said final=True"
        found.add("I5", seen, "wait for more keys; the plan may still grow")
        more.exception()
    else:
        pipe.want(rest, final=True)
        await asyncio.wait([more], timeout=limit)
        if not more.done():
            more.cancel()
            found.add("I5", f"a pull that waited was not served after want({rest}, final=True)", "wake it")
        elif rest and (more.exception() or getattr(more.result(), "key", None) not in rest):
            found.add("I5", f"after want({rest}) it gave something else", "give what is wanted")
        elif not rest and not isinstance(more.exception(), StopAsyncIteration):
            found.add("I5", "it gave more than was ever wanted", "end when every wanted key was yielded")
        if rest and not found.has("I5"):
            await check_ended(pipe, found, "I5", limit)
    await close(pipe, found, "I8", limit)


async def _pull_into(got: dict[str, Any], pipe: Any, found: Findings, limit: float) -> None:
    try:
        item = await in_time(pipe.__anext__(), limit)
    except StopAsyncIteration:
        found.add("I5", "it ended before want() said final=True", "wait for more keys; the plan may still grow")
    except TookTooLongError:
        found.add("I5", f"a wanted key was not yielded within {limit:g} s", "yield each, as a picture or as a failure")
    except Exception as error:
        found.add("I2", f"it raised {error!r} for one picture", "yield ImageFailure for it, and go on with the rest")
    else:
        got[getattr(item, "key", "")] = item


async def _broken_album(pipe: Any, found: Findings, limit: float) -> None:
    try:
        while True:
            await in_time(pipe.__anext__(), limit)
    except StopAsyncIteration:
        found.add("I3", "the pipe that has to fail ended as if it were complete", "raise out of __anext__")
    except TookTooLongError:
        found.add("I3", f"the pipe that has to fail gave nothing for {limit:g} s", "raise instead of waiting for ever")
    except Exception:
        return
    finally:
        await close(pipe, found, "I8", limit)


# ---- links -----------------------------------------------------------------------------------------------------------


def check_transport(
    make_link_pair: Callable[[], Any],
    *,
    flood_bytes: int = 8 * 1024 * 1024,
    limit: float = 10.0,
    run: Run = asyncio.run,
) -> None:
    """L1-L4 of a link, its size limit, its opening and its closing.

    Args:
        make_link_pair: gives (the server's end, the viewer's end) of a fresh road, or an awaitable of both; called in
            the loop, several times.
        flood_bytes: what is sent while nobody reads (L3); more than an inbox may hold. 0 = leave that out.
        limit: seconds that opening, any one message, or closing may take.
        run: what runs the check.

    Raises:
        SyncError: a rule is broken.
    """
    findings: list[Findings] = []

    async def check() -> None:
        findings.append(await check_link_pair(make_link_pair, flood_bytes, limit))

    run(check())
    findings[0].settle()
