"""``iot-mqtt ctl why CLIENT``: everything that decides whether a client gets its messages, on one screen."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node, NoSuch
from iot_mqtt.app.terminal import Json, moment, plain, print_form, print_json, size, span

#: Filters that are named; the rest is counted.
_FILTERS_SHOWN = 8

STATES = {
    "ready": "messages flow",
    "caught_up": "nothing waits to be sent",
    "offline": "not connected; QoS 1 and 2 wait for it",
    "reading": "reading what it missed from the log",
    "inflight_full": "the client has to acknowledge what it was sent before it gets more",
    "outbox_full": "the client does not read from its connection fast enough",
    "committing": "waiting for the store",
}

_PAUSES = {
    "disk_full": "it is not read from until the disk has room for what it publishes",
    "rate": "it is not read from for a moment, because more is published than its limits allow (ctl limits explain)",
    "uncommitted": "it is not read from until the store has taken what waits",
}


@click.command()
@click.argument("client")
@on_node
def why(node: Node, as_json: bool, client: str) -> None:
    """Say why a client does or does not get its messages."""
    found: dict[str, Any] = collect(node, client)
    if as_json:
        print_json(found)
        return
    print_form(screen(client, **found, now=time.time()))


def collect(node: Node, client_id: str) -> dict[str, Json | list[Json] | None]:
    """What the node knows of a client; raises ``NoSuch`` if it is nothing."""
    client = _or_none(node, "clients", client_id)
    session = _or_none(node, "sessions", client_id)
    attempts = list(node.get("clients", client_id, "attempts")["items"])
    held_off = _held_off(node, client_id)
    if client is None and session is None and not attempts and not held_off:
        raise NoSuch(
            f"{client_id!r} is not connected and has no session on this node, and nobody of that name has been seen "
            "for as long as it remembers"
        )
    query = {"client_id": client_id}
    known = session is not None
    return {
        "client": client,
        "session": session,
        "subscriptions": list(node.items("subscriptions", query=query, limit=_FILTERS_SHOWN)) if known else [],
        "attempts": attempts,
        "held_off": held_off,
    }


def screen(
    client_id: str,
    client: Json | None,
    session: Json | None,
    subscriptions: list[Json],
    attempts: list[Json],
    now: float,
    held_off: Iterable[Json] = (),
) -> Rows:
    """The lines of the screen as names and texts."""
    yield "client", plain(client_id)
    yield "connected", _connected(client, session, now)
    yield from _attempts(attempts, now)
    for one in held_off:
        yield "held off", f"by plugin {plain(one['plugin'])} for {span(one['seconds'])} more: {plain(one['reason'])}"
    if session is None:
        yield "session", "none"
        return
    yield "last disconnect", plain(session["last_disconnect_text"])
    yield "state", f"{session['state']}: {STATES.get(session['state'], 'unknown to this version of ctl')}"
    yield "session", kept(session)
    yield "queue", f"{session['queued']} messages, {size(session['queued_bytes'])}"
    if session["position"] is not None:
        backlog = "messages are being counted" if session["backlog"] is None else f"{session['backlog']} messages"
        yield "in the log", f"{backlog}, {session['lag']} batches behind"
    yield from flight_rows(session)
    if client is not None:
        writable = "writable" if client["writable"] else "NOT writable"
        yield "outbox", f"{size(client['outbox_bytes'])}, {writable}"
        if client["paused"] is not None:
            yield "paused", f"{client['paused']}: {_PAUSES.get(client['paused'], 'unknown to this version of ctl')}"
    yield from delivery_rows(session)
    yield "subscriptions", _subscriptions(subscriptions, session["subscriptions"])


def flight_rows(session: Json) -> Rows:
    """What is under way, in both directions."""
    yield "in flight", f"{session['inflight']} to the client, of them {session['awaiting_release']} after PUBREC"
    yield "received", f"{session['received']} QoS 2 messages from the client wait for its PUBREL"


def delivery_rows(session: Json) -> Rows:
    """What became of messages, and what is left to be published."""
    for name in ("delivered", "dropped", "denied"):
        yield name, plain(session[name])
    yield "will", plain(session["has_will"])


def _attempts(attempts: list[Json], now: float) -> Rows:
    """Refused CONNECTs and ends of sessions, the newest first."""
    for one in attempts:
        user = "no user name" if one["username"] is None else f"user {plain(one['username'])}"
        place = f", from {one['peer']} on {one['listener']}" if one["peer"] else ""
        ago = span(max(0.0, now - one["at"]))
        yield one["kind"], f"{moment(one['at'])} ({ago} ago): {plain(one['text'])} ({user}{place})"


Rows = Iterator[tuple[str, str]]


def _held_off(node: Node, client_id: str) -> list[Json]:
    """By which plugins a gateway of this name is not let in for now."""
    plugins = _or_none(node, "plugins")
    return [
        {**one, "plugin": plugin["name"]}
        for plugin in (plugins or {"items": []})["items"]
        for one in plugin["held_off"]
        if one["kind"] == "device" and one["name"] == client_id
    ]


def _or_none(node: Node, *path: str) -> Json | None:
    try:
        found: Json = node.get(*path)
    except NoSuch:
        return None
    return found


def _spoken(protocol: str) -> str:
    """A version of MQTT, or the codec of a gateway."""
    return f"MQTT {protocol}" if protocol[:1].isdigit() else f"gateway, codec {plain(protocol)}"


def _connected(client: Json | None, session: Json | None, now: float) -> str:
    if client is not None:
        user = f"user {plain(client['username'])}" if client["username"] is not None else "no user name"
        return (
            f"yes, for {span(now - client['connected_at'])}, from {client['peer']} on {client['listener']} "
            f"({_spoken(client['protocol'])}, {user}, keep-alive {client['keep_alive']} s)"
        )
    left = session["disconnected_at"] if session is not None else None
    return "no" if left is None else f"no, since {moment(left)} ({span(max(0.0, now - left))} ago)"


def kept(session: Json) -> str:
    expiry = session["expiry_interval"]
    kept = "never ends" if expiry == 0xFFFF_FFFF else f"ends {span(expiry)} after the connection"
    durable = "durable" if session["durable"] else "not durable"
    return f"{durable}, {kept if expiry else 'ends with the connection'}, created {moment(session['created_at'])}"


def _subscriptions(shown: list[Json], count: int) -> str:
    texts = [f"{plain(one['filter'])} (QoS {one['qos']})" for one in shown]
    if count > len(texts):
        texts.append(f"and {count - len(texts)} more")
    return ", ".join(texts) or "none"
