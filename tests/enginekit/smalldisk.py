"""Small file systems, for a directory of ours, or for each Ignite server, which alone sees it. They need root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iot_mqtt.app.engines.places import java

#: ``java @arguments``; a mount is gone with its process. The work directory is one of the arguments.
_SCRIPT = """\
#!/bin/sh
work=$(sed -n 's/.*-Diot.ignite.work=\\([^"]*\\)".*/\\1/p' "${1#@}")
mount='mount -t tmpfs -o size=SIZE tmpfs "$0" && exec "$@"'
exec unshare --mount --propagation private sh -c "$mount" "$work" JAVA OPTIONS "$@"
"""


@contextmanager
def small_disks(folder: Path, size: int, *options: str) -> Iterator[None]:
    """Servers that are started meanwhile have disks of so many bytes, and these options of Java."""
    assert os.geteuid() == 0, "a small disk needs a private mount, and that needs root"
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    text = _SCRIPT.replace("SIZE", str(size)).replace("JAVA", java()).replace("OPTIONS", " ".join(options))
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(folder))
        yield


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """The directory is a disk of so many bytes, whatever processes come and go meanwhile."""
    assert os.geteuid() == 0, "a small disk needs a mount, and that needs root"
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
