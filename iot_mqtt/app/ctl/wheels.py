"""The wheel of a vendor's project, built where the operator is and with the operator's rights."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

_FLAGS = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
#: What lies in a project and is no source; setuptools would take modules from ``build`` that were deleted since.
_GIT, _BUILD = ".git", "build"
_NO_SOURCE = frozenset((_GIT, "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", "node_modules"))
_WITHIN = 300.0
_TAIL = 1500


@contextmanager
def wheel_of(path: Path) -> Iterator[Path]:
    """The wheel itself, or that of a project's directory, which is gone afterwards."""
    if not path.is_dir():
        yield path
        return
    if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
        raise click.ClickException(f"{path} has no pyproject.toml: it is not a project's directory")
    with tempfile.TemporaryDirectory(prefix="iot-mqtt-wheel-") as name:
        folder = Path(name)
        built = _built(_copied(path, folder / "source"), folder)
        # The node may run as somebody else.
        folder.chmod(0o755)
        built.chmod(0o644)
        yield built


def sha256_of(path: Path) -> str:
    """As an operator names a wheel to a node."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copied(project: Path, copy: Path) -> Path:
    """The project without what earlier builds have left in it."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        found = {name for name in names if name in _NO_SOURCE or name.endswith(".egg-info")}
        built = Path(folder) / _BUILD
        if any(built.glob("lib*")) or any(built.glob("bdist.*")):
            found.add(_BUILD)
        return found

    shutil.copytree(project, copy, ignore=left_out, ignore_dangling_symlinks=True)
    if (project / _GIT).exists():  # a version may be made of it
        (copy / _GIT).symlink_to(project / _GIT)
    return copy


def _built(project: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", *_FLAGS, "--wheel-dir", str(folder), str(project)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN, check=False)  # noqa: S603 - pip
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"pip did not build {project} within {_WITHIN:g} s") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise click.ClickException(f"pip could not build a wheel: {(done.stderr or done.stdout).strip()[-_TAIL:]}")
    return wheels[0]
