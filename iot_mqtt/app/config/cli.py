"""``iot-mqtt config``: what a node would be told, and by whom."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import yaml

from iot_mqtt.app.config import DEFAULT_FILE, ConfigError, LoadedConfig, default_file, read_config, schema
from iot_mqtt.app.config.checks import serving_problems
from iot_mqtt.app.config.comparing import defaults, differences
from iot_mqtt.app.config.effects import notes
from iot_mqtt.app.config.file_checks import file_notes, file_problems
from iot_mqtt.app.config.limits import RENAMED
from iot_mqtt.app.config.migrating import migrate
from iot_mqtt.app.config.plugin_checks import plugin_problems
from iot_mqtt.app.config.text import explained, reference, shown, value_text
from iot_mqtt.app.terminal import together


def _default_file(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return value or default_file()


#: For commands that read configuration.
config_options = together(
    click.option(
        "--config",
        "-c",
        "path",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, readable=True),
        callback=_default_file,
        help=f"The configuration file; ./{DEFAULT_FILE} if there is one.",
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set one key, over file and environment; may be given again.",
    ),
)


def refused(error: ConfigError) -> click.ClickException:
    """The problems on standard error, one a line, and exit code 1."""
    return _Refused(error)


class _Refused(click.ClickException):
    exit_code = 1

    def __init__(self, error: ConfigError) -> None:
        super().__init__(str(error))
        self.count = len(error.problems)

    def show(self, file: Any = None) -> None:
        click.echo(self.message, file=file, err=file is None)
        click.echo(f"configuration refused: {self.count} problem{'s' if self.count > 1 else ''}", file=file, err=True)


@click.group("config")
def config_group() -> None:
    """Look at the configuration."""


@config_group.command()
@click.argument("key")
@config_options
def explain(key: str, path: str | None, sets: tuple[str, ...]) -> None:
    """Say what KEY is, where its value comes from and what it overrides."""
    loaded = _read(path, sets)
    text = explained(loaded, key)
    if text is None:
        raise click.ClickException(f"{key}: {schema.unknown(key, loaded.config.listeners)}")
    click.echo(text, nl=False)


@config_group.command()
@config_options
def check(path: str | None, sets: tuple[str, ...]) -> None:
    """Say whether a node could serve with this configuration."""
    loaded = _read(path, sets)
    problems = serving_problems(loaded)
    problems += file_problems(loaded, problems)
    # Entries that are wrong themselves cannot be asked further.
    problems += [] if problems else plugin_problems(loaded)
    if problems:
        raise refused(ConfigError(problems))
    for note in (*notes(loaded), *file_notes(loaded, time.time())):
        click.echo(f"note: {note}")
    click.echo(f"{path or 'defaults'}: ok")


@config_group.command()
@config_options
def show(path: str | None, sets: tuple[str, ...]) -> None:
    """Print the effective configuration as YAML, secrets masked."""
    click.echo(shown(_read(path, sets)), nl=False)


@config_group.command()
@click.argument("other", required=False, type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_options
def diff(other: str | None, as_json: bool, path: str | None, sets: tuple[str, ...]) -> None:
    """Say what is different from the defaults, or with OTHER from that file. Secrets are masked.

    `iot-mqtt ctl config diff` compares a file with a node that runs. Exit code 1: something is different.
    """
    now = _read(path, sets).config
    before = defaults() if other is None else _read(other, ()).config
    if print_differences(differences(before, now), as_json):
        raise SystemExit(1)


@config_group.command("migrate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("--dry-run", is_flag=True, help="Write nothing, only say what would be written.")
def migrate_file(file: str, dry_run: bool) -> None:
    """Give keys of FILE that were renamed their names of now; comments stay, and the file of before as FILE.before.

    Exit code 1: something is left to be done by hand.
    """
    path = Path(file)
    before = path.read_text(encoding="utf-8")
    try:
        found = migrate(before, RENAMED)
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file}: is not YAML: {error}") from error
    for line in (*found.done, *found.left):
        click.echo(f"{file}:{line}")
    if found.text != before and not dry_run:
        path.with_name(f"{path.name}.before").write_text(before, encoding="utf-8")
        path.write_text(found.text, encoding="utf-8")
    if found.left:
        raise SystemExit(1)
    if not found.done:
        click.echo(f"{file}: every key has its name of now")


@config_group.command("reference")
def print_reference() -> None:
    """Print an application.yaml with every key, its default and what it means."""
    click.echo(reference(), nl=False)


def print_differences(found: Iterable[tuple[str, object, object]], as_json: bool) -> bool:
    """Both values of each key; returns whether there is any."""
    listed = list(found)
    if as_json:
        items = [{"key": key, "before": before, "now": now} for key, before, now in listed]
        click.echo(json.dumps(items, ensure_ascii=False, indent=2))
    else:
        for key, before, now in listed:
            click.echo(f"{key}: {value_text(before)} -> {value_text(now)}")
    return bool(listed)


def _read(path: str | None, sets: tuple[str, ...]) -> LoadedConfig:
    try:
        return read_config(path, sets)
    except ConfigError as error:
        raise refused(error) from error
