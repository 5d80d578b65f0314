"""``iot-mqtt ctl listeners``: the ports that clients connect to, opened and closed while the node runs."""

from __future__ import annotations

from typing import Any

import click
import yaml

from iot_mqtt.app.config.yaml_loader import yaml_of
from iot_mqtt.app.ctl.command import delete_command, list_command, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import NODE, Column, Json, fields, numbers, print_one

_LISTENERS = (
    *fields(name="NAME"),
    NODE,
    Column("STATE", lambda item: "open" if item["open"] else "closed"),
    Column("PROTOCOL", lambda item: f"{item['protocol']} ({item['codec']})" if item["codec"] else item["protocol"]),
    *fields(host="HOST", port="PORT", tls="TLS"),
    *numbers(connections="CONNECTIONS", accepted="ACCEPTED", refused="REFUSED"),
    *fields(layer="SAID BY"),
)


@click.group()
def listeners() -> None:
    """The ports that clients connect to."""


list_command(
    listeners,
    "listeners",
    _LISTENERS,
    "List the listeners, open or not. SAID BY: the highest layer of the configuration that has a key of it.",
)


@listeners.command("open")
@click.argument("name")
@click.argument("keys", nargs=-1, metavar="[KEY=VALUE]...")
@on_node
def listeners_open(node: Node, as_json: bool, name: str, keys: tuple[str, ...]) -> None:
    """Open the port NAME, now and after each restart, with the keys of `listeners.NAME`.

    \b
    iot-mqtt ctl listeners open line7 codec=modbus port=5020 host=10.0.7.1
    iot-mqtt ctl listeners open mqtts tls.cert=/etc/iot/cert.pem tls.key=/etc/iot/key.pem
    iot-mqtt ctl listeners open ws           as it is configured
    """  # noqa: D301 - a sign of click's
    print_one(node.post("listeners", name, body=tree_of(keys)), as_json)


delete_command(
    listeners,
    "close",
    "listeners/{name}",
    "closed",
    "Close the port NAME, now and after each restart: its clients are disconnected (version 5: 0x98).",
)


def tree_of(keys: tuple[str, ...]) -> Json:
    """``a.b=1`` as ``{"a": {"b": 1}}``."""
    tree: dict[str, Any] = {}
    for text in keys:
        key, value = assignment(text)
        *sections, name = key.split(".")
        below = tree
        for section in sections:
            below = below.setdefault(section, {})
            if not isinstance(below, dict):
                raise click.UsageError(f"{key}: {section} is a value already")
        below[name] = value
    return tree


def assignment(text: str) -> tuple[str, Any]:
    """``KEY=VALUE``: the value as YAML has it."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"{text!r} is not KEY=VALUE")
    try:
        return key, yaml_of(value)
    except (yaml.YAMLError, ValueError):
        return key, value
