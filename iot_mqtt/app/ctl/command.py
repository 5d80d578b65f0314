"""What the commands of ``iot-mqtt ctl`` share: the options that say which node, and the node itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from iot_mqtt.app.ctl.target import Target
from iot_mqtt.app.terminal import Column, NumberRange, plain, print_done, print_items, print_one, together, uncut

if TYPE_CHECKING:
    from iot_mqtt.app.ctl.node import Node


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Options count wherever they stand: before the command or after it."""
    target = context.ensure_object(Target)
    if value and parameter.name is not None:
        setattr(target, parameter.name, value)


_target_option = partial(click.option, callback=_remember, expose_value=False)


target_options = together(
    _target_option("--url", envvar="IOT_MQTT_CTL_URL", help="Base URL of the admin port."),
    _target_option("--token", envvar="IOT_MQTT_CTL_TOKEN", help="Token; better in IOT_MQTT_CTL_TOKEN than here."),
    _target_option(
        "--cacert",
        type=click.Path(exists=True, dir_okay=False),
        envvar="IOT_MQTT_CTL_CACERT",
        help="Authorities that may have signed the certificate of an https URL, as PEM.",
    ),
    _target_option("--cert", type=click.Path(exists=True, dir_okay=False), help="Certificate of this client."),
    _target_option("--cert-key", type=click.Path(exists=True, dir_okay=False), help="Key of that certificate."),
    _target_option("--data-dir", type=click.Path(file_okay=False), help="Data directory of the node."),
    _target_option("--config", "-c", type=click.Path(exists=True, dir_okay=False), help="The node's configuration."),
    _target_option("--on", metavar="NODE", help="Node of the cluster that it is about; without it, all or any."),
    _target_option("--json", "as_json", is_flag=True, help="Print JSON."),
    _target_option("--wide", is_flag=True, help="Do not cut tables to the width of the terminal."),
    _target_option(
        "--watch",
        type=NumberRange(0.2),
        is_flag=False,
        flag_value=2.0,
        metavar="[SECONDS]",
        help="Show it again every 2 (or so many) seconds; for what only looks. Last, or with =.",
    ),
)


def on_node(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the node as its first argument, ``--json`` as its second."""

    @target_options
    @click.pass_context
    @wraps(command)
    def with_node(context: click.Context, /, **arguments: Any) -> None:
        target = context.ensure_object(Target)
        uncut(target.wide)
        node = target.connect()
        node.only_looks = target.watch is not None
        look = partial(_look, command, node, target.as_json, arguments)
        if target.watch is None:
            look()
            return
        # Late: hardly any command is watched.
        from iot_mqtt.app.ctl.watching import watch

        watch(look, target.watch, as_json=target.as_json)

    return with_node


def _look(command: Callable[..., None], node: Node, as_json: bool, arguments: Mapping[str, Any]) -> None:
    node.missing.clear()
    command(node, as_json, **arguments)
    say_missing(node.missing)


def say_missing(missing: Mapping[str, str]) -> None:
    """Name who did not answer, on standard error."""
    for name, reason in sorted(missing.items()):
        click.echo(f"! without {plain(name)}: {plain(reason)}", err=True)


limit_option = click.option("--limit", type=click.IntRange(min=1), help="At most so many; without it, all.")
#: Of a list whose beginning says most.
first_option = click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many."
)


def list_command(
    group: click.Group,
    path: str,
    columns: tuple[Column, ...],
    help: str,
    *options: Callable[[Any], Any],
    name: str = "list",
) -> None:
    """Give a group the command that lists what is at ``path``; the names of its options are those of the API."""

    def command(node: Node, as_json: bool, limit: int | None, **query: object) -> None:
        print_items(columns, node.items(*path.split("/"), query=query, limit=limit), as_json)

    group.command(name, help=help)(together(*options, limit_option)(on_node(command)))


def show_command(
    group: click.Group, path: str, help: str, show: Callable[[Any, bool], None] = print_one, name: str = "show"
) -> None:
    """Give a group the command that shows what is at ``path``, such as ``nodes/{name}``; its argument is in braces."""

    def command(node: Node, as_json: bool, **given: object) -> None:
        show(node.get(*_filled(path, given)), as_json)

    group.command(name, help=help)(click.argument(_argument(path))(on_node(command)))


def delete_command(group: click.Group, name: str, path: str, done: str, help: str, type: Any = None) -> None:
    """Give a group the command that deletes what is at ``path``, as in ``show_command``, and says ``done`` of it."""
    argument = _argument(path)

    def command(node: Node, as_json: bool, **given: object) -> None:
        node.delete(*_filled(path, given))
        print_done({done: given[argument]}, as_json)

    group.command(name, help=help)(click.argument(argument, type=type)(on_node(command)))


def _argument(path: str) -> str:
    return path.partition("{")[2].partition("}")[0]


def _filled(path: str, given: Mapping[str, object]) -> Iterator[str]:
    """The parts of a path; an argument may hold slashes."""
    return (part.format(**given) for part in path.split("/"))


def assigned(texts: Iterable[str], form: str) -> dict[str, Any]:
    """What stands as ``form``, such as ``TAG=VALUE``, by name; a value is JSON, or else text."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{text!r} is not {form}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
