"""``iot-mqtt ctl auth explain``: would this client be let in, and who says so?"""

from __future__ import annotations

import sys
from typing import Any, TextIO

import click

from iot_mqtt.app.ctl.command import delete_command, list_command, on_node
from iot_mqtt.app.ctl.limits import SAID
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.rights_question import answer_and_exit, print_answer, question_options
from iot_mqtt.app.terminal import fields, plain, print_done, print_items, print_json

_LINKS = fields(link="LINK", verdict="VERDICT", detail="DETAIL", known="KNOWN")


@click.group()
def auth() -> None:
    """Who is let in, and why."""


_RULES = fields(name="NAME", version="VERSION", rules="RULES")


@auth.group("rules")
def auth_rules() -> None:
    """Rules of the grid: the same on every node, behind those of the ACL file, in the order of their names."""


list_command(auth_rules, "auth/rules", _RULES, "List the documents of rules.")


@auth_rules.command("show")
@click.argument("name")
@on_node
def rules_show(node: Node, as_json: bool, name: str) -> None:
    """Print the text of one document."""
    found = node.get("auth", "rules", name)
    if as_json:
        print_json(found)
    else:
        click.echo(found["text"], nl=False)


@auth_rules.command("set")
@click.argument("name")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--version", type=int, help="Only if the document is at this version; 0: if there is none.")
@on_node
def rules_set(node: Node, as_json: bool, name: str, file: TextIO, version: int | None) -> None:
    """Write the document NAME from FILE (`-`: standard input), in the words of the ACL file."""
    found = node.post("auth", "rules", name, body={"text": file.read(), "version": version})
    print_done({"name": found["name"], "version": found["version"], "rules": found["rules"]}, as_json)
    if not found["asked"]:
        click.echo("! the node does not ask for rules of the grid: auth.acl_grid is false", err=True)


delete_command(auth_rules, "delete", "auth/rules/{name}", "deleted", "Take the document NAME away.")


@auth.command("may")
@click.argument("action")
@click.argument("asked")
@question_options
@on_node
def auth_may(node: Node, as_json: bool, **question: Any) -> None:
    """Say whether a client may do ACTION with ASKED now, and which rule says so (source, line).

    ACTION is publish, subscribe, receive, replay, command, shadow-read, shadow-write, client or gateway; ASKED a
    topic, a filter, the target of a command or shadow, or a name. Exit code 1: it may not.
    """
    answer_and_exit(node.post("auth", "may", body=question), as_json=as_json)


@auth.command("explain")
@click.option("--client", "client_id", default="", help="Client id.")
@click.option("--user", "username", help="User name that the client gives.")
@click.option("--password-stdin", is_flag=True, help="Read the client's password from the first line of input.")
@click.option("--listener", default="mqtt", show_default=True, help="Listener that the client comes to.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address that the client comes from.")
@click.option("--certificate-name", help="Common name of the client's certificate.")
@click.option("--may", nargs=2, metavar="ACTION ASKED", help="As `auth may`: may the user, once let in, do this?")
@on_node
def auth_explain(
    node: Node, as_json: bool, password_stdin: bool, may: tuple[str, str] | None, **question: str | None
) -> None:
    """Say what each link of the chain says of a client, and what would become of it.

    VERDICT: allow, deny, pass (the next link is asked), error, or not asked. Without a password, a link that wants one
    denies; KNOWN says what it knows of the user. A wrong password counts for the address as at a login.

    The last line says what CONNECT would be told: bans, rules about names, the session of another user, and limits are
    asked, too; a will is not.
    """
    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else None
    found = node.post("auth", "explain", body={**question, "password": password})
    if may is not None:
        client = {"client_id": question["client_id"], "user": question["username"], "address": question["address"]}
        found["may"] = node.post("auth", "may", body={"action": may[0], "asked": may[1], **client})
    if as_json:
        print_json(found)
        return
    print_items(_LINKS, found["links"], as_json)
    click.echo()
    print_items(SAID, found["limits"], as_json)
    click.echo()
    if found["verdict"] == "allow":
        groups = ", ".join(map(plain, found["groups"])) or "none"
        elsewhere = f"; {plain(found['detail'])}" if found["detail"] else ""
        click.echo(f"let in as {plain(found['user'] or 'anonymous')}; groups: {groups}{elsewhere}")
    else:
        click.echo(f"refused: {plain(found['detail'])} ({found['reason']})")
    if may is not None:
        print_answer(found["may"])
