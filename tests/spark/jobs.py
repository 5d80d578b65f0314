"""Jobs as programs of their own, which tests may kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.enginekit.jvm import QUICK

SPARK = Path(__file__).parents[2] / "spark"
#: How often a driver is killed; the campaign does so more often.
KILLS = int(os.environ.get("SPARK_KILLS", "1"))


@contextmanager
def running(job: str, root: Path, told: Mapping[str, Any], *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A job in a process group of its own, which is gone afterwards; what it says is in ``log``."""
    (root / "settings.json").write_text(json.dumps(told))
    command = [sys.executable, str(SPARK / "jobs" / f"{job}.py"), "--settings", str(root / "settings.json"), *more]
    started = {"PYTHONPATH": str(SPARK), "PYSPARK_SUBMIT_ARGS": "--driver-memory 512m pyspark-shell"}
    environment = {**os.environ, **QUICK, **started}
    with (root / "log").open("ab") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield child
    finally:
        # The JVM too: it outlives its driver for a moment.
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
