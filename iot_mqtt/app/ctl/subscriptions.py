"""``iot-mqtt ctl subscriptions | routes | groups``: who gets what, and making and ending subscriptions for a client."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import list_command, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import NODE, Column, field, fields, number, numbers, plain, print_done, print_items

_SUBSCRIPTIONS = (
    field("client_id", "CLIENT"),
    field("filter"),
    number("qos", "QOS"),
    *fields(no_local="NO LOCAL", retain_as_published="AS PUBLISHED"),
    *numbers(retain_handling="HANDLING", identifier="ID"),
    NODE,
)
_ROUTES = (field("filter"), *numbers(sessions="SESSIONS", connected="CONNECTED"), NODE)
_GROUPS = (
    *fields(group="GROUP", topics="TOPICS"),
    *numbers(members="MEMBERS", connected="CONNECTED", waiting="WAITING"),
    Column("CLIENTS", lambda item: ", ".join(map(plain, item["client_ids"])) or "-"),
    NODE,
)
_topic_option = click.option("--topic", help="Only what messages to this topic go to.")


@click.group()
def subscriptions() -> None:
    """Subscriptions."""


list_command(
    subscriptions,
    "subscriptions",
    _SUBSCRIPTIONS,
    "List subscriptions.",
    click.option("--client", "client_id", help="Only of this client."),
    _topic_option,
)


@subscriptions.command("add")
@click.argument("client")
@click.argument("filter")
@click.option("--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("--no-local", is_flag=True, help="Not what it publishes itself.")
@click.option("--retain-as-published", is_flag=True, help="Whether a message is retained stays to be seen.")
@click.option("--retain-handling", type=click.IntRange(0, 2), default=0, help="Retained: 0 now, 1 if it is new, 2 not.")
@on_node
def subscriptions_add(node: Node, as_json: bool, client: str, **asked: object) -> None:
    """Subscribe for CLIENT, which has a session, to FILTER, with the rights that the client has."""
    found = node.post("sessions", client, "subscriptions", body=asked)
    print_items(_SUBSCRIPTIONS, [found], as_json)


@subscriptions.command("remove")
@click.argument("client")
@click.argument("filter")
@on_node
def subscriptions_remove(node: Node, as_json: bool, client: str, filter: str) -> None:
    """End a subscription of CLIENT, which is not told."""
    node.delete("sessions", client, "subscriptions", filter)
    print_done({"unsubscribed": client, "from": filter}, as_json)


@click.group()
def routes() -> None:
    """Filters that somebody has subscribed to."""


list_command(routes, "routes", _ROUTES, "List filters, and how many sessions have each.", _topic_option)


@click.group()
def groups() -> None:
    """Shared groups: subscriptions of which one member gets each message."""


list_command(
    groups,
    "shared-groups",
    _GROUPS,
    """List shared groups, with a line for each node that has members or messages. WAITING: messages at that node that
    no member has got yet; what waits for a group is the sum over its lines.
    """,
)
