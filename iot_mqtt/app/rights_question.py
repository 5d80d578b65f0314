"""Whether a client may do something, asked on the command line: by ``ctl auth may`` and ``acl explain``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from iot_mqtt.app.terminal import plain, print_json, together

#: Who asks, and with which QoS and RETAIN: ``client_id``, ``user``, ``groups``, ``address``, ``rules``, …
question_options = together(
    click.option("--client", "client_id", default="", help="Client id."),
    click.option("--user", help="Verified user name; without it, an anonymous client."),
    click.option("--group", "groups", multiple=True, help="Group, beside those that are known; may be repeated."),
    click.option("--address", default="", help="Address that it comes from; without it, nobody knows."),
    click.option("--rule", "rules", multiple=True, help="Rule that it brings with a token; may be repeated."),
    click.option("--qos", type=click.IntRange(0, 2), default=0, show_default=True, help="QoS of what is published."),
    click.option("--retain", is_flag=True, help="What is published is retained."),
)


def print_answer(found: Mapping[str, Any]) -> None:
    """Yes or no, and the rule that says so."""
    click.echo(f"{'yes' if found['allowed'] else 'no'}: {plain(found['detail'])}")
    if found["rule"] is not None:
        click.echo(f"{plain(found['source'])}:{found['line']}: {plain(found['rule'])}")


def answer_and_exit(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Print it, and leave with 1 for a no."""
    if as_json:
        print_json(found)
    else:
        print_answer(found)
    sys.exit(0 if found["allowed"] else 1)
