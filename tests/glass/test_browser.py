"""Finding Chromium and Playwright, and what is said where one is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from multimodal.browser import find_chromium, launch
from multimodal.errors import UsageError
from tests.support import run


def program(folder: Path, name: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_first_known_name_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MULTIMODAL_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    google = program(tmp_path, "google-chrome")
    assert find_chromium() == google
    debian = program(tmp_path, "chromium")
    assert find_chromium() == debian


def test_the_one_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIMODAL_CHROMIUM", named := program(tmp_path, "my-browser"))
    assert find_chromium() == named
    monkeypatch.setenv("MULTIMODAL_CHROMIUM", "/nowhere/chromium")
    with pytest.raises(UsageError, match="/nowhere/chromium"):
        find_chromium()


def test_without_chromium_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MULTIMODAL_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="apt-get install chromium"):
        find_chromium()


def test_without_playwright_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIMODAL_CHROMIUM", program(tmp_path, "chromium"))
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)

    async def scenario() -> None:
        async with launch():
            pass

    with pytest.raises(UsageError, match=r"multimodal-stream\[test\]"):
        run(scenario())
