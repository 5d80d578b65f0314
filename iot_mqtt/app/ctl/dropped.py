"""``iot-mqtt ctl dropped``: the last messages, requests and clients that were dropped, refused or not let in."""

from __future__ import annotations

import time
from typing import Any

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import NODE, Column, field, number, plain, print_items, print_json, span

_COLUMNS = (
    Column("AGO", lambda one: span(time.time() - one["last"]), right=True),
    field("kind"),
    field("code", "REASON"),
    Column("CLIENT", lambda one: plain(one["client_id"] or one["peer"])),
    field("topic"),
    field("publisher"),
    number("count", "COUNT"),
    field("detail"),
    NODE,
)


@click.command()
@click.option("--kind", type=click.Choice(["dropped", "refused", "denied", "connect"]), help="Only these.")
@click.option("--reason", metavar="REASON", help="Only for this reason, such as queue_full.")
@click.option("--topic", metavar="PART", help="Only topics with this in them.")
@click.option("--client", metavar="PART", help="Only receivers, or refused clients, with this in their id.")
@click.option("--publisher", metavar="PART", help="Only publishers with this in their id.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@on_node
def dropped(node: Node, as_json: bool, limit: int, **wanted: Any) -> None:
    """The last of what did not arrive: dropped, refused, denied, not let in.

    Of all nodes, the newest first; below it the sums by reason.
    """
    found = node.get("dropped", query={**wanted, "limit": limit})
    node.note_missing(found)
    if as_json:
        print_json(found)
        return
    print_items(_COLUMNS, found["items"], as_json)
    for kind, counts in found["totals"].items():
        if counts:
            click.echo(
                f"{kind} in all: {', '.join(f'{plain(name)} {count}' for name, count in sorted(counts.items()))}"
            )
