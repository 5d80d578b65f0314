"""What a broker has to be told to use a cluster: ``broker.yaml``, and the same as ``--set`` options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from iot_mqtt.app.dotted import nested
from iot_mqtt.app.engines.plan import BROKER, Plan

_HEAD = """\
# The servers of this cluster, for brokers: iot-mqtt serve --config {file} --set node.id=node-1
# Written by `iot-mqtt cluster up`; the token is a secret of this directory.
"""


def settings(plan: Plan) -> dict[str, object]:
    """Dotted keys and values."""
    found: dict[str, object] = {}
    if plan.count("ignite"):
        found["grid.kind"] = "ignite"
        found["grid.ignite.addresses"] = plan.addresses("ignite")
        found["grid.ignite.gateway"] = plan.addresses("ignite", "gateway")
        found["grid.ignite.token"] = plan.token
        found |= _tls(plan, "grid.ignite.tls")
    if plan.count("zookeeper"):
        found["registry.kind"] = "zookeeper"
        found["registry.zookeeper.hosts"] = plan.addresses("zookeeper")
        found |= _tls(plan, "registry.zookeeper.tls")
        if plan.tls is not None:
            found["registry.zookeeper.username"] = "iot-mqtt"
            found["registry.zookeeper.password"] = plan.token
    if plan.count("kafka"):
        found["uplink.kind"] = "kafka"
        found["uplink.kafka.bootstrap_servers"] = plan.addresses("kafka")
        if plan.tls is not None:
            found["uplink.kafka.security.protocol"] = "ssl"
            found |= _tls(plan, "uplink.kafka.security")
    return found


def _tls(plan: Plan, prefix: str) -> dict[str, object]:
    pem = plan.pem(BROKER)
    if pem is None:
        return {}
    files = {"ca": pem.authority, "cert": pem.certificate, "key": pem.key}
    return {f"{prefix}.{part}": str(path) for part, path in files.items()}


def document(plan: Plan, file: Path) -> str:
    """The settings as a configuration file."""
    return _HEAD.format(file=file) + yaml.safe_dump(nested(settings(plan)), sort_keys=False)


def options(plan: Plan) -> Iterator[str]:
    """The settings for a command line."""
    for key, value in settings(plan).items():
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        yield f"--set '{key}={text}'"


def write(file: Path, plan: Plan) -> None:
    """Keep the file up to date; nobody else may read the token."""
    file.touch(mode=0o600)
    file.write_text(document(plan, file), encoding="utf-8")
