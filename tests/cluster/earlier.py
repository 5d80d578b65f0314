"""An earlier release of this program, out of the history of this repository, to run beside the present one.

``earlier_release.txt`` names it: the last tag, or a commit while nothing is released; ``CLUSTER_EARLIER`` names another
one. It runs with this Python and its
libraries, and without compiled parts.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("earlier_release.txt")
ROOT = FILE.parent.parent.parent


def named() -> str:
    """A tag or a commit."""
    asked = os.environ.get("CLUSTER_EARLIER")
    return asked or next(line for line in FILE.read_text().splitlines() if line and not line.startswith("#"))


def unpack(folder: Path) -> Path:
    """Where its package lies. Without a history nothing is tried; one that does not have it is a mistake."""
    name = named()
    found = subprocess.run(["git", "-C", ROOT, "archive", name, "iot_mqtt"], capture_output=True, check=False)
    if found.returncode and not _has_history():
        pytest.skip(f"there is no history here, with {name} in it: run this in a clone that is not shallow")
    if found.returncode:
        pytest.fail(
            f"{name}, which {FILE.name} names, is not in the history here: run this in a clone that is not shallow "
            f"(git fetch --unshallow --tags), and commit a name that is pushed. git says: {found.stderr.decode()}"
        )
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _has_history() -> bool:
    """Whether this is a clone, and a whole one."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == "false"
