"""``iot-mqtt ctl users``: the users of the grid, the same on every node."""

from __future__ import annotations

from typing import Any

import click

from iot_mqtt.app.ctl.command import assigned, delete_command, list_command, on_node, show_command
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.passwords import ask_password, password_stdin_option
from iot_mqtt.app.terminal import Column, Json, fields, plain, print_columns, together

_USERS = (
    *fields(name="USER", enabled="ENABLED", password="PASSWORD", scram="SCRAM"),  # noqa: S106 - a heading
    Column("GROUPS", lambda item: ", ".join(map(plain, item["groups"])) or "-"),
    Column("CLIENT IDS", lambda item: ", ".join(map(plain, item["client_ids"])) or "any"),
    Column("LIMITS", lambda item: " ".join(f"{name}={plain(value)}" for name, value in item["limits"].items()) or "-"),
)

_password_options = together(
    password_stdin_option,
    click.option("--scram", is_flag=True, help="Let the user log in by SCRAM-SHA-256, too."),
)


@click.group()
def users() -> None:
    """Users of the grid: known on every node, changed within a second."""


list_command(
    users,
    "users",
    _USERS,
    "List users. PASSWORD: the kind of its hash; the hash itself is never shown.",
    click.option("--contains", help="Only names with this part."),
)


def _show(user: Json, as_json: bool) -> None:
    print_columns(_USERS, user, as_json)
    if not as_json and not user["in_chain"]:
        click.echo("! no listener asks for users of the grid: auth.chain has no link grid", err=True)


show_command(users, "users/{user}", "Show one user.", _show)


@users.command("add")
@click.argument("user")
@_password_options
@click.option("--hash", "encoded", help="A hash that was made elsewhere: argon2id, bcrypt, or of mosquitto_passwd.")
@click.option("--group", "groups", multiple=True, help="A group that the user is in; may be repeated.")
@click.option("--client-id", "client_ids", multiple=True, help="Pattern of client ids that the user may have; repeat.")
@click.option("--without-password", is_flag=True, help="No password fits; for users that another link lets in.")
@on_node
def users_add(
    node: Node,
    as_json: bool,
    user: str,
    password_stdin: bool,
    scram: bool,
    encoded: str | None,
    groups: tuple[str, ...],
    client_ids: tuple[str, ...],
    without_password: bool,
) -> None:
    """Add USER; asks for the password."""
    body: dict[str, Any] = {"name": user, "groups": list(groups), "client_ids": list(client_ids)}
    if encoded is not None:
        body["hash"] = encoded
    elif not without_password:
        body |= {"password": ask_password(password_stdin), "scram": scram}
    _show(node.post("users", body=body), as_json)


@users.command("passwd")
@click.argument("user")
@_password_options
@on_node
def users_passwd(node: Node, as_json: bool, user: str, password_stdin: bool, scram: bool) -> None:
    """Set the password of USER. It is asked for at the next CONNECT; clients that are connected stay."""
    _show(node.post("users", user, body={"password": ask_password(password_stdin), "scram": scram}), as_json)


@users.command("enable")
@click.argument("user")
@on_node
def users_enable(node: Node, as_json: bool, user: str) -> None:
    """Let USER in again."""
    _show(node.post("users", user, body={"enabled": True}), as_json)


@users.command("disable")
@click.argument("user")
@on_node
def users_disable(node: Node, as_json: bool, user: str) -> None:
    """Let nobody in as USER, whatever vouches for him, and disconnect who is in, on every node."""
    _show(node.post("users", user, body={"enabled": False}), as_json)


@users.command("groups")
@click.argument("user")
@click.argument("groups", nargs=-1)
@on_node
def users_groups(node: Node, as_json: bool, user: str, groups: tuple[str, ...]) -> None:
    """Set the groups of USER to exactly these; none take all away."""
    _show(node.post("users", user, body={"groups": list(groups)}), as_json)


@users.command("client-ids")
@click.argument("user")
@click.argument("patterns", nargs=-1)
@on_node
def users_client_ids(node: Node, as_json: bool, user: str, patterns: tuple[str, ...]) -> None:
    """Set the patterns of client ids that USER may have; none: any. Asked for at the next CONNECT."""
    _show(node.post("users", user, body={"client_ids": list(patterns)}), as_json)


@users.command("limits")
@click.argument("user")
@click.argument("limits", nargs=-1, metavar="[LIMIT=VALUE]...")
@on_node
def users_limits(node: Node, as_json: bool, user: str, limits: tuple[str, ...]) -> None:
    """Set the limits of USER to exactly these; none take all away. `ctl limits set --help` lists them."""
    _show(node.post("users", user, body={"limits": assigned(limits, "LIMIT=VALUE")}), as_json)


delete_command(users, "delete", "users/{user}", "deleted", "Delete USER, and disconnect who is in, on every node.")
