"""What a start costs: ``serve`` until ``ready``, and commands that need no broker.

    python -m benchmarks start [--rounds 9]

CPU is user and system time of the whole process (for ``serve``: until it said that it is ready), and seconds are what
somebody waits. Each figure is the median. Bytecode is there: ``make setup`` writes it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.whole import cpu_seconds

_HELP = (("--version",), ("--help",), ("ctl", "--help"), ("ctl", "publish", "--help"))


def program() -> list[str]:
    """The command of this checkout."""
    script = Path(sys.executable).with_name("iot-mqtt")
    return [str(script)] if script.exists() else [sys.executable, "-m", "iot_mqtt"]


def command(arguments: Sequence[str]) -> tuple[float, float]:
    """CPU and seconds of a command that ends by itself."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([*program(), *arguments], check=True, stdout=subprocess.DEVNULL)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def serve(settings: Sequence[str] = ()) -> tuple[float, float]:
    """CPU and seconds of a node by itself, in an empty directory, until it is ready."""
    with tempfile.TemporaryDirectory() as folder:
        ports = [f"{one}.port=0" for one in ("listeners.mqtt", "listeners.ws", "listeners.gateway", "admin")]
        sets = [word for one in (f"node.data_dir={folder}/data", *ports, *settings) for word in ("--set", one)]
        began = time.monotonic()
        with subprocess.Popen([*program(), "serve", *sets], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as node:
            assert node.stdout is not None
            line = node.stdout.readline()
            found = cpu_seconds(node.pid), time.monotonic() - began
            node.terminate()
        if not line.startswith(b"ready"):
            raise SystemExit(f"not ready but {line!r}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = range(parser.parse_args(arguments).rounds)
    print("                           CPU    seconds")
    for words in _HELP:
        show("iot-mqtt " + " ".join(words), [command(words) for _ in rounds])
    show("serve, to ready", [serve() for _ in rounds])
    show("the same without admin", [serve(("admin.enabled=false",)) for _ in rounds])
    return 0


def show(name: str, figures: list[tuple[float, float]]) -> None:
    """One line of the table."""
    cpu, seconds = (statistics.median(column) for column in zip(*figures, strict=True))
    print(f"{name:26} {cpu:5.2f}    {seconds:5.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
