"""``python -m tests.simulation --seeds 1000``: fresh ones, behind those of the corpus. ``--seed 17 --trace`` shows one.

A seed that fails is run again without some of its acts, until the shortest story that fails is found, and is printed.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.simulation import cycles
from tests.simulation.plan import STEPS, Act, only, places, plan_of
from tests.simulation.plants import PLANTS, planted
from tests.simulation.shrinking import shrink
from tests.simulation.story import Story

CORPUS = Path(__file__).with_name("corpus.txt")
#: Seeds are below it, so that they can be read and typed.
END = 1_000_000_000
#: Stories of one process, each of which leaves a few megabytes.
TOGETHER = 25
#: How far it is, is said so often.
TOLD_EVERY = 1_000


def corpus() -> list[int]:
    """Seeds that failed once."""
    lines = (line.partition("#")[0].strip() for line in CORPUS.read_text().splitlines())
    return [int(line) for line in lines if line]


class Run:
    """Of many seeds, as the command line says."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.figures: Counter[str] = Counter()

    def seeds(self) -> list[int]:
        """Which, in their order; the first of the fresh ones is said."""
        options = self._options
        if options.seed is not None:
            return [options.seed]
        first = random.SystemRandom().randrange(END) if options.first is None else options.first
        known = [] if options.plant else corpus()
        print(f"{len(known)} seeds of the corpus, then {options.seeds} from {first} on")
        return [*known, *range(first, first + options.seeds)]

    def some(self, seeds: Sequence[int]) -> Counter[str]:
        """What has happened in these; up to the first that fails, if no more are wanted then."""
        for seed in seeds:
            self.one(seed)
            if self.figures["failed"] and not self._options.keep_going:
                break
        return self.figures

    def one(self, seed: int) -> None:
        options = self._options
        acts = plan_of(seed, options.steps, served=options.served)
        if options.only is not None:
            acts = only(acts, options.only)
        failure = self._judge(seed, acts, trace=options.trace)
        if failure is None:
            return
        self.figures["failed"] += 1
        print(f"seed {seed}: {failure}")
        print(f"  {self._again(seed, options.only)} --trace")
        if options.shrink:
            kept, failure = shrink(acts, failure, lambda fewer: self._judge(seed, fewer))
            print(f"the shortest story: {len(kept)} of {len(acts)} acts; {failure}")
            print(f"  {self._again(seed, places(kept))} --trace")
            self._judge(seed, kept, trace=True)

    def _judge(self, seed: int, acts: Sequence[Act], *, trace: bool = False) -> str | None:
        """What is broken."""
        logging.getLogger().setLevel(logging.INFO if trace else logging.CRITICAL)
        options = self._options
        lie = options.plant == "lying-server"
        if options.cycles:
            cycles.begin()
        story = Story(seed, print if trace else None, acts, served=options.served, lie=lie)
        try:
            story.run()
            left = cycles.left_behind() if options.cycles else None
            assert not left, f"cycles: {dict(left or {})} are kept by nothing but themselves"
        except AssertionError as error:
            return str(error) or "assertion: it says no more"
        except Exception as error:
            if trace:
                traceback.print_exc(file=sys.stdout)
            return f"{type(error).__name__}: {error}"
        finally:
            self.figures.update(story.figures())
            story.world.leave()
        return None

    def _again(self, seed: int, chosen: str | None) -> str:
        options = self._options
        words = ["python -m tests.simulation --seed", str(seed)]
        if options.plant:
            words.append(f"--plant {options.plant}")
        if options.served:
            words.append("--served")
        if options.cycles:
            words.append("--cycles")
        if options.steps != STEPS:
            words.append(f"--steps {options.steps}")
        if chosen is not None:
            words.append(f"--only {chosen}")
        return " ".join(words)


def main() -> int:
    """Run seeds until one fails; says how to see it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many, besides those of the corpus")
    parser.add_argument("--first", type=int, help="the first of them; without it, any")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--only", help="only the acts at these places, as a failure has printed them")
    parser.add_argument("--steps", type=int, default=STEPS, help="length of the storm")
    parser.add_argument("--served", action="store_true", help="with servers under every world, not some")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--shrink", action="store_true", help="look for the shortest story of a seed that fails")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--cycles", action="store_true", help="what is over must be freed without the collector")
    parser.add_argument("--plant", choices=PLANTS, help="put a bug in; it has to be found")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, format="           %(message)s")
    # A third of the time would be the collector's, which finds nothing but whole stories: processes end with them.
    gc.freeze()
    gc.disable()
    begun = time.monotonic()
    run = Run(options)
    seeds = run.seeds()
    figures: Counter[str] = Counter()
    with planted(options.plant):
        for at in range(0, len(seeds), TOGETHER):
            with ProcessPoolExecutor(1, get_context("fork")) as process:
                figures.update(process.submit(run.some, seeds[at : at + TOGETHER]).result())
            if figures["failed"] and not options.keep_going:
                break
            if at and not at % TOLD_EVERY:
                print(f"{at} of {len(seeds)}, {figures['failed']} failed; {time.monotonic() - begun:.0f} s", flush=True)
    failed = figures.pop("failed", 0)
    print(", ".join(f"{count} {name}" for name, count in sorted(figures.items())))
    print(f"{failed} failed; {time.monotonic() - begun:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of what happens.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
