"""How many records ``clean`` takes per second, on two cores, with everything that it does to them.

    python benchmarks/spark_clean.py                      2,000,000 readings of some 200 bytes with one tag
    python benchmarks/spark_clean.py --records 400000 --duplicates 0.05

Files as the broker's file sink leaves them are made first. The job then runs as a program (``--once``); its first
batches warm the JVM up and are not counted; it goes on compiling for some millions of records, so a job that runs for
hours is cheaper than this. ``cpu`` are seconds of all its processes, for machines that have other things to do: records
per second mean something only when the load that is printed is the job's own, two or so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SPARK = Path(__file__).parent.parent / "spark"
START = 1_790_000_000_000
DEVICES = 500
TICKS = os.sysconf("SC_CLK_TCK")


def make(root: Path, options: argparse.Namespace) -> int:
    """The files, of ``--batch`` records each. The size of one record."""
    folder = root / "uplink" / "iot.readings" / "dt=2026-09-21"
    folder.mkdir(parents=True)
    chance = random.Random(7)
    count = options.warm + options.records
    size = 0
    for begin in range(0, count, options.batch):
        numbers = list(range(begin, min(count, begin + options.batch)))
        numbers += chance.choices(range(numbers[-1] + 1), k=int(len(numbers) * options.duplicates))
        text = "".join(map(line, numbers))
        size = len(text) // len(numbers)
        (folder / f"0.bench-{begin:020d}.jsonl").write_text(text)
    return size


def line(number: int) -> str:
    """One reading, of about 200 bytes."""
    device, seq, time_ms = number % DEVICES, number // DEVICES, START + number // 50
    gateway = f"gw-{device % 20:02d}"
    return (
        f'{{"id":"{gateway}/press-{device:03d}/{seq}","node":"node-1","gateway":"{gateway}",'
        f'"device":"press-{device:03d}","ts":{time_ms},"ingest_ts":{time_ms + 5},"seq":{seq},'
        f'"values":{{"temperature":{20 + number % 600 / 10}}},"codec":"gateway","schema":1}}\n'
    )


def cpu_seconds(group: int) -> float:
    """Of all processes of a group that are there."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def shown(root: Path) -> tuple[int, int]:
    """The last batch and the records that are in the table."""
    path = root / "tables" / ".state" / "clean.json"
    if not path.exists():
        return -1, 0
    said = json.loads(path.read_text())
    return said["batch"], said["totals"].get("in", 0)


def main(arguments: Sequence[str]) -> int:
    """Make the files, run the job, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--warm", type=int, default=600_000, help="records before those that are counted")
    parser.add_argument("--batch", type=int, default=200_000, help="records of one batch")
    parser.add_argument("--duplicates", type=float, default=0.0, help="of the records, so many are there twice")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="spark-clean-") as name:
        return measure(Path(name), options)


def measure(root: Path, options: argparse.Namespace) -> int:
    """One run of the job."""
    size = make(root, options)
    rules = {"clean": [{"match": {"tag": "temp*"}, "unit": "°C", "min": -40, "max": 400}]}
    told = {
        "source": {"kind": "files", "dir": str(root / "uplink"), "max_files": 1},
        **{key: str(root / key) for key in ("tables", "checkpoints", "status")},
        "rules": rules,
        "master": "local[2]",
    }
    (root / "settings.json").write_text(json.dumps(told))
    environment = {
        **os.environ,
        "PYTHONPATH": str(SPARK),
        "PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell",
    }
    command = [sys.executable, str(SPARK / "jobs" / "clean.py"), "--settings", str(root / "settings.json"), "--once"]
    with (root / "log").open("wb") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        return follow(root, child, options, size)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def follow(root: Path, child: subprocess.Popen[bytes], options: argparse.Namespace, size: int) -> int:
    """Watch it until everything is in the table."""
    files = -(-(options.records + options.warm) // options.batch)
    begun: tuple[float, float, int] | None = None
    before = 0.0, 0.0, 0
    last = -1
    while last < files - 1:
        if child.poll() not in (None, 0):
            print((root / "log").read_text()[-4000:], file=sys.stderr)
            return 1
        batch, records = shown(root)
        if batch != last:
            now, cpu = time.monotonic(), cpu_seconds(child.pid)
            if begun is not None:
                more = records - before[2]
                rate, cost = more / (now - before[0]), (cpu - before[1]) / more
                print(f"batch {batch}: {rate:,.0f} records/s, {cost * 1e6:.1f} us of cpu each", flush=True)
            elif records >= options.warm:
                begun = now, cpu, records
            before = now, cpu, records
            last = batch
        time.sleep(0.05)
    if begun is None:
        return 1
    now, cpu, records = time.monotonic(), cpu_seconds(child.pid), shown(root)[1]
    counted, seconds, used = records - begun[2], now - begun[0], cpu - begun[1]
    print(f"{counted:,} records of {size} bytes in {seconds:.1f} s: {counted / seconds:,.0f} records/s")
    print(f"cpu {used:.1f} s, {used / counted * 1e6:.1f} us a record, {used / seconds:.2f} cores")
    print(f"load of the machine in the last minute: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
