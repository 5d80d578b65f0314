"""Whole brokers in a simulated cluster, dozens of times: nothing promised is broken, and a bug is found.

In a process of its own, so that a seed is the same everywhere: ``python -m tests.simulation --seed N --trace``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.simulation.plan import Act, only, places, plan_of, shape_of
from tests.simulation.shrinking import shrink

ROOT = Path(__file__).parents[2]
SEEDS = os.environ.get("SIM_SEEDS", "24")
#: The same in every run: what fails is what was changed. ``make sim`` draws fresh ones.
FIRST = 5000
#: The first of the seeds with a lying server.
LIE = 100_000


def simulate(*arguments: str, native: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run it to its end. ``native``: ``IOT_MQTT_NATIVE``, if not as it is."""
    environment = os.environ if native is None else {**os.environ, "IOT_MQTT_NATIVE": native}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
def test_no_promise_is_broken_whatever_happens_to_nodes_and_links() -> None:
    """A failing seed says how it is seen again. Those that failed once are run, too."""
    done = simulate("--seeds", SEEDS, "--first", str(FIRST))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_everybody_may_hop_and_no_message_is_overtaken() -> None:
    """Publishers with messages under way, which they send again elsewhere; subscribers that are behind; nodes stop."""
    done = simulate("--seeds", "12", "--first", "1", "--no-corpus", "--no-platform", "--hopping")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_what_is_over_is_freed_without_the_collector() -> None:
    """Sessions, messages under way, groups: wherever they have gone, and whatever has died meanwhile."""
    done = simulate("--seeds", "5", "--first", "6000", "--no-corpus", "--cycles")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_an_acknowledgement_that_comes_too_early_is_found() -> None:
    """What finds nothing proves nothing."""
    done = simulate("--seeds", "100", "--first", "0", "--plant", "acknowledge-early", native="off")
    assert done.returncode == 1 and "lost: " in done.stdout, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_logs_that_are_read_side_by_side_are_found() -> None:
    """Publishers move in every story, and subscribers are behind."""
    done = simulate("--seeds", "20", "--first", "6595", "--plant", "side-by-side", native="off")
    assert done.returncode == 1 and "moved: " in done.stdout, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_timers_that_are_lost_on_busy_nodes_are_found() -> None:
    """Connections that have fallen silent stay, and sessions whose time is over."""
    done = simulate("--seeds", "100", "--first", "3000144", "--plant", "lost-ticks", native="off")
    assert done.returncode == 1 and ("silent: " in done.stdout or "session: " in done.stdout), done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_a_server_that_lies_about_what_it_missed_is_found_and_nothing_without_it() -> None:
    """It says "absent" of what was written while it was away. The same seeds keep every promise when it does not."""
    seeds = "--first", str(LIE), "--no-corpus", "--served"
    lied = simulate("--seeds", "100", *seeds, "--plant", "lying-server", native="off")
    assert lied.returncode == 1, lied.stdout + lied.stderr
    failed = next(line for line in lied.stdout.splitlines() if line.startswith("seed "))
    run = int(failed.split()[1].rstrip(":")) - LIE + 1
    honest = simulate("--seeds", str(run), *seeds, native="off")
    assert honest.returncode == 0, honest.stdout + honest.stderr


def test_a_story_is_shortened_to_the_acts_that_break_the_promise() -> None:
    """Another promise that is broken instead does not count, and what is left is as it was."""
    acts = plan_of(11, shape_of(11))
    wanted = {acts[30], acts[170], acts[171]}

    def judge(some: Sequence[Act]) -> str | None:
        return "lost: a message" if wanted <= set(some) else "order: of others" if acts[30] in some else None

    kept, failure = shrink(acts, "lost: ten messages", judge)
    assert (set(kept), failure) == (wanted, "lost: a message")
    assert only(acts, places(kept)) == kept == [act for act in acts if act in wanted]


def test_an_act_has_its_own_dice() -> None:
    """They depend on the seed and on its place in the whole plan, not on who was before it."""
    acts = plan_of(3, shape_of(3))
    act = acts[40]
    assert act.rng(3).random() == Act(*act).rng(3).random() != act.rng(4).random()
    assert len({one.rng(3).random() for one in acts}) == len(acts)
