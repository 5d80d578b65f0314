"""The dashboard's page of plugins, as an admin uses it: a vendor's wheels, their report, their frames."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from systemkit.dashboard import CHROMIUM, browse, buildable, person
from systemkit.ports import free_port
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers
from systemkit.vendors import EXAMPLES, Device, listeners

from iot_mqtt.app.ctl.wheels import sha256_of, wheel_of

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="it has no dashboard"),
    pytest.mark.skipif(not buildable(), reason="Node.js is not there, or scripts/setup.sh web has not run"),
    pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium"),
]
CODEC = "acme-scale"


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With a port for terminals of scales, whose plugin is still to come."""
    with brokers(tmp_path_factory.mktemp("plugins")) as start:
        yield start(settings=listeners({CODEC: free_port()}))


def wheel(folder: Path, version: str) -> dict[str, str]:
    """The example's wheel, of some version, and what its vendor has published of it."""
    project = folder / version
    shutil.copytree(EXAMPLES / "vendor-plugin", project, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.pyc"))
    for file in (project / "pyproject.toml", project / "src" / "acme_scale" / "codec.py"):
        file.write_text(file.read_text().replace('version = "1.0.0"', f'version = "{version}"'))
    with wheel_of(project) as built:
        kept = Path(shutil.copy(built, folder))
    return {"path": str(kept), "sha256": sha256_of(kept), "version": version}


@contextmanager
def terminal(broker: BrokerProcess) -> Iterator[None]:
    """A terminal that comes as soon as it is let in, and says a weight again and again."""
    over = threading.Event()

    def weigh() -> None:
        while not over.wait(0.2):
            device = Device(broker, CODEC)
            device.say(b"\x02ID terminal-4\x03")
            if not device.hear(4, 5):
                continue
            while not over.wait(0.2) and not device.is_closed():
                device.say(b"\x02S 01 +0012.345 kg ST\x03")

    weighing = threading.Thread(target=weigh, daemon=True)
    weighing.start()
    try:
        yield
    finally:
        over.set()
        weighing.join(10)


def test_a_vendors_plugin_is_taken_in_checked_watched_and_rolled_back(broker: BrokerProcess, tmp_path: Path) -> None:
    """All that ``web/tests/browser/plugins.mjs`` does."""
    told: dict[str, Any] = {"codec": CODEC, "wheels": [wheel(tmp_path, version) for version in ("1.0.0", "1.1.0")]}
    with terminal(broker):
        browse("plugins", {**person(broker, "ada", "admin"), **told})
