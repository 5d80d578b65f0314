"""``iot-mqtt ctl uplink``: whether what goes up arrives, and how much waits."""

from __future__ import annotations

from collections.abc import Iterator

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.rules import COMMANDS
from iot_mqtt.app.terminal import Json, plain, print_screen, size, span

#: Rejected records that the status names; the API has more.
_REJECTED = 5


@click.group()
def uplink() -> None:
    """What leaves towards the data platform."""


for _command in COMMANDS:
    uplink.add_command(_command)


@uplink.command("status")
@on_node
def uplink_status(node: Node, as_json: bool) -> None:
    """How far the sink has what goes up, and what keeps it."""
    print_screen(node.get("uplink"), as_json, _screen)


@uplink.command("commands")
@on_node
def uplink_commands(node: Node, as_json: bool) -> None:
    """Commands to devices that come from Kafka, and what keeps them."""
    print_screen(node.get("uplink", "commands"), as_json, _commands_screen)


def _commands_screen(found: Json) -> Iterator[tuple[str, str]]:
    partitions = ", ".join(str(one) for one in found["partitions"]) or "none"
    yield "topic", f"{plain(found['topic'])}, in the group {plain(found['group'])}"
    yield "state", "ok" if found["state"] == "ok" else "ALARM"
    for alarm in found["alarms"]:
        yield "alarm", plain(alarm)
    yield "partitions here", partitions if found["joined"] else f"{partitions} (not in the group now)"
    yield "waiting", f"{found['lag']} in Kafka, {found['under_way']} under way"
    yield (
        "since the start",
        (
            f"{found['received']} read: {found['accepted']} accepted, {found['repeated']} known before, "
            f"{found['expired']} too late, {found['buried']} dead letters"
        ),
    )
    yield "postponed", f"{found['postponed']} times"
    yield "positions kept", f"{found['commits']} times, {found['restarts']} new consumers"


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
    yield "rejected", f"{found['dead']} are dead letters, {found['dropped']} are nowhere"
    for one in found["rejected"][:_REJECTED]:
        yield "  record", f"{plain(one['id'])} to {plain(one['topic'])}, {size(one['size'])}: {plain(one['reason'])}"
    yield "place", f"{found['position']} of {found['end']} in spool {plain(found['spool'])}"
