"""mqtt.js against a real broker over TCP and WebSocket; ``make setup`` installs it (``npm ci`` in ``js/``)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from systemkit.process import BrokerProcess

JS = Path(__file__).parent / "js"


@pytest.fixture(scope="module")
def node() -> str:
    """Node.js with mqtt.js beside it."""
    program = shutil.which("node")
    assert program is not None, "Node.js is missing: apt-get install nodejs npm"
    if not (JS / "node_modules" / "mqtt").is_dir():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=JS, check=True, timeout=120)
    return program


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("transport", ["tcp", "ws"])
def test_mqtt_js(shared_broker: BrokerProcess, node: str, transport: str, version: int) -> None:
    """Each QoS, a large message, retained, will, session with queue, v5 properties."""
    ports = shared_broker.ports
    url = f"ws://127.0.0.1:{ports['ws']}/mqtt" if transport == "ws" else f"mqtt://127.0.0.1:{ports['mqtt']}"
    run = subprocess.run(
        [node, "roundtrip.mjs", url, str(version)], cwd=JS, capture_output=True, text=True, timeout=50, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("ok ") == (8 if version == 5 else 7)
