"""`multimodal token`: what it prints, where it takes the secret from, and where not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from multimodal.cli import main
from multimodal.serving.auth import Tokens

SECRET = "a-secret-of-the-shop-0123456789-abcdefgh"


@pytest.fixture(autouse=True)
def _no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MULTIMODAL_SECRET", raising=False)


def file_of(tmp_path: Path, text: str | bytes, mode: int = 0o600) -> str:
    path = tmp_path / "secret"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return str(path)


def code_of(argv: list[str]) -> object:
    try:
        return main(argv)
    except SystemExit as left:
        return left.code


def test_the_printed_token_is_good(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MULTIMODAL_SECRET", SECRET + "\n")
    assert main(["token", "--tour", "demo", "--role", "host", "--session", "launch", "--ttl", "2h"]) == 0
    printed = capsys.readouterr()
    grant = Tokens(SECRET).check(printed.out.strip(), tour="demo", now=time.time())
    assert (grant.session, grant.role) == ("launch", "host")
    assert 7190 < grant.expires - time.time() <= 7210
    assert printed.err == ""


def test_a_file_goes_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MULTIMODAL_SECRET", "x" * 50)
    assert main(["token", "--tour", "*", "--role", "operator", "--secret-file", file_of(tmp_path, f" {SECRET}\n")]) == 0
    assert Tokens(SECRET).check(capsys.readouterr().out.strip(), tour="any", now=time.time()).role == "operator"


def test_another_variable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    assert main(["token", "--tour", "demo", "--secret-env", "SHOP_SECRET"]) == 0
    assert Tokens(SECRET).check(capsys.readouterr().out.strip(), tour="demo", now=time.time()).role == "viewer"


def test_a_file_that_others_can_read_is_remarked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "--tour", "demo", "--secret-file", file_of(tmp_path, SECRET, 0o644)]) == 0
    printed = capsys.readouterr()
    assert "chmod 600" in printed.err
    assert SECRET not in printed.err + printed.out


@pytest.mark.parametrize(
    ("words", "content", "why"),
    [
        ([], None, "set the variable MULTIMODAL_SECRET"),
        ([], "short", "5 bytes and needs 32"),
        ([], "", "it is empty"),
        ([], b"\xff" * 40, "not UTF-8"),
        ([], "s" * 5000, "over 4096 bytes"),
        (["--session", "a b"], SECRET, "session"),
        (["--ttl", "2d"], SECRET, "90, 5m or 2h"),
        (["--ttl", "48h"], SECRET, "86400"),
        (["--ttl", "0"], SECRET, "1 to"),
        (["--tour", "*"], SECRET, "for operators"),
        (["--role", "admin"], SECRET, "invalid choice"),
        (["--secret", SECRET], SECRET, "ambiguous|unrecognized"),
    ],
)
def test_what_cannot_be_done_is_said_and_the_secret_is_not(
    words: list[str], content: str | bytes | None, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["token", "--tour", "demo", *words]
    if content is not None:
        argv += ["--secret-file", file_of(tmp_path, content)]
    assert code_of(argv) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert any(each in printed.err for each in why.split("|"))
    assert SECRET not in printed.err


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "--tour", "demo", "--secret-file", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_as_a_process_it_loads_nothing_heavy() -> None:
    script = (
        "import sys; from multimodal.cli import main; code = main(['token', '--tour', 'demo']);"
        " print([m for m in ('aiortc', 'av', 'numpy', 'starlette', 'uvicorn', 'torch') if m in sys.modules]);"
        " sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MULTIMODAL_SECRET": SECRET},
    )
    assert done.stdout.splitlines()[1:] == ["[]"]
