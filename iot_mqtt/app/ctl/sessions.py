"""``iot-mqtt ctl sessions``: who is behind, by how much, and why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from iot_mqtt.app.ctl.command import delete_command, list_command, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.why import STATES, delivery_rows, flight_rows, kept
from iot_mqtt.app.terminal import (
    NODE,
    Column,
    Json,
    field,
    fields,
    moment,
    number,
    numbers,
    plain,
    print_form,
    print_items,
    print_json,
    size,
    span,
)


@click.group()
def sessions() -> None:
    """Sessions, connected or not."""


def _counted(item: Json) -> str:
    if item["backlog"] is None:
        return "counting"
    return str(item["backlog"]) if item["backlog_complete"] else f"{item['backlog']}+"


_SESSIONS = (
    field("client_id", "CLIENT"),
    *fields(connected="CONNECTED", durable="DURABLE", state="STATE"),
    number("subscriptions", "SUBS"),
    Column("BACKLOG", _counted, right=True),
    *numbers(lag="LAG", queued="QUEUED", inflight="INFLIGHT", delivered="DELIVERED"),
    Column("DROPPED", lambda item: str(sum(item["dropped"].values())), right=True),
    field("last_disconnect_text", "LAST DISCONNECT"),
    NODE,
)


list_command(
    sessions,
    "sessions",
    _SESSIONS,
    "List sessions. BACKLOG: messages that wait in the log; LAG: batches of it that were not read yet.",
    click.option("--prefix", help="Only client ids that begin like this."),
    click.option("--user", help="Only of this user; empty: of none."),
    click.option("--connected/--away", default=None, help="Only of clients that are connected, or that are not."),
    click.option("--state", type=click.Choice(tuple(STATES)), help="Only in this state."),
)


@sessions.command("show")
@click.argument("client")
@on_node
def sessions_show(node: Node, as_json: bool, client: str) -> None:
    """Show one session: why it is behind, what waits for it, and for which filters."""
    session: dict[str, Any] = node.get("sessions", client)
    backlog: dict[str, Any] = node.get("sessions", client, "backlog")
    if as_json:
        print_json({**session, "waiting": backlog})
        return
    print_form(_screen(session, backlog, time.time()))
    if backlog["claims"]:
        click.echo()
        print_items(_CLAIMS, backlog["claims"], as_json)


_CLAIMS = (
    *fields(filter="FILTER", kind="KIND"),
    *numbers(since="SINCE", until="UNTIL", position="POSITION"),
    field("live"),
    Column("MESSAGES", lambda item: "counting" if item["messages"] is None else str(item["messages"]), right=True),
)


def _screen(session: Json, backlog: Json, now: float) -> Iterator[tuple[str, str]]:
    yield "client", plain(session["client_id"])
    yield "owner", "anonymous clients" if session["owner"] == "" else plain(session["owner"])
    yield "state", _why(session, now)
    yield "session", kept(session)
    yield "waiting", _waiting(backlog)
    if session["position"] is not None:
        yield "position", f"{session['position']}, {session['lag']} batches behind"
    yield from flight_rows(session)
    yield from delivery_rows(session)
    yield "last disconnect", plain(session["last_disconnect_text"])
    yield "subscriptions", plain(session["subscriptions"])


def _why(session: Json, now: float) -> str:
    state, left = session["state"], session["disconnected_at"]
    if state == "offline" and left is not None:
        text = f"offline since {moment(left)} ({span(now - left)})"
    else:
        text = f"{state}: {STATES.get(state, 'unknown to this version of ctl')}"
    return f"{text}; still counting what waits" if session["backlog"] is None else text


def _waiting(backlog: Json) -> str:
    messages = "messages are being counted" if backlog["messages"] is None else f"{backlog['messages']} messages"
    return f"{messages}, {'' if backlog['complete'] else 'at least '}{size(backlog['bytes'])}"


delete_command(
    sessions,
    "kick",
    "clients/{client}",
    "kicked",
    "Close the connection of a session's client; a session that outlives its connection stays.",
)


delete_command(
    sessions,
    "purge",
    "sessions/{client}",
    "purged",
    "End a session and forget its subscriptions and all messages that wait for it.",
)
