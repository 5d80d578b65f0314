"""``uplink.kafka``: what it may say, and that it keeps its secrets."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from iot_mqtt.app.config import read_config
from iot_mqtt.app.config.text import explained, shown
from iot_mqtt.uplink.kafka.settings import producing
from tests.unit.app.config import configkit

KAFKA = "uplink.kind=kafka"
OPTIONS = "uplink.kafka.options"


refusals = partial(configkit.refusals, KAFKA)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ([f"{OPTIONS}.acks=1"], "acks cannot be set: a record is safe when all replicas have it"),
        ([f"{OPTIONS}.enable.idempotence=false"], "enable.idempotence cannot be set"),
        ([f"{OPTIONS}.sasl.password=x"], "uplink.kafka.security.password says that"),
        ([f"{OPTIONS}.partitioner=random"], "records of one key would lose their order"),
        ([f"{OPTIONS}.socket.timeout.ms=soon"], "Invalid value"),
        ([f"{OPTIONS}.sokket.timeout.ms=1"], "No such configuration property"),
        ([f"{OPTIONS}={{client.id: [1]}}"], "client.id must be a text, a number, true or false"),
        ([f"{OPTIONS}=3"], "must be a mapping, not '3'"),
        (["uplink.kafka.security.protocol=sasl_ssl"], "uplink.kafka.security.password: must be set, and username"),
        (
            ["uplink.kafka.security.protocol=ssl", "uplink.kafka.security.ca=/nowhere.pem"],
            "/nowhere.pem does not exist",
        ),
        (["uplink.kafka.bootstrap_servers=[]"], "must name one broker at least"),
        (
            ["uplink.kafka.partitions=6"],
            "uplink.kafka.partitions: is for topics that this node makes: set uplink.kafka.cr",
        ),
        (["uplink.kafka.replication=3"], "uplink.kafka.replication: is for topics that this node makes"),
        (["uplink.kafka.dead_letters=a b"], "must be a topic of Kafka"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(sets: list[str], words: str) -> None:
    """Before anything is served."""
    (line,) = refusals(*sets)
    assert words in line


def test_partitions_are_for_topics_that_are_made() -> None:
    """With the key that makes them nothing is refused, and 0 says nothing."""
    assert refusals("uplink.kafka.partitions=6", "uplink.kafka.replication=3", "uplink.kafka.create_topics=true") == []
    assert refusals("uplink.kafka.partitions=0") == []


def test_options_come_from_all_layers_and_reach_the_library(tmp_path: Path) -> None:
    """A higher layer adds to a lower one, name by name."""
    file = tmp_path / "a.yaml"
    file.write_text("uplink:\n  kind: kafka\n  kafka:\n    options: {socket.timeout.ms: 5000, client.rack: a}\n")
    loaded = read_config(str(file), [f"{OPTIONS}.client.rack=b"], {})
    assert loaded.config.uplink.kafka.options == {"socket.timeout.ms": 5000, "client.rack": "b"}
    told = producing(loaded.config.uplink.kafka)
    assert (told["socket.timeout.ms"], told["client.rack"], told["acks"]) == ("5000", "b", "all")


def test_secrets_are_masked() -> None:
    """The password, and options that are named like one."""
    sets = ["uplink.kafka.security.password=hunter2", f"{OPTIONS}.ssl.key.password=hunter2"]
    loaded = read_config(None, sets, {})
    assert "hunter2" not in shown(loaded)
    assert "hunter2" not in (explained(loaded, OPTIONS) or "hunter2")
    assert "hunter2" not in (explained(loaded, "uplink.kafka.security.password") or "hunter2")
