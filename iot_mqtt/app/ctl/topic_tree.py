"""``iot-mqtt ctl topics``: the busiest topics, the tree of those that are known, and a search in them."""

from __future__ import annotations

import time

import click

from iot_mqtt.app.ctl.command import limit_option, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, field, number, plain, print_items, size

#: Seconds that have to be counted before rates say something.
LEAST = 2.0


def _rate(name: str) -> Column:
    return Column("MESSAGES/S", lambda one: f"{one[name]:.1f}", right=True)


_RATES = (_rate("messages_per_second"), Column("BYTES/S", lambda one: size(one["bytes_per_second"]), right=True))
_TOP = (
    field("topic"),
    *_RATES,
    number("receivers", "RECEIVERS"),
    Column("PUBLISHERS", lambda one: ", ".join(map(plain, one["publishers"]))),
)
_TREE = (
    field("topic"),
    number("topics", "TOPICS"),
    *_RATES,
    Column("", lambda one: " ".join(name for name in ("retained", "deeper") if one[name])),
)


@click.group()
def topics() -> None:
    """Topics: the busiest, the tree of those that are known, a search in them.

    Counted while somebody looks, and for a minute after that.
    """


@topics.command("top")
@click.option("--by", type=click.Choice(["messages", "bytes"]), default="messages", show_default=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many.")
@on_node
def topics_top(node: Node, as_json: bool, by: str, limit: int) -> None:
    """Show the busiest topics, who publishes them and how many sessions and groups get them."""
    query = {"by": by, "limit": str(limit)}
    found = node.get("topics", "top", query=query)
    if found["seconds"] < LEAST:
        time.sleep(LEAST - found["seconds"])
        found = node.get("topics", "top", query=query)
    node.note_missing(found)
    print_items(_TOP, found["items"], as_json)


@topics.command("list")
@click.argument("prefix", default="")
@click.option("--contains", metavar="WORDS", help="Whole topics that have these words in them.")
@limit_option
@on_node
def topics_list(node: Node, as_json: bool, prefix: str, contains: str | None, limit: int | None) -> None:
    """List the level behind PREFIX (nothing: the first one)."""
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    query = {"prefix": prefix or None, "contains": contains or None}
    print_items(_TREE, node.items("topics", query=query, limit=limit), as_json)
