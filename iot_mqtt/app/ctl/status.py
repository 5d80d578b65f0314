"""``iot-mqtt ctl status | metrics``: the node in one look, and in figures."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import moment, print_form, print_json, size, span


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
