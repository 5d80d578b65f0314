"""``python -m benchmarks [KIND] ARGS``: whole, durable, cluster, frames, bad_plugins, uplink, uplink_kafka,
spark_clean, lone, shapes, instructions, away, tls, logins, api, dashboard, start or micro; without any, whole.
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import bad_plugins, cluster, durable, frames, uplink, whole

MICRO = Path(__file__).parent / "micro"
APART = (
    *("uplink_kafka", "spark_clean", "lone", "shapes", "instructions", "away", "tls", "logins", "api"),
    *("dashboard", "start"),
)


def main(arguments: list[str]) -> int:
    """Run what is named."""
    if not arguments or arguments[0].startswith("-"):
        return whole.main(arguments)
    kind, *rest = arguments
    if kind == "whole":
        return whole.main(rest)
    if kind == "durable":
        return durable.main(rest)
    if kind == "cluster":
        return cluster.main(rest)
    if kind == "frames":
        return frames.main(rest)
    if kind == "bad_plugins":
        return bad_plugins.main(rest)
    if kind == "uplink":
        return uplink.main(rest)
    if kind in APART:
        # What they stand on is no part of the broker: it is imported when it is asked for.
        found: int = import_module(f"benchmarks.{kind}").main(rest)
        return found
    programs = sorted(MICRO.glob("bench_*.py"))
    names = [program.stem.removeprefix("bench_") for program in programs]
    if kind != "micro" or (rest and rest[0] not in names):
        print(
            "usage: python -m benchmarks [whole | durable | cluster | frames | bad_plugins | uplink |"
            f" {' | '.join(APART)} ARGS |"
            f" micro [{' | '.join(names)}]]",
            file=sys.stderr,
        )
        return 2
    for name, program in zip(names, programs, strict=True):
        if not rest or rest[0] == name:
            print(f"--- {name}", flush=True)
            sys.argv = [str(program), *rest[1:]]
            runpy.run_path(str(program), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
