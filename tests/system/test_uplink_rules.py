"""Rules of the uplink on a real node: reloaded while messages wait, across kills, and tried on its log."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from systemkit import wire
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import StartBroker
from systemkit.waiting import wait_until

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no uplink")

SETTINGS = {
    "uplink.kind": "file",
    "uplink.file.rotate_seconds": 0.2,
    "mqtt.sys_interval": 0,
    "listeners.gateway.enabled": "false",
}
EACH = 50

Rules = list[dict[str, object]]


def write(broker: BrokerProcess, rules: Rules) -> None:
    """Into the file that the node reads: ``application.yaml`` of its working directory."""
    (broker.folder / "application.yaml").write_text(yaml.safe_dump({"uplink": {"rules": rules}}))


def command(broker: BrokerProcess, *arguments: str) -> list[str]:
    return [*our_command(), "ctl", "--data-dir", str(broker.data_dir), *arguments]


def ctl(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    told = command(broker, *arguments)
    return subprocess.run(told, capture_output=True, text=True, env=clean_environment(), timeout=60, check=False)


def lines(broker: BrokerProcess, topic: str) -> list[Any]:
    """What a reader of the files finds, in the order of their names."""
    paths = sorted((broker.data_dir / "uplink" / topic).glob("dt=*/*.jsonl"))
    return [json.loads(line)["payload"] for path in paths for line in path.read_bytes().splitlines()]


def waiting(broker: BrokerProcess) -> int:
    token = (broker.data_dir / "admin.token").read_text().strip()
    return int(json.loads(broker.http("/api/v1/uplink", token=token))["lag_messages"])


def publish(broker: BrokerProcess, name: str) -> None:
    """So many messages for each of two topics, acknowledged."""
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect(f"writer-{name}")
        for number in range(EACH):
            for topic in ("up/w", "side/w"):
                client.publish(topic, b'{"of": "%s", "n": %d}' % (name.encode(), number), qos=1, packet_id=1)
                client.expect(wire.PUBACK)


def numbered(name: str, wanted: Callable[[int], bool] = lambda number: True) -> list[dict[str, object]]:
    return [{"of": name, "n": number} for number in range(EACH) if wanted(number)]


def test_a_reload_loses_nothing_that_waits(start_broker: StartBroker) -> None:
    """The directory is in the way, the rules change twice and the node is killed: each message goes by the rules of its
    time, and the files have it once.
    """
    broker = start_broker(settings=SETTINGS)
    broker.terminate()
    folder = broker.data_dir / "uplink"
    folder.rename(broker.data_dir / "aside")
    folder.write_bytes(b"in the way")
    write(broker, [{"filter": "up/#", "to": "first"}])
    broker.start()

    publish(broker, "a")
    write(broker, [{"filter": "side/#", "to": "second.{topic[0]}", "when": "payload.n >= 10"}])
    said = ctl(broker, "uplink", "reload")
    assert said.returncode == 0, said.stderr
    assert '- {"filter": "up/#", "to": "first"}' in said.stdout
    assert f"{EACH} messages wait, under the rules of before" in said.stdout
    publish(broker, "b")

    write(broker, [{"filter": "side/#", "when": "payload.n >"}])
    refused = ctl(broker, "uplink", "reload")
    assert refused.returncode == 1
    assert "application.yaml" in refused.stderr
    assert "when: column 12: expected a name" in refused.stderr
    publish(broker, "c")

    # The rules change with a restart this time, and it is no peaceful one.
    write(broker, [{"filter": "up/#", "to": "third"}])
    broker.restart()
    publish(broker, "d")
    assert lines(broker, "first") == []
    folder.unlink()
    wait_until(lambda: waiting(broker) == 0, 20)
    publish(broker, "e")
    wait_until(lambda: len(lines(broker, "third")) >= 2 * EACH and waiting(broker) == 0, 20)

    assert lines(broker, "first") == numbered("a")
    assert lines(broker, "second.side") == [
        *numbered("b", lambda number: number >= 10),
        *numbered("c", lambda number: number >= 10),
    ]
    assert lines(broker, "third") == [*numbered("d"), *numbered("e")]
    listed = json.loads(ctl(broker, "uplink", "rules", "--json").stdout)
    assert [(one["to"], one["matched"] >= EACH) for one in listed["items"]] == [("third", True)]
    assert listed["earlier"] == 0


def test_a_pipe_in_place_of_the_configuration_is_refused_at_once(start_broker: StartBroker) -> None:
    """Nobody writes into it, so that reading it would never end. The rules stay, and change when the file is back.

    Of file systems that hang, ``test_rereading`` and ``test_file_looks`` are.
    """
    broker = start_broker(settings=SETTINGS)
    broker.terminate()
    write(broker, [{"filter": "up/#", "to": "first"}])
    broker.start()
    path = broker.folder / "application.yaml"
    path.unlink()
    os.mkfifo(path)
    refused = ctl(broker, "uplink", "reload")
    assert refused.returncode == 1 and "is no plain file" in refused.stderr, refused
    publish(broker, "a")
    path.unlink()
    write(broker, [{"filter": "up/#", "to": "second"}])
    said = ctl(broker, "uplink", "reload")
    assert said.returncode == 0 and '+ {"filter": "up/#", "to": "second"}' in said.stdout, said
    publish(broker, "b")
    wait_until(lambda: waiting(broker) == 0 and len(lines(broker, "second")) == EACH, 20)
    assert (lines(broker, "first"), lines(broker, "second")) == (numbered("a"), numbered("b"))


def test_rules_are_tried_on_what_was_recorded(start_broker: StartBroker) -> None:
    """On the node's log, and on the files that it wrote; nothing is sent by it, and publishers are served meanwhile."""
    broker = start_broker(settings=SETTINGS)
    publish(broker, "a")
    wait_until(lambda: waiting(broker) == 0, 10)
    rules = broker.folder / "others.yaml"
    rules.write_text(yaml.safe_dump([{"filter": "up/#", "when": "payload.n >= 40", "to": "late"}]))
    tried = ctl(broker, "uplink", "test", "--rules", str(rules), "--json")
    assert tried.returncode == 0, tried.stderr
    found = json.loads(tried.stdout)
    assert (found["messages"], found["unmatched"], found["changed"]) == (EACH, 40, EACH)
    assert found["rules"][0]["to"] == {"late": 10}
    (file, *more) = sorted((broker.data_dir / "uplink" / "iot.readings").glob("dt=*/*.jsonl"))
    of_file = json.loads(ctl(broker, "uplink", "test", "--file", str(file), "--json").stdout)
    assert of_file["changed"] == 0
    assert of_file["messages"] == EACH or more
    assert sorted(one.name for one in (broker.data_dir / "uplink").iterdir() if one.name[0] != ".") == ["iot.readings"]
