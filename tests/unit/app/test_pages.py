"""What pages of the documentation tell people to type."""

from __future__ import annotations

import re
from pathlib import Path

from iot_mqtt.app.config.sections import Config

PAGE = Path(__file__).parents[3] / "docs" / "cluster.md"


def test_the_nodes_of_the_cluster_page_have_ports_and_directories_of_their_own() -> None:
    """No two of them take the same, nor what the broker takes by itself: somebody may have it running."""
    config = Config()
    taken = [listener.port for listener in config.enabled_listeners.values()] + [config.admin.port]
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [line for line in text.splitlines() if " serve --config .cluster/" in line]
    assert len(commands) == 3
    places = [config.node.data_dir]
    for command in commands:
        ports = [int(port) for port in re.findall(r"port=(\d+)", command)]
        assert len(ports) == len(config.enabled_listeners) + 1
        taken += ports
        places += re.findall(r"node\.data_dir=(\S+)", command)
    assert len(set(taken)) == len(taken)
    assert len(set(places)) == 4
