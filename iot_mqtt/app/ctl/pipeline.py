"""``iot-mqtt ctl pipeline``: how the jobs that read the uplink are doing, as the node sees it."""

from __future__ import annotations

import time

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.pipeline.status import screen
from iot_mqtt.app.terminal import print_form, print_json


@click.group()
def pipeline() -> None:
    """The jobs that read the uplink."""


@pipeline.command("status")
@on_node
def pipeline_status(node: Node, as_json: bool) -> None:
    """Rates, lag and watermark of each job, and whether it runs."""
    found = node.listed("pipeline")
    if as_json:
        print_json(found)
    elif found:
        print_form(screen(found, time.time()))
    else:
        click.echo("no job ran yet: iot-mqtt pipeline run clean")
