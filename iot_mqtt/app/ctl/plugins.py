"""``iot-mqtt ctl plugins``: which codecs a node has, and which versions of them are at work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from iot_mqtt.app.ctl.command import on_node, show_command
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.wheels import sha256_of, wheel_of
from iot_mqtt.app.terminal import (
    NODE,
    Column,
    Json,
    field,
    fields,
    number,
    plain,
    print_form,
    print_items,
    print_json,
    span,
)


@click.group()
def plugins() -> None:
    """Codecs of other protocols than MQTT."""


def _elsewhere(item: Json) -> str:
    return str(sum(one["connections"] for one in item["versions"] if not one["current"]))


def _reason(item: Json) -> str:
    held = len(item["held_off"])
    text = plain(item["reason"])
    if held:
        text = f"{held} held off" + ("" if item["reason"] is None else f"; {text}")
    return _short(text)


def _faults(item: Json) -> str:
    return str(sum(item["faults"].values()))


_PLUGINS = (
    field("name", "PLUGIN"),
    *fields(state="STATE", version="VERSION", isolation="ISOLATION"),
    number("connections", "CONNS"),
    Column("ELSEWHERE", _elsewhere, right=True),
    Column("FAULTS", _faults, right=True),
    NODE,
    Column("REASON", _reason),
)

_VERSIONS = (
    *fields(label="LABEL", current="CURRENT", loaded="LOADED"),
    number("connections", "CONNS"),
)
_REASON = 80
#: Seconds; pip unpacks the wheel.
_INSTALLING = 330.0


@plugins.command("list")
@on_node
def plugins_list(node: Node, as_json: bool) -> None:
    """List plugins, enabled or not. ELSEWHERE: connections that are on other versions than the current one."""
    print_items(_PLUGINS, node.items("plugins", query={}, limit=None), as_json)


def _print(found: Json, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_form(_screen(found))
    if found["versions"]:
        click.echo()
        print_items(_VERSIONS, found["versions"], as_json)


show_command(plugins, "plugins/{name}", "Show one plugin with its versions, its faults and what it counts.", _print)


@plugins.command("install")
@click.argument("path", type=click.Path(exists=True))
@click.option("--sha256", help="As the vendor has published it; another wheel is not installed.")
@on_node
def plugins_install(node: Node, as_json: bool, path: str, sha256: str | None) -> None:
    """Give the node a wheel or a project's directory, which lies on its machine.

    The wheel of a directory is built here, by you. Nothing that runs is changed: `enable` or `reload` use it. Versions
    are kept for `rollback`. Dependencies are not installed.
    """
    with wheel_of(Path(path).resolve()) as wheel:
        body = {"path": str(wheel), "sha256": sha256 or sha256_of(wheel)}
        found = node.post("plugins", body=body, patience=_INSTALLING)["items"]
    if as_json:
        print_json(found)
        return
    for one in found:
        step = "enable" if one["state"] == "disabled" else "reload"
        click.echo(f"installed {plain(one['name'])}; `ctl plugins {step} {plain(one['name'])}` uses it")


@plugins.command("enable")
@click.argument("name")
@click.option("--isolation", type=click.Choice(["inline", "process"]), help="Where it runs; remembered.")
@on_node
def plugins_enable(node: Node, as_json: bool, name: str, isolation: str | None) -> None:
    """Load a plugin, now and at every start; ends a quarantine."""
    _print(node.post("plugins", name, "enable", body={"isolation": isolation}), as_json)


@plugins.command("disable")
@click.argument("name")
@on_node
def plugins_disable(node: Node, as_json: bool, name: str) -> None:
    """Let none of its gateways in any more, and ask those that are there to close."""
    _print(node.post("plugins", name, "disable", body={}), as_json)


@plugins.command("check")
@click.argument("name")
@click.option("--label", help="Of a version; without it, the one that came last.")
@on_node
def plugins_check(node: Node, as_json: bool, name: str, label: str | None) -> None:
    """Have the node hold a version that it keeps against the codec kit, in a sandbox. Exit code 1 if a check fails."""
    found = node.post("plugins", name, "check", body={"label": label}, patience=_INSTALLING)
    if as_json:
        print_json(found)
    else:
        click.echo(f"{plain(found['name'])} {plain(found['label'])}\n")
        for one in found["checks"]:
            click.echo(f"{plain(one['name']):<16}{_VERDICTS[one['verdict']]:<6}{plain(one['figure'])}".rstrip())
            for text in one["complaints"]:
                click.echo(f"{'':<22}! {plain(text)}")
    sys.exit(not found["ok"])


_VERDICTS = {"pass": "PASS", "fail": "FAIL", "none": "-"}
_drain_option = click.option("--drain", is_flag=True, help="Ask connections on other versions to close, one by one.")


@plugins.command("reload")
@click.argument("name")
@_drain_option
@on_node
def plugins_reload(node: Node, as_json: bool, name: str, drain: bool) -> None:
    """Use the version that was installed last for new connections; old ones finish on theirs. Ends a quarantine.

    If it does not fit, the version before stays, and the exit code is 1.
    """
    _print(node.post("plugins", name, "reload", body={"drain": drain}), as_json)


@plugins.command("rollback")
@click.argument("name")
@_drain_option
@on_node
def plugins_rollback(node: Node, as_json: bool, name: str, drain: bool) -> None:
    """Use the version from before for new connections; again: the one before that command."""
    _print(node.post("plugins", name, "rollback", body={"drain": drain}), as_json)


def _screen(found: Json) -> Iterator[tuple[str, str]]:
    yield "plugin", plain(found["name"]) + (" (bundled)" if found["bundled"] else "")
    yield "state", found["state"] + ("" if found["quarantine"] is None else f", {span(found['quarantine'])} to go")
    if found["reason"] is not None:
        yield "reason", plain(found["reason"])
    schema = "" if found["schema_version"] is None else f", schema {found['schema_version']}"
    yield "version", f"{plain(found['version'])}{schema}"
    process = "" if found["pid"] is None else f", process {found['pid']}"
    restarts = f", started again {found['restarts']} times" if found["restarts"] else ""
    yield "isolation", f"{found['isolation']}{process}{restarts}"
    if found["unconfined"]:
        told = "; ".join(f"{step}: {why}" for step, why in found["unconfined"].items())
        yield "not enforced", plain(told)
    yield "connections", plain(found["connections"])
    if slow := found["slow"]:
        counts = f"{slow['slow']} over {found['slow_frame']:g} s a frame"
        stalls = f"{slow.get('stalled', 0)} over {found['stall']:g} s"
        yield "slow calls", f"{counts}, of them {stalls}; the longest took {found['slowest']:g} s"
    for one in found["held_off"]:
        yield "held off", f"{one['kind']} {plain(one['name'])} for {span(one['seconds'])} more: {plain(one['reason'])}"
    for name in ("faults", "last_fault", "turned_away", "counters"):
        if found[name]:
            yield name.replace("_", " "), plain(found[name])


def _short(text: str) -> str:
    return text if len(text) <= _REASON else f"{text[: _REASON - 1]}…"
