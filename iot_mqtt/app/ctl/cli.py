"""``iot-mqtt ctl``: look at a running node and act on it, through its admin API and nothing else."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import target_options
from iot_mqtt.app.lazy import LazyCommand, LazyGroup

_HERE = "iot_mqtt.app.ctl."
COMMANDS = (
    LazyCommand(
        "capture",
        _HERE + "capture:capture",
        "Captures of what gateways say and are told; `iot-mqtt frames` reads them.",
    ),
    LazyCommand("clients", _HERE + "clients:clients", "Connected clients."),
    LazyCommand("cluster", _HERE + "cluster:cluster", "The cluster as the node sees it."),
    LazyCommand("commands", _HERE + "devices:commands", "Commands to devices, and what became of them."),
    LazyCommand("devices", _HERE + "devices:devices", "Gateways and the devices behind them."),
    LazyCommand("log", _HERE + "log:log", "The log of messages for durable sessions."),
    LazyCommand(
        "metrics",
        _HERE + "status:metrics",
        "Print the metrics as Prometheus reads them; with --json the counters of `status`.",
    ),
    LazyCommand("node", _HERE + "cluster:drain_group", "The node's clients, on their way to other nodes."),
    LazyCommand("pipeline", _HERE + "pipeline:pipeline", "The jobs that read the uplink."),
    LazyCommand("plugins", _HERE + "plugins:plugins", "Codecs of other protocols than MQTT."),
    LazyCommand(
        "publish",
        _HERE + "messages:publish",
        "Publish PAYLOAD to TOPIC as the node; `-` reads the payload from standard input.",
    ),
    LazyCommand("retained", _HERE + "messages:retained", "Retained messages."),
    LazyCommand("sessions", _HERE + "sessions:sessions", "Sessions, connected or not."),
    LazyCommand("shadow", _HERE + "devices:shadow", "What a device reported, and what is desired of it."),
    LazyCommand("status", _HERE + "status:status", "The node in one look."),
    LazyCommand("subscriptions", _HERE + "clients:subscriptions", "Subscriptions."),
    LazyCommand("uplink", _HERE + "uplink:uplink", "What leaves towards the data platform."),
    LazyCommand("why", _HERE + "why:why", "Say why a client does or does not get its messages."),
)


@click.group(cls=LazyGroup, lazy=COMMANDS)
@target_options
def ctl() -> None:
    """Look at a running node and act on it.

    The node is found through --url and --token, or else through its data directory, which comes from --data-dir
    or the configuration.
    """
