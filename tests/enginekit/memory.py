"""A JVM that is not ours runs out of memory: an agent is loaded into it that fills its heap."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).parent / "HeapFiller.java"
_MANIFEST = "Agent-Class: HeapFiller\n"


def fill_heap(pid: int) -> None:
    """Returns when it has begun. What the JVM does when its heap is full is its own affair."""
    with tempfile.TemporaryDirectory() as folder:
        classes, manifest, agent = Path(folder, "classes"), Path(folder, "manifest"), Path(folder, "agent.jar")
        manifest.write_text(_MANIFEST)
        _run("javac", "--release", "17", "-d", str(classes), str(_SOURCE))
        _run("jar", "--create", "--file", str(agent), "--manifest", str(manifest), "-C", str(classes), ".")
        _run("jcmd", str(pid), "JVMTI.agent_load", str(agent))


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
