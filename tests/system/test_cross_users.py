"""The table of what one user gains of another's, at one node, by MQTT and by gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from systemkit.cross import Place, access_settings, places, prepare
from systemkit.cross_suite import CrossUserSuite
from systemkit.process import MOSQUITTO
from systemkit.starting import brokers

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="rules and users are configured differently there")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One node for the whole table, with users and rules of the grid."""
    folder = tmp_path_factory.mktemp("cross")
    with brokers(folder) as start:
        node = start(settings=access_settings(folder))
        prepare(node)
        yield places([node])


class TestCrossUsers(CrossUserSuite):
    """Each row."""
