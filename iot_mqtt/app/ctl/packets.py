"""``iot-mqtt ctl packets | trace``: what went over a client's connections, and what goes over them now."""

from __future__ import annotations

import json

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.node import Node, NoSuch
from iot_mqtt.app.terminal import Json, moment, plain, print_json

_ARROWS = {"in": "->", "out": "<-"}


@click.command()
@click.argument("client")
@on_node
def packets(node: Node, as_json: bool, client: str) -> None:
    """Show the last packets of a client: `->` came from it, `<-` went to it."""
    found = node.get("clients", client, "packets")["items"]
    if as_json:
        print_json(found)
        return
    if not found:
        raise NoSuch(f"nothing was recorded of {plain(client)}, or it was too long ago")
    for one in found:
        click.echo(packet_line(one))


@click.command()
@click.argument("client", required=False)
@click.option("--topic", help="PUBLISH packets whose topic matches this filter.")
@click.option("--address", help="All connections from this address.")
@click.option("--seconds", type=click.IntRange(1, 600), default=60, show_default=True, help="How long.")
@on_node
def trace(node: Node, as_json: bool, client: str | None, topic: str | None, address: str | None, seconds: int) -> None:
    """Show packets of a CLIENT, a topic or an address as they come and go, on all nodes.

    With --json each is one line.
    """
    wanted = {name: text for name, text in (("client", client), ("filter", topic), ("address", address)) if text}
    if len(wanted) != 1:
        raise CtlError("give one of CLIENT, --topic and --address")
    for kind, event in node.events("trace", query={**wanted, "seconds": str(seconds)}):
        if as_json:
            click.echo(json.dumps({"event": kind, **event}, ensure_ascii=False))
        elif kind == "packet":
            click.echo(f"{packet_line(event)}  [{plain(event['client'])}, {plain(event['node'])}]")
        elif kind == "lost":
            click.echo(f"({event.get('packets', event.get('events'))} packets left out: too many)", err=True)
        else:
            click.echo(f"({plain(event.get('node', '?'))}: {plain(event.get('reason', kind))})", err=True)


def packet_line(one: Json) -> str:
    """One receive or one write."""
    milliseconds = int(one["at"] * 1000) % 1000
    return f"{moment(one['at'])[:-1]}.{milliseconds:03}Z {_ARROWS[one['direction']]} {plain(one['text'])}"
