"""``iot-mqtt ctl nodes``: each node of the cluster, as it says it is itself."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, amount, at, field, numbers, print_items, print_one, span

_NODES = (
    field("node_id", "NODE"),
    field("version"),
    at("started_at", "STARTED"),
    Column("UP", lambda item: span(item["uptime"]), right=True),
    *numbers(clients="CLIENTS", sessions="SESSIONS", subscriptions="SUBS", retained="RETAINED"),
    amount("retained_bytes", "KEPT"),
    Column("DRAIN", lambda item: str(item["drain"]["state"])),
)


@click.group()
def nodes() -> None:
    """Nodes of the cluster."""


@nodes.command("list")
@on_node
def nodes_list(node: Node, as_json: bool) -> None:
    """List nodes. Who does not answer is named on standard error."""
    print_items(_NODES, node.listed("nodes"), as_json)


@nodes.command("show")
@click.argument("name")
@on_node
def nodes_show(node: Node, as_json: bool, name: str) -> None:
    """Show one node."""
    print_one(node.get("nodes", name), as_json)
