"""``iot-mqtt ctl``: look at a running node and act on it, through its admin API and nothing else."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.capture import capture
from iot_mqtt.app.ctl.clients import clients, subscriptions
from iot_mqtt.app.ctl.cluster import cluster, drain_group
from iot_mqtt.app.ctl.command import target_options
from iot_mqtt.app.ctl.devices import commands, devices, shadow
from iot_mqtt.app.ctl.log import log
from iot_mqtt.app.ctl.messages import publish, retained
from iot_mqtt.app.ctl.pipeline import pipeline
from iot_mqtt.app.ctl.plugins import plugins
from iot_mqtt.app.ctl.sessions import sessions
from iot_mqtt.app.ctl.status import metrics, status
from iot_mqtt.app.ctl.uplink import uplink
from iot_mqtt.app.ctl.why import why


@click.group()
@target_options
def ctl() -> None:
    """Look at a running node and act on it.

    The node is found through --url and --token, or else through its data directory, which comes from --data-dir
    or the configuration.
    """


for _command in (
    capture,
    clients,
    cluster,
    commands,
    devices,
    drain_group,
    log,
    metrics,
    pipeline,
    plugins,
    publish,
    retained,
    sessions,
    shadow,
    status,
    subscriptions,
    uplink,
    why,
):
    ctl.add_command(_command)
