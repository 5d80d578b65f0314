"""A session of another user is refused where it is not at home, too: the rows of the table at three nodes."""

from __future__ import annotations

import pytest
from systemkit.cross import taken

from tests.cases.cross_users import TAKES, Take
from tests.cluster.nodes import Nodes


@pytest.mark.parametrize("take", TAKES, ids=str)
def test_a_session_is_its_users_on_every_node(nodes: Nodes, take: Take) -> None:
    """Hers at one node, asked for at another, looked at from the third."""
    number = TAKES.index(take)
    taken(take, (nodes[0], nodes[1], nodes[2]), f"cross-{number}", f"cross/{number}")
