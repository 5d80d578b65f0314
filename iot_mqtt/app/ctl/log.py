"""``iot-mqtt ctl log``: what the log of messages holds, whether all of it can be read, and dropping parts of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from iot_mqtt.app.ctl.command import delete_command, list_command, on_node
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.progress import going_on
from iot_mqtt.app.terminal import (
    NODE,
    Column,
    Json,
    amount,
    at,
    field,
    moment,
    numbers,
    plain,
    print_items,
    print_json,
    print_screen,
    room,
    size,
    span,
)

#: Seconds between two looks at a check that is under way.
POLL_SECONDS = 0.25


@click.group()
def log() -> None:
    """The log of messages for durable sessions."""


@log.command("info")
@on_node
def log_info(node: Node, as_json: bool) -> None:
    """What the log holds, and how much room there is for more."""
    print_screen(node.get("log"), as_json, _screen)


def _screen(found: Json) -> Iterator[tuple[str, str]]:
    yield "end", plain(found["end"])
    yield "holds", f"{found['messages']} messages, {size(found['bytes'])}"
    yield "parts", f"{found['generations']} generations, {found['streams']} streams"
    yield (
        "written",
        f"{found['messages_appended']} messages, {size(found['bytes_appended'])} in {found['pages_written']} pages",
    )
    yield "read", f"{found['pages_read']} pages, {size(found['bytes_read'])} with the index"
    yield "damaged pages", plain(found["damaged_pages"])
    yield "disk", room(found["disk_used"], found["disk_limit"], found["disk_level"], found["disk_free"])
    if found.get("inodes"):
        yield "inodes", f"{found['inodes_free']} of {found['inodes']} are free"
    waiting = f"{found['uncommitted_operations']} writes, {size(found['uncommitted_bytes'])} of messages"
    yield "uncommitted", waiting
    yield "commits", "succeed" if found["trouble"] is None else f"FAIL: {plain(found['trouble'])}"


_SHARDS = (
    *numbers(shard="SHARD", streams="STREAMS", pages="PAGES", messages="MESSAGES"),
    amount("bytes"),
    NODE,
)


@log.command("shards")
@on_node
def log_shards(node: Node, as_json: bool) -> None:
    """The parts by publisher."""
    print_items(_SHARDS, node.listed("log", "shards"), as_json)


_GENERATIONS = (
    *numbers(generation="GENERATION", retention_class="CLASS"),
    at("began_at", "BEGAN"),
    *numbers(streams="STREAMS", messages="MESSAGES"),
    amount("bytes"),
    *numbers(first="FIRST", end="END"),
    field("closed"),
    NODE,
)


list_command(log, "log/generations", _GENERATIONS, "The parts by time, which are dropped whole.", name="generations")


_STREAMS = (
    *numbers(generation="GENERATION", stream="STREAM", shard="SHARD"),
    field("structure"),
    Column("BUCKET", lambda item: "-" if item["buckets"] == 1 else f"{item['bucket']} of {item['buckets']}"),
    *numbers(pages="PAGES", messages="MESSAGES"),
    amount("bytes"),
    NODE,
)


list_command(
    log,
    "log/streams",
    _STREAMS,
    "The parts by the structure of topics, which readers of other topics pass over.",
    click.option("--generation", type=click.IntRange(min=0), help="Only of this generation."),
    name="streams",
)


_MESSAGES = (
    Column("CAME", lambda one: moment(one["came_at"])),
    field("topic"),
    field("publisher"),
    *numbers(qos="QOS", size="SIZE"),
    Column("PAYLOAD", lambda one: plain(one["payload_base64"] if one["payload"] is None else one["payload"])),
    NODE,
)


list_command(
    log,
    "log/messages",
    _MESSAGES,
    """What the logs of all nodes hold of a filter, in the order in which it came.

    That is what durable sessions want or wanted, what goes up, and what log.record names. To have it as messages of
    MQTT, subscribe to $replay/1h/FILTER.
    """,
    click.argument("filter", default="#"),
    click.option(
        "--since", default="1h", show_default=True, help="So long ago (90s, 15m, 12h, 7d), or a time of ISO 8601."
    ),
    click.option("--until", help="The same; without it, to the end."),
    name="messages",
)


@log.command("verify")
@on_node
def log_verify(node: Node, as_json: bool) -> None:
    """Read and check every page, while the node goes on. Exit code 1 if one is damaged."""
    found = node.post("log", "verification", body={})
    with going_on(lambda: "reading every page of the log"):
        while found["running"]:
            time.sleep(POLL_SECONDS)
            found = node.get("log", "verification")
    if as_json:
        print_json(found)
    else:
        _print_verification(found)
    if found["failure"] is not None:
        raise CtlError(f"the check ended early: {found['failure']}")
    if found["damaged"]:
        raise CtlError(f"{found['damaged']} pages cannot be read")


_DAMAGES = (
    *numbers(generation="GENERATION", stream="STREAM", turn="TURN"),
    field("what"),
)


def _print_verification(found: Json) -> None:
    if found["damages"]:
        print_items(_DAMAGES, found["damages"], as_json=False)
    elif found["failure"] is None:
        click.echo(f"every page is readable (checked in {span(found['ended_at'] - found['began_at'])})")


delete_command(
    log,
    "drop",
    "log/generations/{generation}",
    "dropped",
    "Drop a closed generation. What sessions had still to get of it is counted as dropped, by session.",
    type=click.IntRange(min=0),
)
