"""The dashboard's page of plugins, as an admin uses it: a vendor's wheels, their report, their frames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from systemkit.dashboard import CHROMIUM, browse, buildable, person
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.scales import CODEC, misnamed, terminal, wheel
from systemkit.starting import brokers
from systemkit.vendors import listeners

from tests.ports import free_port

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="it has no dashboard"),
    pytest.mark.skipif(not buildable(), reason="Node.js is not there, or scripts/setup.sh web has not run"),
    pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium"),
]


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With a port for terminals of scales, whose plugin is still to come."""
    with brokers(tmp_path_factory.mktemp("plugins")) as start:
        yield start(settings=listeners({CODEC: free_port()}))


def test_a_vendors_plugin_is_taken_in_checked_watched_and_rolled_back(broker: BrokerProcess, tmp_path: Path) -> None:
    """All that ``web/tests/browser/plugins.mjs`` does."""
    wheels = [wheel(tmp_path, version) for version in ("1.0.0", "1.1.0")]
    # An entry point's name ends with the first equals sign; this one has none.
    bad = misnamed(wheels[0], tmp_path / "bad", "<script>alert(1)</script><img>")
    told: dict[str, Any] = {"codec": CODEC, "wheels": wheels, "misnamed": bad}
    with terminal(broker):
        browse("plugins", {**person(broker, "ada", "admin"), **told})
