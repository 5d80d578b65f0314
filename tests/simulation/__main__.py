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
from typing import NamedTuple

from tests.simulation import cycles
from tests.simulation.plan import STEPS, Act, Shape, only, places, plan_of, shape_of
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


class Chosen(NamedTuple):
    """A story, by what it is drawn from."""

    seed: int
    steps: int
    served: bool
    platform: bool | None
    disks: bool | None
    hopping: bool

    @classmethod
    def by(cls, seed: int, options: argparse.Namespace) -> Chosen:
        """As the options of the command line, or of a line of the corpus, say."""
        return cls(seed, options.steps, options.served, options.platform, options.disks, options.hopping)

    @property
    def shape(self) -> Shape:
        return shape_of(self.seed, served=self.served, platform=self.platform, disks=self.disks, hopping=self.hopping)

    @property
    def words(self) -> list[str]:
        """For the command line."""
        words = ["--seed", str(self.seed)]
        if self.steps != STEPS:
            words += ["--steps", str(self.steps)]
        if self.served:
            words.append("--served")
        if self.platform is not None:
            words.append("--platform" if self.platform else "--no-platform")
        if self.disks is not None:
            words.append("--disks" if self.disks else "--no-disks")
        if self.hopping:
            words.append("--hopping")
        return words


def shaping() -> argparse.ArgumentParser:
    """The options that say what is drawn of a seed."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--steps", type=int, default=STEPS, help="length of the storm")
    parser.add_argument("--served", action="store_true", help="with servers under every world, not some")
    parser.add_argument(
        "--platform", action=argparse.BooleanOptionalAction, help="with an uplink in all worlds, or none"
    )
    parser.add_argument("--hopping", action="store_true", help="all is well, and everybody goes from node to node")
    parser.add_argument("--disks", action=argparse.BooleanOptionalAction, help="servers keep what they have, or not")
    return parser


def corpus() -> list[Chosen]:
    """Those that failed once."""
    parser = shaping()
    parser.add_argument("seed", type=int)
    lines = (line.partition("#")[0].split() for line in CORPUS.read_text().splitlines())
    found = (parser.parse_args(line) for line in lines if line)
    return [Chosen.by(options.seed, options) for options in found]


class Run:
    """Of many seeds, as the command line says."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.figures: Counter[str] = Counter()

    def chosen(self) -> list[Chosen]:
        """Which, in their order; the first of the fresh ones is said."""
        options = self._options
        if options.seed is not None:
            return [Chosen.by(options.seed, options)]
        first = random.SystemRandom().randrange(END) if options.first is None else options.first
        known = corpus() if options.corpus and not options.plant else []
        print(f"{len(known)} seeds of the corpus, then {options.seeds} from {first} on")
        return [*known, *(Chosen.by(seed, options) for seed in range(first, first + options.seeds))]

    def some(self, chosen: Sequence[Chosen]) -> Counter[str]:
        """What has happened in these; up to the first that fails, if no more are wanted then."""
        for one in chosen:
            self.one(one)
            if self.figures["failed"] and not self._options.keep_going:
                break
        return self.figures

    def one(self, chosen: Chosen) -> None:
        options = self._options
        acts = plan_of(chosen.seed, chosen.shape, chosen.steps)
        if options.only is not None:
            acts = only(acts, options.only)
        failure = self._judge(chosen, acts, trace=options.trace)
        if failure is None:
            return
        self.figures["failed"] += 1
        print(f"seed {chosen.seed}: {failure}")
        print(f"  {self._again(chosen, options.only)} --trace")
        if options.shrink:
            kept, failure = shrink(acts, failure, lambda fewer: self._judge(chosen, fewer))
            print(f"the shortest story: {len(kept)} of {len(acts)} acts; {failure}")
            print(f"  {self._again(chosen, places(kept))} --trace")
            self._judge(chosen, kept, trace=True)

    def _judge(self, chosen: Chosen, acts: Sequence[Act], *, trace: bool = False) -> str | None:
        """What is broken."""
        logging.getLogger().setLevel(logging.INFO if trace else logging.CRITICAL)
        options = self._options
        lie = options.plant == "lying-server"
        if options.cycles:
            cycles.begin()
        story = Story(chosen.seed, chosen.shape, acts, print if trace else None, lie=lie)
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

    def _again(self, chosen: Chosen, acts: str | None) -> str:
        options = self._options
        words = ["python -m tests.simulation", *chosen.words]
        if options.plant:
            words.append(f"--plant {options.plant}")
        if options.cycles:
            words.append("--cycles")
        if acts is not None:
            words.append(f"--only {acts}")
        return " ".join(words)


def main() -> int:
    """Run seeds until one fails; says how to see it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__, parents=[shaping()])
    parser.add_argument("--seeds", type=int, default=200, help="how many, besides those of the corpus")
    parser.add_argument("--no-corpus", dest="corpus", action="store_false", help="only those")
    parser.add_argument("--first", type=int, help="the first of them; without it, any")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--only", help="only the acts at these places, as a failure has printed them")
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
    chosen = run.chosen()
    figures: Counter[str] = Counter()
    with planted(options.plant):
        for at in range(0, len(chosen), TOGETHER):
            with ProcessPoolExecutor(1, get_context("fork")) as process:
                figures.update(process.submit(run.some, chosen[at : at + TOGETHER]).result())
            if figures["failed"] and not options.keep_going:
                break
            if at and not at % TOLD_EVERY:
                print(
                    f"{at} of {len(chosen)}, {figures['failed']} failed; {time.monotonic() - begun:.0f} s", flush=True
                )
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
