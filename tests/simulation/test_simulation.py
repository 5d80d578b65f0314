"""Whole brokers in a simulated cluster, a hundred times and more: nothing promised is broken, and a bug is found.

In a process of its own, so that a seed is the same everywhere: ``python -m tests.simulation --seed N --trace``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import FAILED, seed_of

ROOT = Path(__file__).parents[2]
SEEDS = os.environ.get("SIM_SEEDS", "100")


def simulate(*arguments: str, native: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run it to its end. ``native``: ``IOT_MQTT_NATIVE``, if not as it is."""
    environment = os.environ if native is None else {**os.environ, "IOT_MQTT_NATIVE": native}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
def test_no_promise_is_broken_whatever_happens_to_nodes_and_links() -> None:
    """A failing seed says how it is seen again."""
    first = str(seed_of("simulation"))
    done = simulate("--seeds", SEEDS, "--first", first, "--also", *map(str, FAILED["simulation"]))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_an_acknowledgement_that_comes_too_early_is_found() -> None:
    """What finds nothing proves nothing."""
    done = simulate("--seeds", "200", "--plant", "acknowledge-early", native="off")
    assert done.returncode == 1 and "Broken: " in done.stdout, done.stdout + done.stderr
