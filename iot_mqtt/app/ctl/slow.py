"""``iot-mqtt ctl slow | top``: who does not keep up, and what a node is busy with."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from iot_mqtt.app.ctl.command import first_option, on_node
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import (
    NODE,
    Column,
    NumberRange,
    field,
    form,
    number,
    plain,
    print_items,
    print_json,
    size,
    span,
    table,
)

Json = Mapping[str, Any]


def _age(item: Json) -> str:
    oldest = item["oldest_seconds"]
    return "-" if oldest is None else span(oldest)


_SLOW = (
    field("client_id", "CLIENT"),
    field("state", "STATE"),
    number("waiting", "WAITING"),
    Column("OLDEST", _age, right=True),
    Column("WINDOW", lambda item: f"{item['inflight']}/{item['window']}", right=True),
    number("lag", "LAG"),
    Column("OUTBOX", lambda item: size(item["outbox_bytes"]), right=True),
    Column("DROPPED", lambda item: plain(item["dropped"])),
    field("cause", "CAUSE"),
    NODE,
)
#: Of each list of ``top``.
MOST = 10
#: Clients whose bytes ``top`` compares.
COMPARED = 2000
_RATES = (
    ("received", "messages_received"),
    ("delivered", "messages_delivered"),
    ("bytes_in", "bytes_received"),
    ("bytes_out", "bytes_sent"),
    ("connects", "connects_accepted"),
    ("disconnects", "connections_closed"),
    ("commits", "commits"),
)
_LEVELS = ("clients", "sessions", "queued", "inflight", "waiting", "unexplained", "paused")


@click.command()
@first_option
@click.option("--connected/--away", default=None, help="Only clients that are there, or are not; without it, both.")
@on_node
def slow(node: Node, as_json: bool, limit: int, connected: bool | None) -> None:
    """For whom messages wait, or who does not read, and why; those for whom most waits first.

    OLDEST: how long ago the oldest of them came, if it is in the log. WINDOW: how many are sent and not acknowledged,
    and how many may be. LAG: batches of the log that were not read yet. OUTBOX: what the network has not taken.
    """
    print_items(_SLOW, node.items("slow", query={"connected": connected}, limit=limit), as_json)


@click.command()
@click.option("--once", is_flag=True, help="Show one screen and end.")
@click.option(
    "--seconds", type=NumberRange(min=0.1, max=60), default=2.0, show_default=True, help="Between two screens."
)
@on_node
def top(node: Node, as_json: bool, once: bool, seconds: float) -> None:
    """Rates, drops, lateness, the busiest and the slowest clients, again and again.

    With --json each screen is one line.
    """
    before = _looked(node)
    while True:
        time.sleep(seconds)
        after = _looked(node)
        found = _compared(before, after)
        if as_json and once:
            print_json(found)
        elif as_json:
            click.echo(json.dumps(found, ensure_ascii=False))
        else:
            if not once:
                click.clear()
            for line in _screen(found):
                click.echo(line)
        if once:
            return
        before = after


def _looked(node: Node) -> dict[str, Any]:
    """What the node says now."""
    status = node.get("status")
    here = {"node": status["node_id"]}
    (history,) = node.get("history", query={"series": "loop_lag", **here})["items"]
    return {
        "at": time.monotonic(),
        "status": status,
        "lag": [value for value in history["series"][0]["values"] if value is not None][-1:],
        "clients": {one["client_id"]: one for one in node.items("clients", query=here, limit=COMPARED)},
        "slow": list(node.items("slow", query=here, limit=MOST)),
    }


def _compared(before: Json, after: Json) -> dict[str, Any]:
    """Rates between two looks, and what is so now."""
    seconds = max(after["at"] - before["at"], 1e-3)
    old, new = before["status"]["counters"], after["status"]["counters"]
    if before["status"]["started_at"] != after["status"]["started_at"]:
        raise CtlError("the node was started again meanwhile")
    drops = {reason: (count - old["dropped"].get(reason, 0)) / seconds for reason, count in new["dropped"].items()}
    busiest = sorted(_busy(before["clients"], after["clients"], seconds), key=lambda one: -one["bytes_per_second"])
    return {
        "node": after["status"]["node_id"],
        "state": after["status"]["state"],
        "seconds": seconds,
        "rates": {name: (new[counter] - old[counter]) / seconds for name, counter in _RATES},
        "dropped": {reason: rate for reason, rate in sorted(drops.items()) if rate},
        "levels": {name: after["status"][name] for name in _LEVELS},
        "loop_lag": after["lag"][0] if after["lag"] else None,
        "busiest": busiest[:MOST],
        "slowest": after["slow"],
    }


def _busy(before: Json, after: Json, seconds: float) -> Iterator[dict[str, Any]]:
    for client_id, one in after.items():
        earlier = before.get(client_id)
        known = earlier is not None and earlier["connected_at"] == one["connected_at"]
        into = one["bytes_received"] - (earlier["bytes_received"] if known and earlier else 0)
        out = one["bytes_sent"] - (earlier["bytes_sent"] if known and earlier else 0)
        if into or out:
            yield {
                "client_id": client_id,
                "username": one["username"],
                "bytes_per_second": (into + out) / seconds,
                "in_per_second": into / seconds,
                "out_per_second": out / seconds,
            }


_BUSIEST = (
    field("client_id", "BUSIEST"),
    field("username", "USER"),
    Column("IN/S", lambda one: size(one["in_per_second"]), right=True),
    Column("OUT/S", lambda one: size(one["out_per_second"]), right=True),
)


def _screen(found: Json) -> Iterator[str]:
    rates, lag = found["rates"], found["loop_lag"]
    shown = {name: size(rate) if name.startswith("bytes") else f"{rate:.0f}" for name, rate in rates.items()}
    dropped = ", ".join(f"{reason} {rate:.1f}" for reason, rate in found["dropped"].items())
    yield from form(
        [
            ("node", f"{found['node']}, {found['state']}"),
            ("a second", ", ".join(f"{name.replace('_', ' ')} {rate}" for name, rate in shown.items())),
            ("dropped", dropped or "nothing"),
            ("now", ", ".join(f"{name} {value}" for name, value in found["levels"].items())),
            ("loop late by", "-" if lag is None else f"{lag * 1000:.0f} ms at most, in 10 s"),
        ]
    )
    yield ""
    yield from table(_BUSIEST, found["busiest"])
    yield ""
    yield from table((field("client_id", "SLOWEST"), *_SLOW[1:-1]), found["slowest"])
