"""``iot-mqtt ctl commands | devices | shadow``: what was sent to devices, who they are, and how they are."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Final

import click

from iot_mqtt.app.ctl.command import assigned, delete_command, limit_option, list_command, on_node, show_command
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import (
    Column,
    Json,
    NumberRange,
    at,
    field,
    fields,
    moment,
    number,
    numbers,
    plain,
    print_done,
    print_items,
    print_one,
    print_screen,
)

_STATES = ("queued", "sent", "acked", "failed", "expired", "uncertain")
#: Seconds between two looks at a command that is waited for.
_POLL_SECONDS = 0.2


@click.group()
def commands() -> None:
    """Commands to devices, and what became of them."""


#: States of a command of which the end is not known.
_GOES_ON: Final = ("queued", "sent")
_COMMANDS = (
    *fields(id="ID", target="TARGET", state="STATE"),
    at("changed_at", "SINCE"),
    at("deadline", "DEADLINE"),
    field("retry"),
    number("attempts", "SENT"),
    # A viewer is not told what the device answered.
    Column("DETAIL", lambda item: plain(item.get("detail", ""))),
)


list_command(
    commands,
    "commands",
    _COMMANDS,
    "List commands; those that are over can be seen for a time.",
    click.option("--target", help="Only of this client, gateway or GATEWAY/DEVICE."),
    click.option("--state", type=click.Choice(_STATES), help="Only in this state."),
)


def _print(found: Json, as_json: bool) -> None:
    print_screen(found, as_json, _screen)


def _screen(found: Json) -> Iterator[tuple[str, str]]:
    hidden = ("times", "body_base64", "accepted_at", "changed_at", "deadline")
    for name, value in found.items():
        if name not in hidden:
            yield name.replace("_", " "), plain(value)
    yield "deadline", moment(found["deadline"])
    times = sorted(found["times"].items(), key=lambda one: one[1])
    yield "history", "; ".join(f"{state} {moment(at)}" for state, at in times)


_target_option = click.option("--target", help="The one to this target, where commands to several clients have the id.")


@commands.command("show")
@click.argument("command")
@_target_option
@on_node
def commands_show(node: Node, as_json: bool, command: str, target: str | None) -> None:
    """Show one command with its body."""
    _print(node.get("commands", command, query={"target": target}), as_json)


@commands.command("send")
@click.argument("target")
@click.argument("body")
@click.option("--expires-in", type=NumberRange(min=0, min_open=True), help="Seconds; later it is not sent.")
@click.option("--retry", is_flag=True, help="It may be sent twice, if nobody knows whether it has arrived.")
@click.option("--wants-reply", is_flag=True, help="An MQTT device answers for itself; PUBACK is not enough.")
@click.option("--key", "idempotency_key", help="Of two commands with the same key the second is not sent.")
@click.option("--wait", type=NumberRange(min=0), help="Seconds to wait for its end.")
@on_node
def commands_send(node: Node, as_json: bool, target: str, body: str, wait: float | None, **order: object) -> None:
    """Send BODY to TARGET, a client id or GATEWAY/DEVICE; `-` reads the body from standard input.

    Exit code 0: it was accepted, and is queued, sent or acked; with --wait: it is acked. 1: it has failed or expired,
    nobody knows whether it was done, or, with --wait, it is not acked in time.
    """
    text = sys.stdin.read() if body == "-" else body
    found = node.post("commands", body={"target": target, "body": text, **order})
    until = time.monotonic() + (wait or 0)
    while found["state"] in _GOES_ON and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        found = node.get("commands", found["id"], query={"target": target})
    _print(found, as_json)
    if found["state"] != "acked" and (wait is not None or found["state"] not in _GOES_ON):
        raise CtlError(f"the command is {found['state']}")


@commands.command("cancel")
@click.argument("command")
@_target_option
@on_node
def commands_cancel(node: Node, as_json: bool, command: str, target: str | None) -> None:
    """Take back a command that was not sent."""
    node.delete("commands", command, query={"target": target})
    print_done({"cancelled": command}, as_json)


@click.group()
def devices() -> None:
    """Gateways and the devices behind them."""


_DEVICES = (
    *fields(target="TARGET", online="ONLINE", codec="CODEC", version="VERSION", address="ADDRESS"),
    at("first_seen", "FIRST SEEN"),
    at("last_seen", "LAST SEEN"),
    *numbers(logins="LOGINS", readings="READINGS"),
)


@devices.command("list")
@click.option("--gateway", help="Only this gateway and its devices.")
@limit_option
@on_node
def devices_list(node: Node, as_json: bool, gateway: str | None, limit: int | None) -> None:
    """List gateways and devices."""
    found = node.items("devices", query={"gateway": gateway}, limit=limit)
    print_items(_DEVICES, found if as_json else map(_counted, found), as_json)


@devices.command("show")
@click.argument("target")
@on_node
def devices_show(node: Node, as_json: bool, target: str) -> None:
    """Show one gateway, or GATEWAY/DEVICE."""
    found = node.get("devices", target)
    if not as_json:
        found = {**_counted(found), **{name: moment(found[name]) for name in ("first_seen", "last_seen")}}
    print_one(found, as_json)


def _counted(found: Json) -> Json:
    """For people: a gateway has no readings of its own, and what its devices have sent is counted with each of them."""
    return found if found["device"] or found["readings"] else {**found, "readings": None}


show_command(
    devices,
    "devices/{gateway}/sequence",
    "Show how far the frames of GATEWAY are safe: those up to there are taken for repetitions.",
    name="sequence",
)
delete_command(
    devices,
    "forget-sequence",
    "devices/{gateway}/sequence",
    "forgotten",
    "Take none of the frames of GATEWAY for a repetition any more: it counts anew from its next login.",
)


@click.group()
def shadow() -> None:
    """What a device reported, and what is desired of it."""


#: In the place of what the token's role does not show.
FOR_OPERATORS = "(values are for operators)"


def _print_shadow(found: Json, as_json: bool) -> None:
    print_screen(found, as_json, _shadow_screen)


def _shadow_screen(found: Json) -> Iterator[tuple[str, str]]:
    yield "target", plain(found["target"])
    for half in ("reported", "desired"):
        values = found[half].get("values", FOR_OPERATORS)
        yield half, f"{plain(values)} (version {found[half]['version']})"
    yield "delta", plain(found.get("delta", FOR_OPERATORS))


show_command(
    shadow, "shadows/{target}", "Show the shadow of TARGET, a client id or GATEWAY/DEVICE.", _print_shadow, name="get"
)


@shadow.command("set")
@click.argument("target")
@click.argument("values", nargs=-1, required=True)
@click.option("--version", type=click.IntRange(min=0), help="Only if what is desired has this version.")
@on_node
def shadow_set(node: Node, as_json: bool, target: str, values: tuple[str, ...], version: int | None) -> None:
    """Desire TAG=VALUE ... of TARGET; values are JSON, or else text. `null` takes a tag away."""
    desired = assigned(values, "TAG=VALUE")
    _print_shadow(node.post("shadows", target, body={"desired": desired, "version": version}), as_json)


delete_command(
    shadow,
    "forget",
    "shadows/{target}",
    "forgotten",
    "Forget what TARGET reported, and whose device it is: another user's may report from then on.",
)
