"""``iot-mqtt ctl pipeline``: how the jobs that read the uplink are doing, and what they raised and rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from iot_mqtt.app.ctl.command import first_option, on_node
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.pipeline.status import print_jobs
from iot_mqtt.app.terminal import NODE, Column, field, moment, plain, print_items, size, span

#: Characters of a payload in a line; with --json it is longer.
_SHOWN = 60


@click.group()
def pipeline() -> None:
    """The jobs that read the uplink."""


@pipeline.command("status")
@on_node
def pipeline_status(node: Node, as_json: bool) -> None:
    """Rates, lag and watermark of each job, and whether it runs."""
    print_jobs(node.listed("pipeline"), as_json)


def _device(one: Mapping[str, Any]) -> str:
    return plain("/".join(one[name] for name in ("gateway", "device") if one[name]))


def _lasted(one: Mapping[str, Any]) -> str:
    return "active" if one["cleared_at"] is None else span(one["cleared_at"] - one["raised_at"])


_ALARMS = (
    Column("RAISED", lambda one: moment(one["raised_at"])),
    Column("LASTED", _lasted, right=True),
    Column("DEVICE", _device),
    field("tag"),
    field("rule"),
    field("severity"),
    Column("VALUE", lambda one: plain(one["value"]), right=True),
    NODE,
)
_LETTERS = (
    Column("ARRIVED", lambda one: moment(one["at"])),
    field("device"),
    field("reason"),
    field("tag"),
    Column("SIZE", lambda one: size(one["size"]), right=True),
    Column("PAYLOAD", lambda one: plain(one["payload"][:_SHOWN])),
    NODE,
)


@pipeline.command("alarms")
@click.option("--contains", metavar="PART", help="Only with this in device, tag or rule.")
@click.option("--active/--over", default=None, help="Only those that go on, or are over.")
@first_option
@on_node
def pipeline_alarms(node: Node, as_json: bool, limit: int, contains: str | None, active: bool | None) -> None:
    """Alarms that the rules have raised, the newest first."""
    query = {"active": active, "contains": contains}
    print_items(_ALARMS, node.items("pipeline", "alarms", query=query, limit=limit), as_json)


@pipeline.command("letters")
@click.option("--contains", metavar="PART", help="Only with this in topic, reason, tag or sender.")
@first_option
@on_node
def pipeline_letters(node: Node, as_json: bool, limit: int, contains: str | None) -> None:
    """Records that became no readings, the newest first, with the beginning of what was published."""
    found = node.items("pipeline", "dead_letters", query={"contains": contains}, limit=limit)
    print_items(_LETTERS, found, as_json)
