"""``iot-mqtt ctl limits``: who may use up how much, by user, client id and group."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from iot_mqtt.app.ctl.command import assigned, delete_command, list_command, on_node, show_command
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, fields, plain, print_columns, print_items


def _any(name: str) -> Column:
    return Column(name.upper(), lambda item: "any" if item[name] is None else plain(item[name] or "(none)"))


_RULES = (
    *fields(name="NAME"),
    _any("user"),
    _any("group"),
    _any("client"),
    Column("LIMITS", lambda item: " ".join(f"{name}={plain(value)}" for name, value in item["limits"].items())),
)
SAID = fields(limit="LIMIT", value="VALUE", of="OF", source="SAID BY")


@click.group()
def limits() -> None:
    """Who may use up how much: limits of the grid, changed within a second."""


list_command(limits, "limits", _RULES, "List the documents of limits. Limits of single users are shown by `ctl users`.")


show_command(limits, "limits/{name}", "Show one document of limits.", partial(print_columns, _RULES))


@limits.command("set")
@click.argument("name")
@click.argument("limits", nargs=-1, required=True, metavar="LIMIT=VALUE...")
@click.option("--user", help="Verified user name, or a pattern with * and ?; empty: clients without one.")
@click.option("--client", help="Client id, or a pattern.")
@click.option("--group", help="Group that users are in.")
@click.option("--version", type=int, help="Only if the document is at this version; 0: if there is none.")
@on_node
def limits_set(node: Node, as_json: bool, name: str, limits: tuple[str, ...], **who: Any) -> None:
    """Write the document NAME: exactly these limits, of everybody whom the options speak of.

    \b
    session_expiry        seconds, at most
    queue_messages, queue_bytes, inflight, subscriptions     of one session
    message_rate, byte_rate, message_burst, byte_burst       of PUBLISH, a second, of one client
    rate_action           pause or disconnect
    user_message_rate, user_byte_rate, connections, sessions, retained_messages, retained_bytes
                          of all clients of a user together
    class                 device or application
    """  # noqa: D301 - a sign of click's
    print_columns(_RULES, node.post("limits", name, body=who | assigned(limits, "LIMIT=VALUE")), as_json)


delete_command(limits, "remove", "limits/{name}", "removed", "Take the document NAME away.")


@limits.command("explain")
@click.option("--user", help="Verified user name; without it, an anonymous client.")
@click.option("--client", default="", help="Client id.")
@click.option("--group", "groups", multiple=True, help="Group beside those that the user is in; may be repeated.")
@on_node
def limits_explain(node: Node, as_json: bool, user: str | None, client: str, groups: tuple[str, ...]) -> None:
    """Say what a client may use up, and who says so."""
    found = node.post("auth", "limits", body={"client": client, "groups": list(groups), "user": user})
    print_items(SAID, found["items"], as_json)
