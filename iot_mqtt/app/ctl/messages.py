"""``iot-mqtt ctl retained | publish``: messages that the node keeps, and one of its own."""

from __future__ import annotations

import os
import sys
from base64 import b64encode
from typing import Any

import click

from iot_mqtt.app.ctl.command import list_command, on_node, show_command
from iot_mqtt.app.ctl.node import PAGE, Node
from iot_mqtt.app.terminal import at, field, numbers, print_done, print_text


@click.group()
def retained() -> None:
    """Retained messages."""


_RETAINED = (
    field("topic"),
    *numbers(size="BYTES", qos="QOS"),
    field("publisher"),
    at("expires_at", "EXPIRES"),
)


list_command(
    retained,
    "retained",
    _RETAINED,
    "List retained messages, without their payloads.",
    click.option("--filter", default="#", show_default=True, help="Only what this MQTT filter matches."),
)


show_command(retained, "retained/{topic}", "Show one retained message.")


@retained.command("delete")
@click.argument("topic", required=False)
@click.option("--filter", "filter_", help="All that this MQTT filter matches, instead of one.")
@on_node
def retained_delete(node: Node, as_json: bool, topic: str | None, filter_: str | None) -> None:
    """Remove one retained message, or all that a filter matches."""
    if (topic is None) == (filter_ is None):
        raise click.UsageError("either TOPIC or --filter says what to remove")
    if topic is not None:
        node.delete("retained", topic)
        print_done({"deleted": topic}, as_json)
        return
    removed = 0
    while True:
        found = node.delete("retained", query={"filter": str(filter_), "limit": str(PAGE)})
        removed += found["removed"]
        if not found["more"] or not found["removed"]:
            break
    print_done({"removed": removed}, as_json)


@click.command()
@click.argument("topic")
@click.argument("payload")
@click.option("--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("--retain", is_flag=True, help="Keep it as the topic's retained message.")
@click.option("--message-expiry", type=click.IntRange(0, 0xFFFF_FFFF), help="Seconds.")
@click.option("--content-type", help="Such as application/json.")
@click.option("--payload-format", type=click.IntRange(0, 1), help="1: the payload is text.")
@click.option("--response-topic", help="Where answers should go.")
@click.option("--correlation-data", help="What an answer should bring back.")
@click.option("--user-property", "users", nargs=2, multiple=True, metavar="NAME VALUE", help="May be repeated.")
@on_node
def publish(node: Node, as_json: bool, topic: str, payload: str, **asked: Any) -> None:
    """Publish PAYLOAD to TOPIC as the node; `-` reads the payload from standard input.

    What is printed is how many sessions of the node it went to, and whether sessions of other nodes get it, too.
    """
    data = sys.stdin.buffer.read() if payload == "-" else os.fsencode(payload)
    correlation = asked["correlation_data"]
    properties = {
        "content_type": asked["content_type"],
        "payload_format_indicator": asked["payload_format"],
        "response_topic": asked["response_topic"],
        "correlation_data": None if correlation is None else b64encode(os.fsencode(correlation)).decode(),
        "user_properties": [list(pair) for pair in asked["users"]] or None,
    }
    body = {
        "topic": topic,
        "payload_base64": b64encode(data).decode(),
        "qos": asked["qos"],
        "retain": asked["retain"],
        "message_expiry_interval": asked["message_expiry"],
        "properties": {name: value for name, value in properties.items() if value is not None} or None,
    }
    found = node.post("publish", body=body)
    others = " here, and others at other nodes" if found.get("elsewhere") else ""
    print_text(found, as_json, f"matched {found['matched']}{others}")
