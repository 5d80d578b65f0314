"""What ``docs/cluster.md`` asks of Kafka and Spark, typed as the page has it; the node's grid is its own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest
from systemkit.forking import clean_environment
from systemkit.pages import ROOT, blocks
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import StartBroker

from tests.enginekit.jvm import QUICK
from tests.enginekit.kafka import KafkaServer

ME = "tests/system/test_kafka_page.py::test_what_is_published_becomes_a_row_by_way_of_kafka"

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no pipeline"),
    pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="needs mosquitto_pub"),
    pytest.mark.timeout(600),
]


def typed(broker: BrokerProcess, command: str) -> str:
    """What a command prints whose node this is."""
    here = {
        "1884": [str(broker.ports["mqtt"])],
        ".cluster/broker.yaml": [str(broker.options.config)],
        "node.data_dir=.cluster/node-1": [f"node.data_dir={broker.data_dir}"],
        ".venv/bin/iot-mqtt": our_command(),
    }
    line = [part for word in shlex.split(command) for part in here.get(word, [word])]
    environment = clean_environment() | QUICK | {"PATH": os.environ["PATH"]}
    done = subprocess.run(line, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


def test_what_is_published_becomes_a_row_by_way_of_kafka(
    start_broker: StartBroker, kafka: KafkaServer, tmp_path: Path
) -> None:
    """The job reads the cluster's Kafka with the same file as the node, and has nothing else to go by."""
    (block,) = [one for one in blocks(ROOT / "docs" / "cluster.md") if ME in one.marked("run by")]
    publish, clean = (command.text for command in block.commands)
    broker = start_broker(config=kafka.broker_file(tmp_path / "broker.yaml"))
    typed(broker, publish)
    assert "clean: read " in typed(broker, clean)
    files = [str(path) for path in (broker.data_dir / "pipeline" / "tables" / "clean").glob("dt=*/batch=*/*.parquet")]
    found = duckdb.sql(f"SELECT seq, tag, value FROM read_parquet({files}) WHERE device LIKE '%press-7'").fetchall()
    assert found == [(1, "temperature", 71.3)]
