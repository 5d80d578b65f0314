"""Plays random scripts on two brokers for as long as it is told to.

python -m tests.fuzz.differential --minutes 30 [--seed 5]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.differential.match import Match
from tests.fuzz.differential.script import Step, scripts


def search(match: Match, number: int, examples: int, counts: Counter[str], *, shrink: bool = True) -> str | None:
    """So many scripts; the smallest one that found something that is not explained."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        report_multiple_bugs=False,
    )
    @given(scripts)
    def plays(script: list[Step]) -> None:
        verdict = match.play(script)
        counts.update(verdict.used)
        counts["scripts"] += 1
        assert verdict.unexplained is None, verdict.unexplained

    try:
        plays()
    except AssertionError as error:
        return str(error)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.differential")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000_000))
    parser.add_argument("--no-shrink", action="store_true", help="tell what was found as it was found")
    told = parser.parse_args()
    end, counts, failed, number = time.monotonic() + told.minutes * 60, Counter[str](), 0, told.seed
    with Match() as match:
        while time.monotonic() < end and failed < 5:
            found = search(match, number, 200, counts, shrink=not told.no_shrink)
            if found is not None:
                failed += 1
                print(f"--- seed {number}\n{found}", flush=True)
            number += 1
    print(dict(counts), f"{failed} unexplained")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
