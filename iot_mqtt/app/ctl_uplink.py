"""``iot-mqtt ctl uplink``: whether what goes up arrives, and how much waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from iot_mqtt.app.ctl_command import on_node, print_form, print_json
from iot_mqtt.app.ctl_node import Node
from iot_mqtt.app.ctl_tables import plain, size, span

Json = Mapping[str, Any]


@click.group()
def uplink() -> None:
    """What leaves towards the data platform."""


@uplink.command("status")
@on_node
def uplink_status(node: Node, as_json: bool) -> None:
    """How far the sink has what goes up, and what keeps it."""
    found = node.get("uplink")
    if as_json:
        print_json(found)
    else:
        print_form(_screen(found))


def _screen(found: Json) -> Iterator[tuple[str, str]]:
    yield "sink", f"{found['kind']}: {'takes messages' if found['trouble'] is None else plain(found['trouble'])}"
    yield "state", "ok" if found["state"] == "ok" else "ALARM"
    for alarm in found["alarms"]:
        yield "alarm", plain(alarm)
    oldest = f", the oldest for {span(found['lag_seconds'])}" if found["lag_messages"] else ""
    yield "waiting", f"{found['lag_messages']} messages, {size(found['lag_bytes'])}{oldest}"
    yield "of these", f"{found['unread_messages']} in the log only, {found['in_flight_messages']} with the sink"
    yield "since the start", f"{found['sent']} sent ({size(found['sent_bytes'])}), {found['safe']} safe"
    yield "failures", plain(found["failures"])
    yield "lost", f"{found['lost']} messages"
    yield "place", f"{found['position']} of {found['end']} in spool {plain(found['spool'])}"
