"""``iot-mqtt ctl auth explain``: would this client be let in, and who says so?"""

from __future__ import annotations

import sys
from typing import Any

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import fields, plain, print_items, print_json

_LINKS = fields(link="LINK", verdict="VERDICT", detail="DETAIL", known="KNOWN")


@click.group()
def auth() -> None:
    """Who is let in, and why."""


@auth.command("explain")
@click.option("--client", "client_id", default="", help="Client id.")
@click.option("--user", "username", help="User name that the client gives.")
@click.option("--password-stdin", is_flag=True, help="Read the client's password from the first line of input.")
@click.option("--listener", default="mqtt", show_default=True, help="Listener that the client comes to.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address that the client comes from.")
@click.option("--certificate-name", help="Common name of the client's certificate.")
@on_node
def auth_explain(node: Node, as_json: bool, password_stdin: bool, **question: str | None) -> None:
    """Say what each link of the chain says of a client.

    VERDICT: allow, deny, pass (the next link is asked), error, or not asked. Without a password, a link that wants one
    denies; KNOWN says what it knows of the user. A wrong password counts for the address as at a login.
    """
    body: dict[str, Any] = {name: value for name, value in question.items() if value is not None}
    if password_stdin:
        body["password"] = sys.stdin.readline().rstrip("\r\n")
    found = node.post("auth", "explain", body=body)
    if as_json:
        print_json(found)
        return
    print_items(_LINKS, found["links"], as_json)
    click.echo()
    if found["verdict"] == "allow":
        groups = ", ".join(map(plain, found["groups"])) or "none"
        click.echo(f"let in as {plain(found['user'] or 'anonymous')}; groups: {groups}")
    else:
        click.echo(f"refused: {plain(found['detail'])} ({found['reason']})")
