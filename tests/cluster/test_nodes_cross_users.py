"""The table of what one user gains of another's, at three nodes: hers, his, and one that is nobody's."""

from __future__ import annotations

import pytest
from systemkit.cross import Place, places
from systemkit.cross_suite import CrossUserSuite

from tests.cluster.nodes import Nodes


@pytest.fixture(scope="module")
def place(_three_nodes: Nodes) -> Place:
    """The nodes that all tests share; users and rules are in the grid since they were started."""
    _three_nodes.mend()
    return places(list(_three_nodes))


class TestCrossUsersOfNodes(CrossUserSuite):
    """Each row."""
