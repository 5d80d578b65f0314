"""``iot-mqtt ctl clients``: who is connected."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import delete_command, list_command, show_command
from iot_mqtt.app.terminal import NODE, at, field, fields, numbers


@click.group()
def clients() -> None:
    """Connected clients."""


_CLIENTS = (
    field("client_id", "CLIENT"),
    *fields(username="USER", peer="PEER", listener="LISTENER", protocol="PROTOCOL"),
    at("connected_at", "CONNECTED"),
    *numbers(subscriptions="SUBS", inflight="INFLIGHT", queued="QUEUED", bytes_received="IN", bytes_sent="OUT"),
    NODE,
)


list_command(
    clients,
    "clients",
    _CLIENTS,
    "List connected clients.",
    click.option("--prefix", help="Only client ids that begin like this."),
    click.option("--user", help="Only of this user; empty: of none."),
    click.option("--address", help="Only from this address or network."),
    click.option("--listener", help="Only at this listener."),
)


show_command(clients, "clients/{client}", "Show one connected client.")
delete_command(clients, "kick", "clients/{client}", "kicked", "Close a client's connection; it may come back.")
