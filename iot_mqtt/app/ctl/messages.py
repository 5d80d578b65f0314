"""``iot-mqtt ctl retained | publish``: messages that the node keeps, and one of its own."""

from __future__ import annotations

import sys
from base64 import b64encode

import click

from iot_mqtt.app.ctl.command import limit_option, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import at, field, numbers, print_done, print_items, print_json, print_one


@click.group()
def retained() -> None:
    """Retained messages."""


_RETAINED = (
    field("topic"),
    *numbers(size="BYTES", qos="QOS"),
    field("publisher"),
    at("expires_at", "EXPIRES"),
)


@retained.command("list")
@click.option("--filter", "filter_", default="#", show_default=True, help="Only what this MQTT filter matches.")
@limit_option
@on_node
def retained_list(node: Node, as_json: bool, filter_: str, limit: int | None) -> None:
    """List retained messages, without their payloads."""
    print_items(_RETAINED, node.items("retained", query={"filter": filter_}, limit=limit), as_json)


@retained.command("show")
@click.argument("topic")
@on_node
def retained_show(node: Node, as_json: bool, topic: str) -> None:
    """Show one retained message."""
    print_one(node.get("retained", topic), as_json)


@retained.command("delete")
@click.argument("topic")
@on_node
def retained_delete(node: Node, as_json: bool, topic: str) -> None:
    """Remove one retained message."""
    node.delete("retained", topic)
    print_done({"deleted": topic}, as_json)


@click.command()
@click.argument("topic")
@click.argument("payload")
@click.option("--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("--retain", is_flag=True, help="Keep it as the topic's retained message.")
@on_node
def publish(node: Node, as_json: bool, topic: str, payload: str, qos: int, retain: bool) -> None:
    """Publish PAYLOAD to TOPIC as the node; `-` reads the payload from standard input."""
    data = sys.stdin.buffer.read() if payload == "-" else payload.encode("utf-8", "surrogateescape")
    found = node.post(
        "publish", body={"topic": topic, "payload_base64": b64encode(data).decode(), "qos": qos, "retain": retain}
    )
    if as_json:
        print_json(found)
    else:
        click.echo(f"matched {found['matched']}")
