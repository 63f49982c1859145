"""The page under test in a real Chromium; the browser is the player tests' own."""

from __future__ import annotations

from tests.player.conftest import browser as browser
