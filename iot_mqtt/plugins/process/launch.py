"""How the process of a worker begins: the same for a broker and for whoever tries a codec without one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

#: Less urgent than the broker before it does anything (importing is most of its start), the same modules as here, and
#: nothing of the environment.
_BEGIN = (
    "import json, os, sys; os.nice(json.loads(sys.argv[4])['nice']); sys.path[:] = json.loads(sys.argv[1]); "
    "from iot_mqtt.plugins.process.child import main; main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])"
)
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


def command(descriptor: int, limits: Mapping[str, int]) -> list[str]:
    """The command line of a worker that has its socket at this descriptor."""
    path = json.dumps([path or str(Path.cwd()) for path in sys.path])
    return [sys.executable, "-I", "-c", _BEGIN, path, str(descriptor), str(os.getpid()), json.dumps(dict(limits))]


def environment() -> dict[str, str]:
    """What it knows of its surroundings."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
