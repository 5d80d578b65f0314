"""``iot-mqtt ctl alarms``: what an operator should know, of all nodes."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, Json, at, field, moment, print_items

_ALARMS = (
    *(field("node", "NODE"), at("since", "SINCE")),
    Column("UNTIL", lambda item: "goes on" if item["until"] is None else moment(item["until"])),
    *(field("code", "ABOUT"), field("text", "ALARM"), field("helps", "HELPS")),
)


@click.group()
def alarms() -> None:
    """What an operator should know: what goes on, since when, what was, and what helps."""


@alarms.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that are over, too: the last 200 of each node.")
@on_node
def alarms_list(node: Node, as_json: bool, everything: bool) -> None:
    """List alarms that go on, the newest first. Who does not answer is named on standard error."""
    found: list[Json] = node.listed("alarms")
    print_items(_ALARMS, [one for one in found if everything or one["until"] is None], as_json)
