"""``iot-mqtt ctl capture``: write down what goes over the links to gateways, on the node's machine."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import delete_command, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import NODE, field, fields, numbers, print_items, print_one


@click.group()
def capture() -> None:
    """Captures of what gateways say and are told; `iot-mqtt frames` reads them."""


_CAPTURES = (
    field("id", "CAPTURE"),
    *fields(codec="CODEC", gateway="GATEWAY", state="STATE"),
    *numbers(connections="CONNS", bytes="BYTES"),
    field("file"),
    NODE,
)


@capture.command("start")
@click.argument("codec")
@click.option("--gateway", help="Only this gateway, without its logins.")
@click.option("--seconds", type=click.IntRange(1), default=60, show_default=True, help="How long.")
@click.option("--limit", type=click.IntRange(1), default=64 * 1024 * 1024, show_default=True, help="Bytes, at most.")
@on_node
def capture_start(node: Node, as_json: bool, **order: object) -> None:
    """Begin; says where the file is. It may hold passwords, unless --gateway is given."""
    print_one(node.post("captures", body=order), as_json)


@capture.command("list")
@on_node
def capture_list(node: Node, as_json: bool) -> None:
    """List captures that run, and the last that did."""
    print_items(_CAPTURES, node.listed("captures"), as_json)


delete_command(capture, "stop", "captures/{id}", "stopped", "End one; its file stays.")
