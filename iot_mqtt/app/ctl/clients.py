"""``iot-mqtt ctl clients | subscriptions``: who is connected, and what they listen to."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import limit_option, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import NODE, at, field, fields, number, numbers, print_done, print_items, print_one


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
@limit_option
@on_node
def clients_list(node: Node, as_json: bool, limit: int | None) -> None:
    """List connected clients."""
    print_items(_CLIENTS, node.items("clients", query={}, limit=limit), as_json)


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


@click.group()
def subscriptions() -> None:
    """Subscriptions."""


_SUBSCRIPTIONS = (
    field("client_id", "CLIENT"),
    field("filter"),
    number("qos", "QOS"),
    *fields(no_local="NO LOCAL", retain_as_published="AS PUBLISHED"),
    *numbers(retain_handling="HANDLING", identifier="ID"),
    NODE,
)


@subscriptions.command("list")
@click.option("--client", help="Only of this client.")
@limit_option
@on_node
def subscriptions_list(node: Node, as_json: bool, client: str | None, limit: int | None) -> None:
    """List subscriptions."""
    query = {} if client is None else {"client_id": client}
    print_items(_SUBSCRIPTIONS, node.items("subscriptions", query=query, limit=limit), as_json)
