"""``iot-mqtt ctl``: look at a running node and act on it, through its admin API and nothing else."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

import click

from iot_mqtt.app import ctl_why
from iot_mqtt.app.ctl_node import CtlError, Node, Target
from iot_mqtt.app.ctl_tables import Column, field, form, moment, number, plain, size, span, table

Command = TypeVar("Command", bound=Callable[..., Any])
Json = Mapping[str, Any]


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Options count wherever they stand: before the command or after it."""
    target = context.ensure_object(Target)
    if value and parameter.name is not None:
        setattr(target, parameter.name, value)


_target_option = partial(click.option, callback=_remember, expose_value=False)


def _target_options(command: Command) -> Command:
    options = (
        _target_option("--url", envvar="IOT_MQTT_CTL_URL", help="Base URL of the admin port."),
        _target_option("--token", envvar="IOT_MQTT_CTL_TOKEN", help="Token; better in IOT_MQTT_CTL_TOKEN than here."),
        _target_option("--data-dir", type=click.Path(file_okay=False), help="Data directory of the node."),
        _target_option(
            "--config", "-c", type=click.Path(exists=True, dir_okay=False), help="The node's configuration."
        ),
        _target_option("--json", "as_json", is_flag=True, help="Print JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _on_node(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the node as its first argument, ``--json`` as its second, and turn failures into exit code 1."""

    @_target_options
    @click.pass_context
    @wraps(command)
    def with_node(context: click.Context, /, **arguments: Any) -> None:
        target = context.ensure_object(Target)
        try:
            command(target.connect(), target.as_json, **arguments)
        except CtlError as error:
            raise click.ClickException(str(error)) from error

    return with_node


_limit = click.option("--limit", type=click.IntRange(min=1), help="At most so many; without it, all.")


@click.group()
@_target_options
def ctl() -> None:
    """Look at a running node and act on it.

    The node is found through --url and --token, or else through its data directory, which comes from --data-dir
    or the configuration.
    """


@ctl.command()
@_on_node
def status(node: Node, as_json: bool) -> None:
    """The node in one look."""
    found = node.get("status")
    if as_json:
        _print_json(found)
        return
    figures = {name: value for name, value in found.items() if name not in ("counters", "uptime", "started_at")}
    figures["retained_bytes"] = size(found["retained_bytes"])
    counters = found["counters"]
    counted = {name: counters[name] for name in ("messages_received", "messages_delivered", "dropped", "denied")}
    rows = {**figures, "up": f"{span(found['uptime'])}, since {moment(found['started_at'])}", **counted}
    _print_form((name.replace("_", " "), value) for name, value in rows.items())


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
@_limit
@_on_node
def clients_list(node: Node, as_json: bool, limit: int | None) -> None:
    """List connected clients."""
    _print_items(_CLIENTS, node.items("clients", query={}, limit=limit), as_json)


@clients.command("show")
@click.argument("client")
@_on_node
def clients_show(node: Node, as_json: bool, client: str) -> None:
    """Show one connected client."""
    _print_one(node.get("clients", client), as_json)


@clients.command("kick")
@click.argument("client")
@_on_node
def clients_kick(node: Node, as_json: bool, client: str) -> None:
    """Close a client's connection; it may come back."""
    node.delete("clients", client)
    _print_done({"kicked": client}, as_json)


@ctl.group()
def sessions() -> None:
    """Sessions, connected or not."""


_SESSIONS = (
    field("client_id", "CLIENT"),
    field("connected"),
    field("durable"),
    field("state"),
    number("subscriptions", "SUBS"),
    number("queued"),
    number("inflight"),
    number("delivered"),
    Column("DROPPED", lambda item: str(sum(item["dropped"].values())), right=True),
    field("last_disconnect"),
)


@sessions.command("list")
@_limit
@_on_node
def sessions_list(node: Node, as_json: bool, limit: int | None) -> None:
    """List sessions."""
    _print_items(_SESSIONS, node.items("sessions", query={}, limit=limit), as_json)


@sessions.command("show")
@click.argument("client")
@_on_node
def sessions_show(node: Node, as_json: bool, client: str) -> None:
    """Show one session."""
    _print_one(node.get("sessions", client), as_json)


@sessions.command("purge")
@click.argument("client")
@_on_node
def sessions_purge(node: Node, as_json: bool, client: str) -> None:
    """End a session and forget its subscriptions and all messages that wait for it."""
    node.delete("sessions", client)
    _print_done({"purged": client}, as_json)


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
@_limit
@_on_node
def subscriptions_list(node: Node, as_json: bool, client: str | None, limit: int | None) -> None:
    """List subscriptions."""
    query = {} if client is None else {"client_id": client}
    _print_items(_SUBSCRIPTIONS, node.items("subscriptions", query=query, limit=limit), as_json)


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
@_limit
@_on_node
def retained_list(node: Node, as_json: bool, filter_: str, limit: int | None) -> None:
    """List retained messages, without their payloads."""
    _print_items(_RETAINED, node.items("retained", query={"filter": filter_}, limit=limit), as_json)


@retained.command("show")
@click.argument("topic")
@_on_node
def retained_show(node: Node, as_json: bool, topic: str) -> None:
    """Show one retained message."""
    _print_one(node.get("retained", topic), as_json)


@retained.command("delete")
@click.argument("topic")
@_on_node
def retained_delete(node: Node, as_json: bool, topic: str) -> None:
    """Remove one retained message."""
    node.delete("retained", topic)
    _print_done({"deleted": topic}, as_json)


@ctl.command()
@click.argument("topic")
@click.argument("payload")
@click.option("--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("--retain", is_flag=True, help="Keep it as the topic's retained message.")
@_on_node
def publish(node: Node, as_json: bool, topic: str, payload: str, qos: int, retain: bool) -> None:
    """Publish PAYLOAD to TOPIC as the node; `-` reads the payload from standard input."""
    data = sys.stdin.buffer.read() if payload == "-" else payload.encode("utf-8", "surrogateescape")
    found = node.post("publish", body={"topic": topic, **_payload(data), "qos": qos, "retain": retain})
    if as_json:
        _print_json(found)
    else:
        click.echo(f"matched {found['matched']}")


@ctl.command()
@_on_node
def metrics(node: Node, as_json: bool) -> None:
    """Print the metrics as Prometheus reads them; with --json the counters of `status`."""
    if as_json:
        _print_json(node.get("status")["counters"])
    else:
        click.echo(node.text("/metrics"), nl=False)


@ctl.command()
@click.argument("client")
@_on_node
def why(node: Node, as_json: bool, client: str) -> None:
    """Say why a client does or does not get its messages."""
    found: dict[str, Any] = ctl_why.collect(node, client)
    if as_json:
        _print_json(found)
        return
    _print_form(ctl_why.screen(client, **found, now=time.time()))


def _payload(data: bytes) -> dict[str, str]:
    return {"payload_base64": base64.b64encode(data).decode()}


def _print_items(columns: tuple[Column, ...], items: Iterable[Json], as_json: bool) -> None:
    if as_json:
        _print_json(list(items))
        return
    for line in table(columns, items):
        click.echo(line)


def _print_one(item: Json, as_json: bool) -> None:
    if as_json:
        _print_json(item)
        return
    _print_form((name.replace("_", " "), _shown(name, value)) for name, value in item.items())


def _shown(name: str, value: object) -> str:
    if name.endswith("_at") and isinstance(value, int | float):
        return moment(value)
    return plain(value)


def _print_form(pairs: Iterable[tuple[str, object]]) -> None:
    for line in form(pairs):
        click.echo(line)


def _print_done(item: Json, as_json: bool) -> None:
    if as_json:
        _print_json(item)
        return
    for name, value in item.items():
        click.echo(f"{name} {plain(value)}")


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
