"""``iot-mqtt ctl why --topic TOPIC``: who gets what is published to a topic, and who does not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.saying import said
from iot_mqtt.app.terminal import Json, plain, print_form, print_json, size, span


def show_topic(node: Node, as_json: bool, topic: str) -> None:
    """Ask, and print."""
    found = node.get("topics", topic, "why")
    node.note_missing(found)
    if as_json:
        print_json(found)
        return
    now = time.time()
    for line in said(found["findings"], now):
        click.echo(line)
    click.echo("")
    print_form(_screen(found, now))


def _screen(found: Json, now: float) -> Iterator[tuple[str, str]]:
    yield "topic", plain(found["topic"])
    yield "subscriptions", plain(found["subscriptions"])
    for one in found["subscribers"]:
        yield "subscriber", f"{plain(one['client_id'])}: {_subscription(one)}"
    if found["subscriptions"] > len(found["subscribers"]):
        yield "", f"and {found['subscriptions'] - len(found['subscribers'])} more"
    for one in found["publishers"]:
        there = "" if one["connected"] else ", not connected now"
        ago = span(max(0.0, now - one["at"]))
        yield "published by", f"{plain(one['client_id'])} from {plain(one['peer'])}, {ago} ago{there}"
    if not found["publishers"]:
        yield "published by", "nobody, as far as the flight recorders remember"
    kept = found["retained"]
    yield (
        "retained",
        "none" if kept is None else f"{size(kept['size'])}, QoS {kept['qos']}, of {plain(kept['publisher'])}",
    )
    qos = [str(one) for one in found["recorded"]]
    yield "recorded", f"whoever wants it: QoS {', '.join(qos)}" if qos else "for durable sessions that want it only"
    for one in found["rules"]:
        yield "uplink rule", f"{one['number']}: {plain(one['filter'])} to {plain(one['to'])} ({plain(one['mode'])})"
    if not found["rules"]:
        yield "uplink rule", "none"


def _subscription(one: Json) -> str:
    words = [f"{plain(one['filter'])} (QoS {one['qos']})", "connected" if one["connected"] else "not connected"]
    if not one["allowed"]:
        words.append("may NOT receive it")
    if one["no_local"]:
        words.append("not what it publishes itself")
    return ", ".join([*words, plain(one["node"])])
