"""Commands while nodes die, stop, stand still and lose each other: each comes to a true end, and is not done twice.

``COMMAND_WALKS`` sets how many random walks are taken.
"""

from __future__ import annotations

import os

import pytest

from tests.seeds import seeds_of
from tests.simulation.commands import CommandWalk

WALKS = int(os.environ.get("COMMAND_WALKS", "20"))


@pytest.mark.parametrize("seed", seeds_of("commands", WALKS))
def test_every_command_comes_to_a_true_end(seed: int) -> None:
    """What was acknowledged is over, its state was told and is so; without ``retry`` nothing came twice."""
    CommandWalk(seed).run()
