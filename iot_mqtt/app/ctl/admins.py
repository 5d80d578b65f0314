"""``iot-mqtt ctl admins``: who may log in at the admin port by name and password, the same on every node."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import list_command, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.passwords import ask_password, password_stdin_option
from iot_mqtt.app.terminal import Column, Json, fields, moment, plain, print_columns, print_done

_ROLES = click.Choice(["viewer", "operator", "admin"])
_ADMINS = (
    *fields(name="NAME", role="ROLE", must_change="MUST CHANGE"),
    Column("MADE", lambda item: moment(item["made_at"])),
    Column("TOKENS", lambda item: plain(_tokens_of(item))),
)
_must_change_option = click.option(
    "--must-change", is_flag=True, help="The user has to set another password before anything else."
)


@click.group()
def admins() -> None:
    """Users of the admin port, with a role: they log in with a browser. Scripts have tokens."""


list_command(admins, "admins", _ADMINS, "List admin users. Passwords are never shown.")


@admins.command("add")
@click.argument("name")
@click.option("--role", type=_ROLES, default="viewer", show_default=True)
@password_stdin_option
@_must_change_option
@on_node
def admins_add(node: Node, as_json: bool, name: str, role: str, password_stdin: bool, must_change: bool) -> None:
    """Add the admin user NAME; asks for the password."""
    body = {"name": name, "role": role, "password": ask_password(password_stdin), "must_change": must_change}
    print_columns(_ADMINS, node.post("admins", body=body), as_json)


@admins.command("password")
@click.argument("name")
@password_stdin_option
@_must_change_option
@on_node
def admins_password(node: Node, as_json: bool, name: str, password_stdin: bool, must_change: bool) -> None:
    """Set the password of NAME; who is logged in as NAME is not any more."""
    body = {"password": ask_password(password_stdin), "must_change": must_change}
    print_columns(_ADMINS, node.post("admins", name, body=body), as_json)


@admins.command("role")
@click.argument("name")
@click.argument("role", type=_ROLES)
@on_node
def admins_role(node: Node, as_json: bool, name: str, role: str) -> None:
    """Give NAME another role; who is logged in as NAME is not any more.

    Tokens that NAME has made have no higher role from then on.
    """
    print_columns(_ADMINS, node.post("admins", name, body={"role": role}), as_json)


@admins.command("remove")
@click.argument("name")
@on_node
def admins_remove(node: Node, as_json: bool, name: str) -> None:
    """Remove NAME; who is logged in as NAME is not any more, on every node within a second.

    Tokens that NAME has made end, too; how many is said.
    """
    tokens = _tokens_of(node.get("admins", name))
    node.delete("admins", name)
    print_done({"removed": name, "tokens": tokens}, as_json)


@admins.command("unlock")
@click.argument("name")
@on_node
def admins_unlock(node: Node, as_json: bool, name: str) -> None:
    """Forget wrong passwords at NAME, on every node: the next one is looked at at once."""
    print_columns(_ADMINS, node.post("admins", name, "unlock", body={}), as_json)


def _tokens_of(item: Json) -> int:
    """How many tokens end with a user; at a node of an older version none does."""
    return int(item.get("tokens", 0))
