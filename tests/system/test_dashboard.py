"""The dashboard in a real Chromium, as a person uses it; its sources by their own checks, its types by the API's."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from systemkit.dashboard import (
    CHROMIUM,
    WEB,
    bad_names,
    browse,
    buildable,
    client,
    example_gateway,
    person,
    retained,
    traffic,
)
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers
from systemkit.users import call

CONVEYOR = "conveyor-of-hall-9"
#: Three that look like press-7 where characters that nobody sees are not written out.
LOOK_ALIKE = ("\u202e7-sserp", "press\u200b-7", "pre\u00adss-7")

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="it has no dashboard"),
    pytest.mark.skipif(not buildable(), reason="Node.js is not there, or scripts/setup.sh web has not run"),
]


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all of it, which lists new devices soon."""
    with brokers(tmp_path_factory.mktemp("dashboard")) as start:
        yield start(settings={"devices.seen_interval": 1})


@pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium")
def test_the_dashboard_as_a_person_uses_it(shared_broker: BrokerProcess) -> None:
    """All that ``web/tests/browser/pages.mjs`` does; every page is photographed and held against axe."""
    settings = person(shared_broker, "eve")
    with client(shared_broker, CONVEYOR) as conveyor, bad_names(shared_broker) as command:
        conveyor.publish("hall/9/state", b"runs", qos=1, packet_id=1, retain=True)
        value = b'{"celsius": 21.5, "name": "<img src=x onerror=alert(1)>"}'
        conveyor.publish("hall-9/press/temp", value, qos=1, packet_id=2, retain=True)
        conveyor.publish("up/hall-9/<img src=x onerror=alert(1)>", value, qos=1, packet_id=3)
        with ExitStack() as stack:
            for name in LOOK_ALIKE:
                stack.enter_context(client(shared_broker, name))
            found = stack.enter_context(traffic(shared_broker, conveyor, CONVEYOR))
            stack.enter_context(example_gateway(shared_broker, "press-hall"))
            seen = {"client": CONVEYOR, "gateway": "press-hall", "command": command, **found}
            print(browse("pages", {**settings, **seen}))


@pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium")
def test_a_long_list_is_scrolled_to_its_end(shared_broker: BrokerProcess) -> None:
    """No page of it is asked for twice or given up, however fast one scrolls; what it feels like is printed."""
    rows = 3000
    with retained(shared_broker, rows):
        seen = {"rows": rows, "typed": "hall/line-2/press-7/#", "found": "hall/line-2/press-7/temperature"}
        print(browse("scrolling", {**person(shared_broker, "lea"), **seen}))


@pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium")
def test_a_page_says_that_its_node_hangs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All that ``web/tests/browser/silence.mjs`` does, with a node of its own, which is stopped and goes on."""
    with brokers(tmp_path_factory.mktemp("silence")) as start:
        broker = start()
        browse("silence", {**person(broker, "eve"), "pid": broker.pid})


#: Lighthouse is a hundred packages, which ``scripts/setup.sh tests`` brings.
LIGHTHOUSE = Path(__file__).parent / "js"


@pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium")
@pytest.mark.skipif(not (LIGHTHOUSE / "node_modules" / "lighthouse").is_dir(), reason="scripts/setup.sh tests")
def test_lighthouse_finds_little_to_mend(shared_broker: BrokerProcess) -> None:
    """95 or more of 100; for performance where nothing else keeps the machine busy."""
    pages = [("desktop", "#/"), ("mobile", "#/clients")]
    strict = os.getloadavg()[0] < 1.5 * (os.cpu_count() or 1)
    told = {**person(shared_broker, "lis"), "pages": pages, "strict": strict}
    print(browse("lighthouse", told, LIGHTHOUSE))


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
    files = [path.read_text(encoding="utf-8") for path in (WEB / "src").rglob("types.ts")]
    assert len(files) >= 5
    pattern = r"/\*\* schema: (\w+) \*/\nexport interface \w+ \{\n(.*?)\n\}"
    found = [one for text in files for one in re.findall(pattern, text, re.DOTALL)]
    assert len(found) >= 25
    for name, body in found:
        fields = re.findall(r"^  (\w+)\??:", body, re.MULTILINE)
        assert fields
        # The node is added to whatever comes from several.
        assert {*fields} - {"node"} <= schemas[name]["properties"].keys(), name
