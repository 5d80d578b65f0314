"""Every input that was worth keeping, and a short fresh search from there, which its seed repeats (``TEST_SEED``)."""

from __future__ import annotations

import random
import time

import pytest

from tests.fuzz.corpus import beginnings
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS
from tests.seeds import seed_of

#: Seconds of the processor that one input may take: some hundred times what the slowest takes.
SLOWEST = 1.0
#: An input that is slow is slow each time; a garbage collection is somebody else's and comes once.
TRIES = 3


def attempt(target: Target, data: bytes) -> None:
    """One input; a failure says how to repeat it."""
    repeat = f"python -m tests.fuzz --try {target.name} {data.hex()}"
    for _ in range(TRIES):
        began = time.thread_time()
        try:
            target.run(data)
        except Exception as error:
            raise AssertionError(f"{target.name}: {type(error).__name__}: {error}; {repeat}") from error
        if time.thread_time() - began < SLOWEST:
            return
    raise AssertionError(f"{target.name} took more than {SLOWEST} s, {TRIES} times: {repeat}")


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_of_the_corpus_are_read_or_refused(name: str) -> None:
    """As documented, with every promise of the target held."""
    target = TARGETS[name]
    inputs = beginnings(target)
    assert inputs
    for data in inputs:
        attempt(target, data)


@pytest.mark.parametrize("name", TARGETS)
def test_fresh_inputs_are_read_or_refused(name: str) -> None:
    """Other ones in every run."""
    target = TARGETS[name]
    dice = random.Random(seed_of(f"fuzz {name}"))
    mutator = Mutator(dice, beginnings(target), target.words, target.longest)
    for _ in range(target.fresh):
        attempt(target, mutator.next())
