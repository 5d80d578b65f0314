"""Three nodes in one real Chromium: whichever of them is asked, its pages answer for all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from systemkit import wire
from systemkit.access import ANONYMOUS, attempt
from systemkit.dashboard import CHROMIUM, browse, buildable, example_gateway, person
from systemkit.plain import Plain
from systemkit.scales import CODEC, terminal, wheel
from systemkit.users import call, put_user
from systemkit.vendors import listeners

from tests.cluster.nodes import Nodes
from tests.cluster.test_nodes_basics import enter, send, unique
from tests.enginekit.kafka import KafkaServer
from tests.ports import free_port

ADMINISTRATIVE_ACTION, BANNED = 0x98, 0x8A
#: Messages a second that come to each node, and of these to one topic that all nodes get.
RATE, OF_ONE_TOPIC = 150, 10

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or not buildable(), reason="needs Chromium, Node.js and scripts/setup.sh web"
)


def test_the_dashboard_of_one_node_answers_for_all(nodes: Nodes) -> None:
    """All that ``web/tests/browser/nodes.mjs`` does at the first node, about a client of the second one; at the end it
    makes the third one stand still.
    """
    asked, other, stopped = nodes
    name = unique("conveyor-of-three")
    settings = person(asked, unique("shift-lead"))
    try:
        with ExitStack() as stack:
            client = enter(stack, other, name)
            browse(
                "nodes",
                {
                    **settings,
                    "client": name,
                    "at": other.name,
                    "nodes": [node.name for node in nodes],
                    "mqtt": {node.name: node.port for node in nodes},
                    "stopped": {"node": stopped.name, "pid": stopped.pid},
                },
            )
            assert client.expect(wire.DISCONNECT).reason() == ADMINISTRATIVE_ACTION
            client.until_closed()
        for node in (asked, other):
            guest, answer = attempt(node, ANONYMOUS, name, version=5)
            with guest:
                assert answer.reason() == BANNED
    finally:
        # It is known that it is not there: what starts it again does.
        stopped.kill()
        # The nodes are those of other tests, too.
        for ban in call(asked, "GET", "bans")[1]["items"]:
            if ban["client"] == name:
                call(asked, "DELETE", f"bans/{ban['id']}")


@contextmanager
def publishing(nodes: Nodes, prefix: str, lines: int = 4, presses: int = 25) -> Iterator[None]:
    """At each node a machine says its values, again and again: those of presses of several lines, and of one press
    more often than of the others.
    """
    over = threading.Event()
    topics = [f"{prefix}/line-{line}/press-{press}" for line in range(1, lines + 1) for press in range(2, presses + 2)]

    def say(machine: Plain) -> None:
        said = 0
        while not over.wait(0.1):
            for number in range(OF_ONE_TOPIC // 10):
                machine.publish(f"{prefix}/line-1/press-1", b'{"strokes": %d}' % (said + number))
            for _ in range((RATE - OF_ONE_TOPIC) // 10):
                machine.publish(topics[said % len(topics)], b'{"strokes": %d}' % said)
                said += 1

    with ExitStack() as stack:
        threads = [threading.Thread(target=say, args=[enter(stack, node, keep_alive=0)], daemon=True) for node in nodes]
        for thread in threads:
            thread.start()
            stack.callback(thread.join, 10)
        stack.callback(over.set)
        yield


@pytest.fixture
def nodes_with_kafka(nodes: Nodes, kafka: KafkaServer) -> Iterator[Nodes]:
    """The same nodes with Kafka behind them, and a port for a vendor's terminals."""
    settings = {
        "uplink.kind": "kafka",
        "uplink.kafka.bootstrap_servers": kafka.address,
        "uplink.commands.topic": "null",
        "devices.seen_interval": 1,
    }
    with nodes.told(settings, lambda: listeners({CODEC: free_port()})):
        yield nodes


def test_a_shift_at_three_nodes_with_kafka(nodes_with_kafka: Nodes, kafka: KafkaServer, tmp_path: Path) -> None:
    """All that ``web/tests/browser/shift.mjs`` does at the first node, about what is at the second one."""
    asked, other, _ = nodes = nodes_with_kafka
    gateway, hall, logger = unique("press-hall"), unique("hall-of-three"), unique("logger")
    filter, payloads = f"{hall}/3/#", ["21.25", "21.5", "21.75"]
    told: dict[str, Any] = {
        "at": other.name,
        "nodes": [node.name for node in nodes],
        "gateway": gateway,
        "kept": {"client": logger, "filter": filter, "payloads": payloads},
        "codec": CODEC,
        "wheels": [wheel(tmp_path, version) for version in ("1.0.0", "1.1.0")],
        "trial": {"topic": f"up/{hall}/scrap"},
        "elsewhere": {"topic": f"up/{hall}/scrap", "payload": '{"pieces": 19}', "node": other.name},
        "load": {"prefix": f"live-{hall}", "rate": 3 * OF_ONE_TOPIC},
    }
    with ExitStack() as stack:
        with Plain(other.port, version=5) as away:
            away.connect(logger, clean=False, expiry=3600)
            away.subscribe((filter, 1))
        # A replay by MQTT begins in the log of the node that is asked, whose page says so.
        sensor = enter(stack, asked)
        for payload in payloads:
            send(sensor, f"{hall}/3/temperature", payload.encode(), 1)
        scrap = enter(stack, other)
        for number in range(20):
            send(scrap, told["trial"]["topic"], b'{"pieces": %d}' % number, 1)
        stack.enter_context(example_gateway(other, gateway))
        scale = unique("terminal")
        put_user(asked, scale, new=True, password=f"of-{scale}")
        stack.enter_context(terminal(other, scale, f"of-{scale}"))
        stack.enter_context(publishing(nodes, told["load"]["prefix"]))
        print(browse("shift", {**person(asked, unique("shift-lead"), "admin"), **told}))
    found = [one for one in kafka.read_all("iot.readings") if told["trial"]["topic"].encode() in (one.value or b"")]
    assert len(found) == 20
