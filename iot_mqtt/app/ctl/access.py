"""``iot-mqtt ctl tokens`` and ``iot-mqtt ctl audit``: who may call the API, and what was changed by whom."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from iot_mqtt.app.ctl.command import delete_command, limit_option, list_command, on_node, say_missing
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, Json, field, fields, moment, plain, print_items, print_json, print_text


def _ends(item: Json) -> str:
    if item["expired"]:
        return "over"
    return "never" if item["expires_at"] is None else moment(item["expires_at"])


_TOKENS = (
    *fields(id="ID", name="NAME", role="ROLE"),
    Column("SCOPE", lambda item: ", ".join(map(plain, item["scope"])) or "all"),
    Column("ENDS", _ends),
    field("made_by", "MADE BY"),
)
_RECORDS = (
    *fields(time="TIME", node="NODE", seq="SEQ", who="WHO"),
    Column("KIND", lambda one: plain(" ".join(filter(None, (one.get("kind"), one.get("token")))))),
    *fields(role="ROLE", address="ADDRESS", method="METHOD", path="PATH", status="STATUS", body="BODY"),
)


@click.group()
def tokens() -> None:
    """Tokens of the API: with a role, a scope and an end, known on every node."""


list_command(tokens, "tokens", _TOKENS, "List tokens. What they are made of is never shown again.")


@tokens.command("make")
@click.argument("name")
@click.option("--role", type=click.Choice(["viewer", "operator", "admin"]), default="viewer", show_default=True)
@click.option("--scope", multiple=True, help="A path below /api/v1 that it may call, such as clients; repeat. All.")
@click.option("--as", "user", help="What it sends (commands, shadows, messages) needs the right of this user.")
@click.option("--days", type=click.IntRange(1, 366), default=90, show_default=True, help="It is good for.")
@click.option("--without-end", is_flag=True, help="It is good until somebody deletes it.")
@on_node
def tokens_make(
    node: Node,
    as_json: bool,
    name: str,
    role: str,
    scope: tuple[str, ...],
    user: str | None,
    days: int,
    without_end: bool,
) -> None:
    """Make a token and print it, this once."""
    seconds = None if without_end else days * 24 * 3600
    body: dict[str, Any] = {
        "name": name,
        "role": role,
        "scope": [*scope, *([f"as:{user}"] if user else [])],
        "seconds": seconds,
    }
    made = node.post("tokens", body=body)
    print_text(made, as_json, made["token"])


delete_command(tokens, "delete", "tokens/{id}", "deleted", "Take a token back, on every node within a second.")


@click.group()
def audit() -> None:
    """What was changed through the nodes, and by whom."""


@audit.command("list")
@limit_option
@click.option("--node", "of", help="Only what was asked of this one.")
@click.option("--who", default="", help="Only what this one changed.")
@click.option("--contains", default="", help="Only with this part of the path or of the body.")
@click.option("--refused", is_flag=True, help="Only what was refused.")
@on_node
def audit_list(
    node: Node, as_json: bool, limit: int | None, of: str | None, who: str, contains: str, refused: bool
) -> None:
    """List changes at all nodes, the last first; refused ones, too.

    Standard error has who does not answer, and at the end what was removed to make room.
    """
    wanted = {"node": of, "who": who, "contains": contains, "refused": "true" if refused else ""}
    query = {name: value for name, value in wanted.items() if value}
    kept: list[Json] = []

    def records() -> Iterator[Json]:
        for page in node.pages("audit", query=query, limit=limit):
            yield from page["items"]
            if page["after"] is None:
                kept.extend(page.get("kept", ()))

    print_items(_RECORDS, islice(records(), limit), as_json)
    for one in kept:
        if not one["complete"]:
            click.echo(f"! {plain(one['node'])}: {_beginning(one)}", err=True)


@audit.command("verify")
@click.option("--hash", "expected", help="The last one that you have noted; it has to be in the chain.")
@on_node
def audit_verify(node: Node, as_json: bool, expected: str | None) -> None:
    """Say whether the log of each node is whole; the exit code is 1 if one is not, or does not answer.

    Each record has the hash of the one before. Note that of the last change in another place: who can write the node's
    files could write all of them anew. Older records are removed to make room: it says from when on they are there.
    """
    found = node.get("audit", "verify", query={"hash": expected})
    if as_json:
        print_json(found)
    else:
        for one in found["items"]:
            click.echo(f"{plain(one['node'])}: {_verdict(one)}")
            for chain in one.get("kept", ()):
                click.echo(f"  {_beginning(chain)}")
        if not found["whole"]:
            click.echo(f"NOT whole: {plain(found['fault'])}")
        say_missing({one["node"]: one["reason"] for one in found["missing"]})
    if found["missing"] or not found["whole"]:
        raise SystemExit(1)


def _verdict(one: Json) -> str:
    if not one["whole"]:
        return f"NOT whole: {plain(one['fault'])}"
    span = f"{one['records']} records, {one['first']} to {one['last']}"
    return f"whole: {span}; the last change has the hash {one['head'] or '-'}"


def _beginning(one: Json) -> str:
    """From when on a chain has records. A node of an older version, which has one chain, does not say."""
    removed = "" if one["complete"] else "; older ones were removed to make room"
    return f"{plain(one['chain'])} since {plain(one['since'])}{removed}"
