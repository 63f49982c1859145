"""No test of a pipe may leave a picture thread behind."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.pipes.pictures import picture_threads


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    # Not every test closes its pipe; but every thread ends by itself when its work does.
    deadline = time.monotonic() + 30
    while picture_threads() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert picture_threads() == 0
