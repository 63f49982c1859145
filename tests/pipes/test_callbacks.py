"""Callbacks: who holds them, where they run, what a slow or raising one costs, and what is left of 10,000 sessions."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.callback_holding import HOLDS
from multimodal.pipes.callbacks import Callbacks, StageChange, Update
from multimodal.pipes.callbacks_sweep import churn
from tests.support import run

ANSWER = StageChange("answer", "greeting", 8)
WAIT = 30.0


def update(number: int) -> Update:
    return Update(number, 1, f"word {number} ")


def workers() -> int:
    return sum(thread.name == "multimodal callbacks" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "multimodal callbacks":
            thread.join(WAIT)
    assert workers() == 0


class Screen:
    """An application's object."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def show(self, event: object) -> None:
        self.seen.append(event)

    def show_as(self, how: str, event: object) -> None:
        self.seen.append((how, event))


def refers_to(screen: Screen) -> Callable[[object], None]:
    return lambda event: screen.show(event)


def told(callbacks: Callbacks, *events: StageChange | Update) -> None:
    for event in events or (ANSWER,):
        callbacks.emit(event)
    assert callbacks.drain(WAIT)


# ---- events and order


def test_each_hears_the_events_it_registered_for_in_order() -> None:
    callbacks = Callbacks()
    stages: list[object] = []
    updates: list[object] = []
    callbacks.register("stage_change", stages.append)
    callbacks.register("update", updates.append)
    told(callbacks, update(0), ANSWER, update(1), update(2))
    assert stages == [ANSWER]
    assert updates == [update(0), update(1), update(2)]
    assert callbacks.stats().delivered == 4


def test_nobody_registered_costs_nothing() -> None:
    callbacks = Callbacks()
    callbacks.emit(ANSWER)
    assert callbacks.drain(0)
    assert workers() == 0


def test_a_handle_ends_it_and_so_does_its_block() -> None:
    callbacks = Callbacks()
    seen: list[object] = []
    handle = callbacks.register("update", seen.append)
    told(callbacks, update(0))
    assert handle.alive
    handle.remove()
    handle.remove()
    assert not handle.alive
    with callbacks.register("update", seen.append):
        told(callbacks, update(1))
    told(callbacks, update(2))
    assert seen == [update(0), update(1)]
    assert callbacks.stats().registered == 0


def test_the_same_function_twice_is_called_twice() -> None:
    callbacks = Callbacks()
    seen: list[object] = []
    first = callbacks.register("update", seen.append)
    callbacks.register("update", seen.append)
    told(callbacks, update(0))
    first.remove()
    told(callbacks, update(1))
    assert seen == [update(0), update(0), update(1)]


def test_wrong_registrations_are_refused() -> None:
    callbacks = Callbacks()

    async def on_loop(event: object) -> None: ...

    with pytest.raises(UsageError, match="'stage' is unknown; register for one of stage_change, update"):
        callbacks.register("stage", print)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is a int; give something that can be called"):
        callbacks.register("update", 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no event loop runs here"):
        callbacks.register("update", on_loop)
    with pytest.raises(UsageError, match="owner is a list"):
        callbacks.register("update", print, owner=[])
    with pytest.raises(UsageError, match="capacity=0"):
        Callbacks(capacity=0)
    callbacks.close()
    callbacks.close()
    with pytest.raises(UsageError, match="closed"):
        callbacks.register("update", print)
    assert callbacks.stats().registered == 0


# ---- who holds it


def test_a_lambda_registered_inline_is_not_dead_at_once() -> None:
    callbacks = Callbacks()
    seen: list[object] = []
    callbacks.register("update", lambda event: seen.append(event))
    gc.collect()
    told(callbacks, update(0))
    assert seen == [update(0)]


@pytest.mark.parametrize("partial", [False, True])
def test_a_bound_method_goes_with_its_object_and_lives_as_long(partial: bool) -> None:
    callbacks = Callbacks()
    screen = Screen()
    handle = callbacks.register("update", functools.partial(screen.show_as, "large") if partial else screen.show)
    gc.collect()
    told(callbacks, update(0))
    assert screen.seen == [("large", update(0)) if partial else update(0)]
    gone = weakref.ref(screen)
    del screen
    assert gone() is None  # at once, without a collection: nothing of ours refers to it
    assert not handle.alive
    told(callbacks, update(1))
    stats = callbacks.stats()
    assert (stats.registered, stats.delivered, stats.expired) == (0, 1, 1)


def test_a_partial_keeps_the_order_of_its_arguments() -> None:
    class Deep(Screen):
        def note(self, *args: object, **named: object) -> None:
            self.seen.append((args, named))

    deep, callbacks = Deep(), Callbacks()
    callbacks.register("update", functools.partial(functools.partial(deep.note, 1, a=1, b=1), 2, b=2))
    told(callbacks, update(0))
    assert deep.seen == [((1, 2, update(0)), {"a": 1, "b": 2})]


def test_an_owner_holds_even_what_refers_to_it() -> None:
    callbacks = Callbacks()
    screen = Screen()
    callbacks.register("update", refers_to(screen), owner=screen)
    callbacks.register("update", screen.seen.append, owner=screen)
    gc.collect()
    told(callbacks, update(0))
    assert screen.seen == [update(0), update(0)]
    gone = weakref.ref(screen)
    del screen
    gc.collect()
    assert gone() is None
    told(callbacks, update(1))
    assert callbacks.stats().registered == 0


def test_what_an_owner_registered_goes_in_one_call() -> None:
    callbacks = Callbacks()
    screen, other = Screen(), Screen()
    callbacks.register("update", screen.show)
    callbacks.register("stage_change", lambda event: None, owner=screen)
    callbacks.register("update", other.show)
    assert callbacks.remove(screen) == 2
    assert vars(screen)[HOLDS] == []
    told(callbacks, update(0))
    assert (screen.seen, other.seen) == ([], [update(0)])


@pytest.mark.parametrize("close", [False, True])
def test_an_owner_that_outlives_its_streams_keeps_nothing_of_them(close: bool) -> None:
    app = Screen()
    for number in range(20):
        callbacks = Callbacks()
        callbacks.register("update", lambda event: None, owner=app)
        if number % 2:
            told(callbacks, update(0))
        if close:
            callbacks.close()
    callbacks = Callbacks()
    for thread in threading.enumerate():
        if thread.name == "multimodal callbacks":
            thread.join(WAIT)
    gc.collect()
    assert vars(app)[HOLDS] == []


def test_an_object_that_cannot_be_referred_to_weakly_is_held() -> None:
    class Bare:
        __slots__ = ("count",)

        def __init__(self) -> None:
            self.count = 0

        def add(self, event: object) -> None:
            self.count += 1

    callbacks = Callbacks()
    bare = Bare()
    callbacks.register("update", bare.add)
    told(callbacks)
    told(callbacks, update(0))
    assert bare.count == 1


# ---- isolation


def test_one_that_raises_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    callbacks = Callbacks()
    seen: list[object] = []

    def fails(event: object) -> None:
        raise SystemExit("no")

    callbacks.register("update", fails)
    callbacks.register("update", seen.append)
    with caplog.at_level(logging.WARNING):
        told(callbacks, *map(update, range(5)))
    assert seen == [update(number) for number in range(5)]
    assert (callbacks.stats().failures, callbacks.stats().delivered) == (5, 5)
    (record,) = caplog.records
    assert "fails for 'update' failed" in record.getMessage()


def test_a_plain_function_that_returns_a_coroutine_is_a_failure() -> None:
    callbacks = Callbacks()

    async def on_loop(event: object) -> None: ...

    callbacks.register("update", lambda event: on_loop(event))
    told(callbacks, update(0))
    assert callbacks.stats().failures == 1


def test_one_that_blocks_holds_up_nobody_who_emits_and_loses_only_its_own() -> None:
    callbacks = Callbacks(capacity=4)
    goes_on, begun = threading.Event(), threading.Event()
    seen: list[int] = []

    def blocks(event: Update) -> None:
        begun.set()
        assert goes_on.wait(WAIT)
        seen.append(event.token_index)

    callbacks.register("update", blocks)
    callbacks.emit(update(0))
    assert begun.wait(WAIT)
    for number in range(1, 100):
        callbacks.emit(update(number))  # from here: were one of them to call or to wait, the test would hang
    assert not callbacks.drain(0)
    assert callbacks.stats().dropped == 95
    goes_on.set()
    assert callbacks.drain(WAIT)
    assert seen == [0, 96, 97, 98, 99]


def test_what_was_emitted_before_close_is_delivered_and_what_waits_at_remove_is_not() -> None:
    callbacks = Callbacks()
    goes_on, begun = threading.Event(), threading.Event()
    removed: list[object] = []
    kept: list[object] = []

    def first(event: object) -> None:
        begun.set()
        assert goes_on.wait(WAIT)

    callbacks.register("update", first)
    handle = callbacks.register("update", removed.append)
    callbacks.register("update", kept.append)
    told_nobody = Screen()
    callbacks.register("update", told_nobody.show)
    for number in range(3):
        callbacks.emit(update(number))
    assert begun.wait(WAIT)
    handle.remove()
    callbacks.close()
    callbacks.emit(update(3))
    del told_nobody
    goes_on.set()
    assert callbacks.drain(WAIT)
    assert removed == []
    assert kept == [update(0), update(1), update(2)]
    assert (callbacks.stats().dropped, callbacks.stats().delivered) == (6, 6)


def test_a_callback_may_emit_register_and_remove() -> None:
    callbacks = Callbacks()
    seen: list[object] = []

    def on_stage(event: object) -> None:
        callbacks.register("update", seen.append)
        callbacks.emit(update(7))
        handle.remove()

    handle = callbacks.register("stage_change", on_stage)
    told(callbacks, ANSWER, ANSWER)
    assert callbacks.drain(WAIT)
    assert seen == [update(7)]


def test_threads_emit_at_once_and_nothing_is_lost() -> None:
    callbacks = Callbacks(capacity=10_000)
    seen: list[Update] = []
    callbacks.register("update", seen.append)

    def emit(first: int) -> None:
        for number in range(first, first + 500):
            callbacks.emit(update(number))

    threads = [threading.Thread(target=emit, args=(first,)) for first in range(0, 2000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert callbacks.drain(WAIT)
    assert sorted(event.token_index for event in seen) == list(range(2000))
    for first in range(0, 2000, 500):  # each emitter's own stay in order
        own = [event.token_index for event in seen if first <= event.token_index < first + 500]
        assert own == sorted(own)


# ---- on a loop


def test_a_coroutine_function_runs_on_its_loop_one_event_at_a_time() -> None:
    async def main() -> None:
        callbacks = Callbacks()
        trace: list[tuple[str, int]] = []

        async def slow(event: Update) -> None:
            assert threading.current_thread() is threading.main_thread()
            trace.append(("begin", event.token_index))
            await asyncio.sleep(0.001)
            trace.append(("end", event.token_index))

        callbacks.register("update", slow)
        for number in range(3):
            callbacks.emit(update(number))
        assert trace == []
        with pytest.raises(UsageError, match="would block the event loop"):
            callbacks.drain()
        await asyncio.to_thread(callbacks.emit, update(3))
        assert await asyncio.to_thread(callbacks.drain, WAIT)
        assert trace == [(what, number) for number in range(4) for what in ("begin", "end")]

    run(main())


def test_a_failing_coroutine_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        callbacks = Callbacks()

        async def fails(event: object) -> None:
            raise ValueError("no")

        callbacks.register("update", fails)
        for number in range(3):
            callbacks.emit(update(number))
        assert await asyncio.to_thread(callbacks.drain, WAIT)
        assert callbacks.stats().failures == 3

    run(main())
    assert len(caplog.records) == 1


def test_an_async_method_goes_with_its_object() -> None:
    class Pane(Screen):
        async def paint(self, event: object) -> None:
            self.seen.append(event)

    async def main() -> None:
        callbacks = Callbacks()
        pane = Pane()
        callbacks.register("update", pane.paint)
        callbacks.emit(update(0))
        assert await asyncio.to_thread(callbacks.drain, WAIT)
        assert pane.seen == [update(0)]
        gone = weakref.ref(pane)
        del pane
        await asyncio.sleep(0)
        assert gone() is None
        callbacks.emit(update(2))
        assert callbacks.stats().registered == 0

    run(main())


def test_a_loop_that_is_gone_takes_its_callbacks_with_it() -> None:
    callbacks = Callbacks()
    cancelled: list[bool] = []

    async def hangs(event: object) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> None:
        callbacks.register("update", hangs)
        callbacks.emit(update(0))
        callbacks.emit(update(1))
        await asyncio.sleep(0.01)

    run(main())
    assert cancelled == [True]
    assert callbacks.drain(0)
    callbacks.emit(update(2))
    assert callbacks.stats().registered == 0
    assert callbacks.stats().expired == 1


# ---- sessions


def test_sessions_with_callbacks_of_every_kind_leave_nothing_behind() -> None:
    churn(4)
    left = churn(200)
    assert (left.registries, left.handles, left.objects) == (0, 0, 0)
    assert left.tracked < 100  # what the interpreter keeps for itself does not grow with the sessions


def test_a_process_that_ends_does_not_wait_for_ever_for_slow_callbacks() -> None:
    script = """
import time
import multimodal.pipes.callback_worker as worker
worker.EXIT_LIMIT = 0.3
ran = []
for number in range(100):
    worker.shared_worker().post(lambda: (time.sleep(0.1), print("ran", flush=True)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert 1 <= done.stdout.count("ran") < 50, "what began, and what the limit allows"
    assert "callbacks were not run" in done.stderr
