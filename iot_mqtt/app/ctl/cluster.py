"""``iot-mqtt ctl cluster | nodes | node``: the cluster as one node sees it, its nodes as they see themselves, and
sending clients from node to node.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from iot_mqtt.app.ctl.command import delete_command, on_node, show_command
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.progress import Bar
from iot_mqtt.app.terminal import (
    Column,
    Json,
    amount,
    at,
    field,
    moment,
    number,
    numbers,
    plain,
    print_done,
    print_form,
    print_items,
    print_json,
    print_text,
    room,
    size,
    span,
)
from iot_mqtt.broker.facade import AWAY, DEFAULT_RATE, MAX_RATE

#: Seconds between two looks at a node that is being drained.
POLL_SECONDS = 1.0

_rate_option = click.option(
    "--rate", type=click.IntRange(1, MAX_RATE), help=f"Clients a second. [default: {DEFAULT_RATE}]"
)


@click.group()
def cluster() -> None:
    """The cluster as the node sees it."""


@click.group("node")
def drain_group() -> None:
    """The node's clients, on their way to other nodes."""


# What there is.


def _state(member: Json) -> str:
    left_at = member.get("left_at")
    if left_at is not None:
        return f"{member['state']} since {moment(left_at)}"
    return f"{member['state']}, draining" if member["draining"] else str(member["state"])


_MEMBERS = (
    field("node_id", "NODE"),
    number("number", "NO"),
    Column("STATE", _state),
    *numbers(clients="CLIENTS", load="LOAD"),
    Column("LAG", lambda item: size(item["unconfirmed"]) if _is_linked(item) else "-", right=True),
    number("routes"),
    Column("AGREES", lambda item: _agrees(item) if _is_linked(item) else "-"),
    *numbers(repairs_asked="REPAIRS", gaps="GAPS"),
    field("version"),
    number("boot"),
)


def _is_linked(member: Json) -> bool:
    return member["state"] not in ("self", *AWAY)


def _agrees(member: Json) -> str:
    if not member["routes_agree"]:
        return "no"
    return f"{member['routes_behind']} behind" if member["routes_behind"] else "yes"


@cluster.command("status")
@on_node
def cluster_status(node: Node, as_json: bool) -> None:
    """Members, what is degraded and why, and the alarms of all nodes.

    LAG: bytes that were sent to a node and that it has not confirmed. ROUTES: filters that it wants; AGREES: whether
    both sides have the same of them. GAPS: times that something was lost for good and had to be read from the log.
    """
    found: dict[str, Any] = node.get("cluster")
    if as_json:
        print_json(found)
        return
    wrong = [*found["degraded"], *_alarms(node.listed("alarms"), found["degraded"])]
    print_form(_screen(found, "ALARM, see below" if wrong else "all is well"))
    click.echo()
    print_items(_MEMBERS, found["members"], as_json)
    if wrong:
        click.echo()
        for sentence in wrong:
            click.echo(f"! {plain(sentence)}")


def _alarms(items: list[Json], said: list[str]) -> Iterator[str]:
    """Those that go on and are not said yet, each with the nodes that have it."""
    nodes: dict[str, list[str]] = {}
    for one in items:
        if one["until"] is None and one["text"] not in said:
            nodes.setdefault(one["text"], []).append(one["node"])
    for text, names in nodes.items():
        yield f"{', '.join(sorted(names))}: {text}"


@cluster.command("identity")
@on_node
def cluster_identity(node: Node, as_json: bool) -> None:
    """What became of messages, over all nodes and all their lives.

    UNEXPLAINED is 0 while no session is on its way between nodes, or messages were lost or counted twice. ON LINKS
    does not return to 0 after a link broke or a node's life ended.
    """
    found: dict[str, Any] = node.get("identity", "cluster")
    if as_json:
        print_json(found)
        return
    print_form(identity_form(found))
    if found["missing"]:
        click.echo(f"! no answer of {', '.join(plain(one['node']) for one in found['missing'])}; as the store has them")


def identity_form(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is shown of the sum, line by line."""
    for name in _IDENTITY:
        estimated = ", estimated" if name == "on_links" and found[name] else ""
        yield name.replace("_", " "), plain(found[name]) + estimated


_IDENTITY = (
    "unexplained",
    "moving",
    "matched",
    "restored",
    "delivered",
    "handed_over",
    "waiting",
    "dropped",
    "left",
    "left_by_killed",
    "found",
    "on_links",
    "lives",
    "killed",
    "estimated",
)


def _screen(found: Json, else_well: str) -> Iterator[tuple[str, str]]:
    """``else_well``: how it is where the cluster is not degraded."""
    yield "state", "DEGRADED, see below" if found["degraded"] else else_well
    yield "grid", found["grid_trouble"] or "takes writes"
    yield "room", room(found["room_used"], found["room_limit"], found["room_level"])
    if not found["clustered"]:
        yield "node", f"{plain(found['node_id'])}, not clustered"
        return
    yield "node", f"{plain(found['node_id'])} (number {found['number']}, boot {found['boot']})"
    yield "grid servers", plain(found["grid_servers"])
    yield "copies", _copies(found["copies_missing"])
    trouble = found["registry_trouble"]
    yield "registry", found["registry"] if trouble is None else f"{found['registry']}: {trouble}"
    known = found["members"]
    members = [one for one in known if one["state"] not in ("dead", *AWAY)]
    yield "members", f"{len(members)} of {len(known)}, with {sum(one['clients'] for one in members)} clients"
    agree = "everybody acts on them" if found["routes_agree"] else "not everybody acts on all of them yet"
    yield "routes", f"{found['routes']} filters are wanted here; {agree}"
    yield "forwarded", f"{found['messages_forwarded']} messages, {found['messages_from_peers']} from other nodes"
    yield "not forwarded", plain(found["forwards_dropped"])
    yield "claims", f"{plain(found['claims_granted'])}; refused: {plain(found['claims_refused'])}"
    yield "released", f"{found['released']} clients to other nodes, {found['releases_refused']} not at once"
    yield "adopted", f"{found['adopted_clients']} sessions of {found['adoptions']} dead nodes"


def _copies(missing: int | None) -> str:
    if missing is None:
        return "not known now"
    return f"{missing} partitions lack one: take no grid server away" if missing else "complete"


delete_command(
    cluster,
    "remove",
    "cluster/nodes/{name}",
    "removed",
    """NAME is gone for good: the next new node gets its number.

    It is stopped, and others have taken its sessions over. Sessions are still owed what its log has, and the uplink
    too. Should it start again, it is a new node.
    """,
)


_NODES = (
    field("node_id", "NODE"),
    field("version"),
    at("started_at", "STARTED"),
    Column("UP", lambda item: span(item["uptime"]), right=True),
    *numbers(clients="CLIENTS", sessions="SESSIONS", subscriptions="SUBS", retained="RETAINED"),
    amount("retained_bytes", "KEPT"),
    Column("DRAIN", lambda item: str(item["drain"]["state"])),
)


@click.group()
def nodes() -> None:
    """Nodes of the cluster."""


@nodes.command("list")
@on_node
def nodes_list(node: Node, as_json: bool) -> None:
    """List nodes. Who does not answer is named on standard error."""
    print_items(_NODES, node.listed("nodes"), as_json)


show_command(nodes, "nodes/{name}", "Show one node.")


# Evening out.

_SHARES = (
    field("node_id", "NODE"),
    *numbers(number="NO", clients="CLIENTS", mean="MEAN", surplus="LEAVE"),
    field("note"),
)


@cluster.command("rebalance")
@_rate_option
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--wait", is_flag=True, help="Until all who are to leave have left. Interrupted, it goes on.")
@on_node
def cluster_rebalance(node: Node, as_json: bool, rate: int | None, dry_run: bool, wait: bool) -> None:
    """Send clients from nodes with many to nodes with few.

    Every node that has a tenth more than the mean sends away what it has too many, at this rate.
    """
    found = node.post("cluster", "rebalance", body={"rate": rate, "dry_run": dry_run})
    if wait and not dry_run:
        _wait_for(node, [one for one in found["items"] if one["surplus"]])
    print_items(_SHARES, found["items"], as_json)


def _wait_for(node: Node, leaving: list[Json]) -> None:
    """Until none of these nodes is rebalancing any more."""
    total = sum(one["surplus"] for one in leaving)
    bar = Bar("leaving", total)
    while leaving:
        seen = {one["node_id"]: node.get("node", "drain", query={"node": one["node_id"]}) for one in leaving}
        leaving = [one for one in leaving if seen[one["node_id"]]["state"] == "rebalancing"]
        left = sum(seen[one["node_id"]][what] for one in leaving for what in ("remaining", "leaving"))
        bar.at(total - left)
        if leaving:
            time.sleep(POLL_SECONDS)
    bar.end()


# Draining.


@drain_group.command("drain")
@_rate_option
@click.option("--moved", is_flag=True, help="The node will not come back: clients are told to stay away (0x9D).")
@click.option("--wait", is_flag=True, help="Until all clients are gone. Interrupted, draining goes on.")
@on_node
def node_drain(node: Node, as_json: bool, rate: int | None, moved: bool, wait: bool) -> None:
    """Let no clients in, and send all that are there to other nodes.

    Again: at another rate. It ends with `ctl node resume`, or with the process.
    """
    _warn_if_alone(node)
    seen = node.post("node", "drain", body={"rate": rate, "moved": moved})
    bar = Bar("leaving", seen["clients"])
    while wait and seen["state"] == "draining":
        bar.at(bar.length - seen["clients"])
        if bar.hidden and not as_json:
            click.echo(_line(seen))
        time.sleep(POLL_SECONDS)
        seen = node.get("node", "drain")
    bar.end()
    print_text(seen, as_json, _line(seen))


@drain_group.command("progress")
@on_node
def node_progress(node: Node, as_json: bool) -> None:
    """How far draining or rebalancing is."""
    seen = node.get("node", "drain")
    print_text(seen, as_json, _line(seen))


@drain_group.command("resume")
@on_node
def node_resume(node: Node, as_json: bool) -> None:
    """Let clients in again, and send nobody away any more."""
    node.delete("node", "drain")
    print_done({"resumed": True}, as_json)


def _warn_if_alone(node: Node) -> None:
    others = [one for one in node.get("cluster")["members"] if one["state"] in ("up", "deaf", "silent")]
    if not any(not one["draining"] for one in others):
        click.echo("there is no other node that takes clients: they have nowhere to go", err=True)


def _line(seen: Json) -> str:
    """One line of progress."""
    state = seen["state"]
    text = f"{state}: {seen['sent_away']} clients were sent away, {seen['clients']} are here"
    if state == "rebalancing":
        text += f", of them {seen['remaining'] + seen['leaving']} are to leave"
    elif seen["leaving"]:
        text += f", of them {seen['leaving']} wait for a commit"
    if seen["refusing"]:
        text += f"; {seen['refused']} newcomers were refused"
    if seen["estimate"] is not None:
        text += f"; {seen['rate']} a second, {span(seen['estimate'] + 0.999)} to go"
    return text
