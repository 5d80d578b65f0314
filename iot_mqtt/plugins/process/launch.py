"""How the process of a worker begins: the same for a broker and for whoever tries a codec without one."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from iot_mqtt.plugins.settings import Limits

#: Less urgent than the broker before it does anything (importing is most of its start), the same modules as here, and
#: nothing of the environment.
_BEGIN = (
    "import json, os, sys; os.nice(json.loads(sys.argv[5])['nice']); sys.path[:] = json.loads(sys.argv[1]); "
    "from iot_mqtt.plugins.process.child import main; "
    "main(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])"
)
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


def command(link: int, mark: int, limits: Mapping[str, int | float]) -> list[str]:
    """The command line of a worker that has its socket and its mark at these descriptors."""
    path = json.dumps([path or str(Path.cwd()) for path in sys.path])
    told = json.dumps(dict(limits))
    return [sys.executable, "-I", "-c", _BEGIN, path, str(link), str(mark), str(os.getpid()), told]


def confined(limits: Limits) -> dict[str, int | float]:
    """What a worker has to know of them."""
    return {
        "memory": limits.memory,
        "open_files": limits.open_files,
        "file_size": limits.file_size,
        "nice": limits.nice,
        "slow": limits.slow_frame,
    }


def make_mark() -> int:
    """A descriptor of memory for ``wire.MARK``. Whoever has it can write to it; where it can be had, not resize it."""
    if sys.platform != "linux":
        descriptor, name = tempfile.mkstemp()
        Path(name).unlink()
        os.ftruncate(descriptor, mmap.PAGESIZE)
        return descriptor
    descriptor = os.memfd_create("iot-mqtt-worker", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, mmap.PAGESIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def environment() -> dict[str, str]:
    """What it knows of its surroundings."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
