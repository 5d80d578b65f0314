"""What the commands of ``iot-mqtt ctl`` share: the options that say which node, and how answers are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

import click

from iot_mqtt.app.ctl_node import CtlError, Target
from iot_mqtt.app.ctl_tables import Column, form, moment, plain, table

Command = TypeVar("Command", bound=Callable[..., Any])
Json = Mapping[str, Any]


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Options count wherever they stand: before the command or after it."""
    target = context.ensure_object(Target)
    if value and parameter.name is not None:
        setattr(target, parameter.name, value)


_target_option = partial(click.option, callback=_remember, expose_value=False)


def target_options(command: Command) -> Command:
    options = (
        _target_option("--url", envvar="IOT_MQTT_CTL_URL", help="Base URL of the admin port."),
        _target_option("--token", envvar="IOT_MQTT_CTL_TOKEN", help="Token; better in IOT_MQTT_CTL_TOKEN than here."),
        _target_option("--data-dir", type=click.Path(file_okay=False), help="Data directory of the node."),
        _target_option(
            "--config", "-c", type=click.Path(exists=True, dir_okay=False), help="The node's configuration."
        ),
        _target_option("--json", "as_json", is_flag=True, help="Print JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def on_node(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the node as its first argument, ``--json`` as its second, and turn failures into exit code 1."""

    @target_options
    @click.pass_context
    @wraps(command)
    def with_node(context: click.Context, /, **arguments: Any) -> None:
        target = context.ensure_object(Target)
        try:
            command(target.connect(), target.as_json, **arguments)
        except CtlError as error:
            raise click.ClickException(str(error)) from error

    return with_node


limit_option = click.option("--limit", type=click.IntRange(min=1), help="At most so many; without it, all.")


def print_items(columns: tuple[Column, ...], items: Iterable[Json], as_json: bool) -> None:
    if as_json:
        print_json(list(items))
        return
    for line in table(columns, items):
        click.echo(line)


def print_one(item: Json, as_json: bool) -> None:
    if as_json:
        print_json(item)
        return
    print_form((name.replace("_", " "), _shown(name, value)) for name, value in item.items())


def _shown(name: str, value: object) -> str:
    if name.endswith("_at") and isinstance(value, int | float):
        return moment(value)
    return plain(value)


def print_form(pairs: Iterable[tuple[str, object]]) -> None:
    for line in form(pairs):
        click.echo(line)


def print_done(item: Json, as_json: bool) -> None:
    if as_json:
        print_json(item)
        return
    for name, value in item.items():
        click.echo(f"{name} {plain(value)}")


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
