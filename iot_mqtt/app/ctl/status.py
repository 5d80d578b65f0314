"""``iot-mqtt ctl status | metrics | alarms``: the node in one look, in figures, and what an operator should know."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, Json, at, field, moment, print_form, print_items, print_json, size, span


@click.command()
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


@click.command()
@on_node
def metrics(node: Node, as_json: bool) -> None:
    """Print the metrics as Prometheus reads them; with --json the counters of `status`."""
    if as_json:
        print_json(node.get("status")["counters"])
    else:
        click.echo(node.text("/metrics"), nl=False)


_ALARMS = (
    *(field("node", "NODE"), at("since", "SINCE")),
    Column("UNTIL", lambda item: "goes on" if item["until"] is None else moment(item["until"])),
    *(field("code", "ABOUT"), field("text", "ALARM"), field("helps", "HELPS")),
)


@click.group()
def alarms() -> None:
    """What an operator should know: what goes on, since when, what was, and what helps."""


@alarms.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that are over, too: the last 200 of each node.")
@on_node
def alarms_list(node: Node, as_json: bool, everything: bool) -> None:
    """List alarms that go on, the newest first. Who does not answer is named on standard error."""
    found: list[Json] = node.listed("alarms")
    print_items(_ALARMS, [one for one in found if everything or one["until"] is None], as_json)
