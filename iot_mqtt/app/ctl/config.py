"""``iot-mqtt ctl config``: what a running node goes by, and changing what may change while it runs."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import limit_option, on_node
from iot_mqtt.app.ctl.listeners import assignment
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, Json, fields, print_form, print_items, print_json, value_text

_KEYS = (
    *fields(key="KEY"),
    Column("IN FORCE", lambda item: value_text(item["value"])),
    Column("AFTER A RESTART", lambda item: value_text(item["written"]) if item["restart"] else ""),
    Column("CHANGES", lambda item: "while it runs" if item["live"] else "with a restart"),
    *fields(where="WRITTEN AT"),
)


@click.group()
def config() -> None:
    """What the node goes by, and who says so."""


@config.command("list")
@click.argument("under", default="")
@click.option("--all", "everything", is_flag=True, help="Defaults, too.")
@limit_option
@on_node
def config_list(node: Node, as_json: bool, under: str, everything: bool, limit: int | None) -> None:
    """List what is not the default: all, or the keys below UNDER (such as mqtt or listeners.mqtt)."""
    found = node.items("config", query={"under": under} if under else {}, limit=None)
    shown = (item for item in found if everything or item["layer"] != "default" or item["restart"])
    print_items(_KEYS, (item for number, item in enumerate(shown) if limit is None or number < limit), as_json)


@config.command("show")
@click.argument("key")
@on_node
def config_show(node: Node, as_json: bool, key: str) -> None:
    """Show one KEY, with what each layer says of it."""
    found = node.get("config", key)
    if as_json:
        print_json(found)
        return
    print_form(
        [
            ("in force", value_text(found["value"])),
            *([("after a restart", value_text(found["written"]))] if found["restart"] else []),
            *((f"by {one['layer']}", f"{value_text(one['value'])}  ({one['where']})") for one in found["layers"]),
            ("changes", "while the node runs" if found["live"] else "with a restart"),
            ("means", found["means"]),
        ]
    )


@config.command("set")
@click.argument("keys", nargs=-1, required=True, metavar="KEY=VALUE...")
@on_node
def config_set(node: Node, as_json: bool, keys: tuple[str, ...]) -> None:
    """Change keys now, and for each restart. They count above the file, and below the environment and --set."""
    _print(node.patch("config", body={"set": dict(map(assignment, keys))}), as_json)


@config.command("unset")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@on_node
def config_unset(node: Node, as_json: bool, keys: tuple[str, ...]) -> None:
    """Take changes back: the keys are what the file says again."""
    _print(node.patch("config", body={"unset": list(keys)}), as_json)


@config.command("reload")
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what would change.")
@on_node
def config_reload(node: Node, as_json: bool, dry_run: bool) -> None:
    """Have the node read its configuration again, as SIGHUP does. What is wrong changes nothing at all."""
    _print(node.post("config", "reload", body={"dry_run": dry_run}), as_json)


def _print(told: Json, as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    for one in told["changed"]:
        click.echo(f"{one['key']}: {value_text(one['before'])} -> {value_text(one['now'])}")
    for word in ("opened", "closed"):
        for name in told[word]:
            click.echo(f"listeners.{name}: {word}")
    for key in told["restart"]:
        click.echo(f"{key}: stays what it was until the node is restarted")
    for note in told["notes"]:
        click.echo(f"note: {note}")
    if not any(told[word] for word in ("changed", "opened", "closed", "restart")):
        click.echo("nothing is different")
