"""``iot-mqtt ctl packets CLIENT``: what went over a client's connections, from the flight recorder."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import on_node
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


def packet_line(one: Json) -> str:
    """One receive or one write."""
    milliseconds = int(one["at"] * 1000) % 1000
    return f"{moment(one['at'])[:-1]}.{milliseconds:03}Z {_ARROWS[one['direction']]} {plain(one['text'])}"
