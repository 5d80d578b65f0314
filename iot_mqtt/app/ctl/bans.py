"""``iot-mqtt ctl bans``: who is not let in, whoever he is."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import delete_command, list_command, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, Json, field, fields, moment, plain, print_text


def _whom(item: Json) -> str:
    return ", ".join(f"{name} {plain(item[name])}" for name in ("client", "user", "address") if item[name] is not None)


def _until(item: Json) -> str:
    return "for good" if item["until"] is None else moment(item["until"])


_BANS = (
    field("id"),
    Column("WHO", _whom),
    Column("UNTIL", _until),
    *fields(cause="CAUSE", reason="REASON", made_by="BY"),
)


@click.group()
def bans() -> None:
    """Who is not let in, whoever he is: known on every node, seen within a second."""


list_command(bans, "bans", _BANS, "List bans. CAUSE: operator, or what a node has imposed one for.")


@bans.command("add")
@click.option("--client", help="A client id, or a pattern with * and ?.")
@click.option("--user", help="A user.")
@click.option("--address", help="An address, or a network such as 10.0.7.0/28.")
@click.option("--seconds", type=click.IntRange(1), help="It is over after so many; without it, it is for good.")
@click.option("--reason", default="", help="What clients and other operators are told.")
@on_node
def bans_add(node: Node, as_json: bool, **whom: object) -> None:
    """Ban whom all of the options fit. Who is there is disconnected; sessions stay."""
    made = node.post("bans", body=whom)
    print_text(made, as_json, made["id"])


delete_command(bans, "remove", "bans/{id}", "removed", "Take a ban back.")
