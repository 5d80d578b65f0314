"""``iot-mqtt ctl config``: what a running node goes by, and changing what may change while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import click

from iot_mqtt.app.config import Config, ConfigError, read_config, schema
from iot_mqtt.app.config.cli import print_differences, refused
from iot_mqtt.app.config.comparing import value_of
from iot_mqtt.app.config.text import value_text
from iot_mqtt.app.ctl.command import limit_option, on_node
from iot_mqtt.app.ctl.listeners import assignment
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.terminal import Column, Json, fields, print_form, print_items, print_json
from iot_mqtt.secrecy import masked_key

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
@click.option("--contains", default="", help="Only keys with this part.")
@limit_option
@on_node
def config_list(node: Node, as_json: bool, under: str, everything: bool, contains: str, limit: int | None) -> None:
    """List what is not the default: all, or the keys below UNDER (such as mqtt or listeners.mqtt)."""
    query = {name: text for name, text in (("under", under), ("contains", contains)) if text}
    found = node.items("config", query=query, limit=None)
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
    _print(node.patch("config", body={"set": _assigned(keys)}), as_json)


def _assigned(keys: Iterable[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in map(assignment, keys):
        if key in found:
            raise click.UsageError(f"{key} is set twice")
        found[key] = value
    return found


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


@config.command("diff")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="As `serve` gets it.")
@on_node
def config_diff(node: Node, as_json: bool, file: str, sets: tuple[str, ...]) -> None:
    """Say what FILE, with this environment and --set, says otherwise than the node goes by. Secrets are not compared.

    Exit code 1: something is different.
    """
    try:
        written = read_config(file, sets).config
    except ConfigError as error:
        raise refused(error) from error
    if print_differences(_differences(node, written), as_json):
        raise SystemExit(1)


def _differences(node: Node, written: Config) -> Iterator[tuple[str, object, object]]:
    here = {key: masked_key(key, value_of(written, key)) for key in schema.keys(written.listeners)}
    there = {item["key"]: item["value"] for item in node.items("config", query={}, limit=None)}
    for key in dict.fromkeys((*here, *there)):
        before, now = there.get(key), here.get(key)
        # What comes as JSON has lists.
        if json.dumps(before, sort_keys=True) != json.dumps(now, sort_keys=True):
            yield key, before, now


def _until(key: str) -> str:
    """When a key takes effect that waits. A plugin that is reloaded takes over all but whether it is enabled."""
    section, _, rest = key.partition(".")
    name, _, setting = rest.partition(".")
    if section == "plugins" and setting not in ("", "enabled"):
        return f"`iot-mqtt ctl plugins reload {name}`, or the node is restarted"
    return "the node is restarted"


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
        click.echo(f"{key}: stays what it was until {_until(key)}")
    for note in told["notes"]:
        click.echo(f"note: {note}")
    if not any(told[word] for word in ("changed", "opened", "closed", "restart")):
        click.echo("nothing is different")
