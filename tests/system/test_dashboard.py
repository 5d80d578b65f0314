"""The dashboard in a real Chromium, as a person uses it; its sources by their own checks, its types by the API's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.users import call

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
#: Kept when the tests are over: screenshots, for people to look at.
SHOTS = ROOT / "build" / "screenshots"
XSS = "<img src=x onerror=alert(1)>"

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="it has no dashboard"),
    pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not there"),
    pytest.mark.skipif(not (WEB / "node_modules").is_dir(), reason="scripts/setup.sh web has not run"),
]


def connected(broker: BrokerProcess, client_id: str) -> mqtt.Client:
    """A client that is let in."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=client_id, reconnect_on_failure=False)
    client.connect("127.0.0.1", broker.ports["mqtt"])
    client.loop_start()
    return client


@pytest.mark.skipif(shutil.which("chromium") is None, reason="apt-get install chromium")
def test_the_dashboard_as_a_person_uses_it(shared_broker: BrokerProcess) -> None:
    """Log in, find a client by a part of its id, see why it gets nothing, disconnect it; names are text; axe; phone."""
    assert (
        call(shared_broker, "POST", "admins", {"name": "eve", "role": "operator", "password": "of-eve-1234"})[0] == 200
    )
    clients = [connected(shared_broker, "conveyor-of-hall-9"), connected(shared_broker, XSS)]
    settings = {
        "base": f"http://localhost:{shared_broker.ports['admin']}",
        "name": "eve",
        "password": "of-eve-1234",
        "client": "conveyor-of-hall-9",
        "chromium": shutil.which("chromium"),
        "shots": str(SHOTS),
    }
    try:
        command = ["node", "tests/browser/pages.mjs", json.dumps(settings)]
        run = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=240, check=False)
    finally:
        for client in clients:
            client.disconnect()
            client.loop_stop()
        call(shared_broker, "DELETE", "admins/eve")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    "check", [["biome", "ci", "."], ["tsc", "--noEmit"], ["vitest", "run"]], ids=lambda one: one[0]
)
def test_the_sources_are_as_they_should_be(check: list[str]) -> None:
    """Format and lint, types, units."""
    program = WEB / "node_modules" / ".bin" / check[0]
    run = subprocess.run([str(program), *check[1:]], cwd=WEB, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_what_pages_read_is_what_the_api_describes(shared_broker: BrokerProcess) -> None:
    """Each field of an interface with ``schema:`` above it stands in that schema."""
    schemas = call(shared_broker, "GET", "openapi.json")[1]["components"]["schemas"]
    text = (WEB / "src" / "core" / "types.ts").read_text(encoding="utf-8")
    found = re.findall(r"/\*\* schema: (\w+) \*/\nexport interface \w+ \{\n(.*?)\n\}", text, re.DOTALL)
    assert len(found) >= 7
    for name, body in found:
        fields = re.findall(r"^  (\w+)\??:", body, re.MULTILINE)
        assert fields
        # The node is added to whatever comes from several.
        assert {*fields} - {"node"} <= schemas[name]["properties"].keys(), name
