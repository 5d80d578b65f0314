"""Every endpoint of a running node is held against its description, with what fits it and what does not.

``API_EXAMPLES`` makes it longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO
from systemkit.starting import StartBroker

from iot_mqtt.admin.token import read_token
from tests.seeds import RUN

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no API")

#: A file beside this one: what cannot be asked of every endpoint.
CONFIG = Path(__file__).with_name("schemathesis.toml")
#: Random requests of each endpoint, beside those that try every constraint.
EXAMPLES = int(os.environ.get("API_EXAMPLES", "5"))
#: For so many, and for those that try every constraint.
SECONDS = 240 + 8 * EXAMPLES


@pytest.mark.timeout(SECONDS + 20)
def test_the_api_is_as_it_is_described(start_broker: StartBroker, tmp_path: Path) -> None:
    """No server error, no undocumented status, no answer that is not as it is described, whatever is asked."""
    broker = start_broker(settings={"uplink.kind": "file"})
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("kept", clean=False, expiry=3600)
        client.subscribe(("kept/#", 1))
    url = f"http://127.0.0.1:{broker.ports['admin']}/api/v1/openapi.json"
    token = read_token(str(broker.data_dir))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)),
        *("run", url, "--header", f"Authorization: Bearer {token}", "--no-color", "--workers", "1"),
        *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", str(RUN)),
        *("--generation-database", "none", "--request-timeout", "20"),
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert found.returncode == 0, found.stdout[-20_000:]
    assert "Tested: " in found.stdout, found.stdout
