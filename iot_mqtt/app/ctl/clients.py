"""``iot-mqtt ctl clients``: who is connected."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import limit_option, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import NODE, at, field, fields, numbers, print_done, print_items, print_one


@click.group()
def clients() -> None:
    """Connected clients."""


_CLIENTS = (
    field("client_id", "CLIENT"),
    *fields(username="USER", peer="PEER", listener="LISTENER", protocol="PROTOCOL"),
    at("connected_at", "CONNECTED"),
    *numbers(subscriptions="SUBS", inflight="INFLIGHT", queued="QUEUED", bytes_received="IN", bytes_sent="OUT"),
    NODE,
)


@clients.command("list")
@click.option("--prefix", help="Only client ids that begin like this.")
@click.option("--user", help="Only of this user; empty: of none.")
@click.option("--address", help="Only from this address or network.")
@click.option("--listener", help="Only at this listener.")
@limit_option
@on_node
def clients_list(node: Node, as_json: bool, limit: int | None, **asked: str | None) -> None:
    """List connected clients."""
    query = {name: value for name, value in asked.items() if value is not None}
    print_items(_CLIENTS, node.items("clients", query=query, limit=limit), as_json)


@clients.command("show")
@click.argument("client")
@on_node
def clients_show(node: Node, as_json: bool, client: str) -> None:
    """Show one connected client."""
    print_one(node.get("clients", client), as_json)


@clients.command("kick")
@click.argument("client")
@on_node
def clients_kick(node: Node, as_json: bool, client: str) -> None:
    """Close a client's connection; it may come back."""
    node.delete("clients", client)
    print_done({"kicked": client}, as_json)
