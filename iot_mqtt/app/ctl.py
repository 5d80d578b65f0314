"""``iot-mqtt ctl``: look at a running node and act on it, through its admin API and nothing else."""

from __future__ import annotations

import base64
import sys
import time
from typing import Any

import click

from iot_mqtt.app import ctl_why
from iot_mqtt.app.ctl_capture import capture
from iot_mqtt.app.ctl_cluster import cluster, drain_group
from iot_mqtt.app.ctl_command import (
    limit_option,
    on_node,
    print_done,
    print_form,
    print_items,
    print_json,
    print_one,
    target_options,
)
from iot_mqtt.app.ctl_devices import commands, devices, shadow
from iot_mqtt.app.ctl_log import log
from iot_mqtt.app.ctl_node import Node
from iot_mqtt.app.ctl_pipeline import pipeline
from iot_mqtt.app.ctl_plugins import plugins
from iot_mqtt.app.ctl_sessions import sessions
from iot_mqtt.app.ctl_tables import Column, field, moment, number, size, span
from iot_mqtt.app.ctl_uplink import uplink


@click.group()
@target_options
def ctl() -> None:
    """Look at a running node and act on it.

    The node is found through --url and --token, or else through its data directory, which comes from --data-dir
    or the configuration.
    """


ctl.add_command(sessions)
ctl.add_command(log)
ctl.add_command(cluster)
ctl.add_command(uplink)
ctl.add_command(pipeline)
ctl.add_command(plugins)
ctl.add_command(capture)
ctl.add_command(drain_group)
ctl.add_command(commands)
ctl.add_command(devices)
ctl.add_command(shadow)


@ctl.command()
@on_node
def status(node: Node, as_json: bool) -> None:
    """The node in one look."""
    found = node.get("status")
    if as_json:
        print_json(found)
        return
    figures = {name: value for name, value in found.items() if name not in ("counters", "uptime", "started_at")}
    figures["retained_bytes"] = size(found["retained_bytes"])
    counters = found["counters"]
    counted = {name: counters[name] for name in ("messages_received", "messages_delivered", "dropped", "denied")}
    rows = {**figures, "up": f"{span(found['uptime'])}, since {moment(found['started_at'])}", **counted}
    print_form((name.replace("_", " "), value) for name, value in rows.items())


@ctl.group()
def clients() -> None:
    """Connected clients."""


_CLIENTS = (
    field("client_id", "CLIENT"),
    field("username", "USER"),
    field("peer"),
    field("listener"),
    field("protocol", "MQTT"),
    Column("CONNECTED", lambda item: moment(item["connected_at"])),
    number("subscriptions", "SUBS"),
    number("inflight"),
    number("queued"),
    number("bytes_received", "IN"),
    number("bytes_sent", "OUT"),
)


@clients.command("list")
@limit_option
@on_node
def clients_list(node: Node, as_json: bool, limit: int | None) -> None:
    """List connected clients."""
    print_items(_CLIENTS, node.items("clients", query={}, limit=limit), as_json)


@clients.command("show")
@click.argument("client")
@on_node
def clients_show(node: Node, as_json: bool, client: str) -> None:
    """Show one connected client."""
    print_one(node.get("clients", client), as_json)


@clients.command("kick")
@click.argument("client")
@on_node
def clients_kick(node: Node, as_json: bool, client: str) -> None:
    """Close a client's connection; it may come back."""
    node.delete("clients", client)
    print_done({"kicked": client}, as_json)


@ctl.group()
def subscriptions() -> None:
    """Subscriptions."""


_SUBSCRIPTIONS = (
    field("client_id", "CLIENT"),
    field("filter"),
    number("qos", "QOS"),
    field("no_local"),
    field("retain_as_published", "AS PUBLISHED"),
    number("retain_handling", "HANDLING"),
    number("identifier", "ID"),
)


@subscriptions.command("list")
@click.option("--client", help="Only of this client.")
@limit_option
@on_node
def subscriptions_list(node: Node, as_json: bool, client: str | None, limit: int | None) -> None:
    """List subscriptions."""
    query = {} if client is None else {"client_id": client}
    print_items(_SUBSCRIPTIONS, node.items("subscriptions", query=query, limit=limit), as_json)


@ctl.group()
def retained() -> None:
    """Retained messages."""


_RETAINED = (
    field("topic"),
    number("size", "BYTES"),
    number("qos", "QOS"),
    field("publisher"),
    Column("EXPIRES", lambda item: moment(item["expires_at"])),
)


@retained.command("list")
@click.option("--filter", "filter_", default="#", show_default=True, help="Only what this MQTT filter matches.")
@limit_option
@on_node
def retained_list(node: Node, as_json: bool, filter_: str, limit: int | None) -> None:
    """List retained messages, without their payloads."""
    print_items(_RETAINED, node.items("retained", query={"filter": filter_}, limit=limit), as_json)


@retained.command("show")
@click.argument("topic")
@on_node
def retained_show(node: Node, as_json: bool, topic: str) -> None:
    """Show one retained message."""
    print_one(node.get("retained", topic), as_json)


@retained.command("delete")
@click.argument("topic")
@on_node
def retained_delete(node: Node, as_json: bool, topic: str) -> None:
    """Remove one retained message."""
    node.delete("retained", topic)
    print_done({"deleted": topic}, as_json)


@ctl.command()
@click.argument("topic")
@click.argument("payload")
@click.option("--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("--retain", is_flag=True, help="Keep it as the topic's retained message.")
@on_node
def publish(node: Node, as_json: bool, topic: str, payload: str, qos: int, retain: bool) -> None:
    """Publish PAYLOAD to TOPIC as the node; `-` reads the payload from standard input."""
    data = sys.stdin.buffer.read() if payload == "-" else payload.encode("utf-8", "surrogateescape")
    found = node.post("publish", body={"topic": topic, **_payload(data), "qos": qos, "retain": retain})
    if as_json:
        print_json(found)
    else:
        click.echo(f"matched {found['matched']}")


@ctl.command()
@on_node
def metrics(node: Node, as_json: bool) -> None:
    """Print the metrics as Prometheus reads them; with --json the counters of `status`."""
    if as_json:
        print_json(node.get("status")["counters"])
    else:
        click.echo(node.text("/metrics"), nl=False)


@ctl.command()
@click.argument("client")
@on_node
def why(node: Node, as_json: bool, client: str) -> None:
    """Say why a client does or does not get its messages."""
    found: dict[str, Any] = ctl_why.collect(node, client)
    if as_json:
        print_json(found)
        return
    print_form(ctl_why.screen(client, **found, now=time.time()))


def _payload(data: bytes) -> dict[str, str]:
    return {"payload_base64": base64.b64encode(data).decode()}
