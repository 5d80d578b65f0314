"""``iot-mqtt plugin``: for the author of a protocol, a project to begin with and something to hold it against."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import yaml

from iot_mqtt.app.terminal import NumberRange, fields, print_items
from iot_mqtt.sdk import Codec

_COLUMNS = (
    *fields(name="NAME", version="VERSION", sdk="SDK", distribution="DISTRIBUTION", target="TARGET", state="STATE"),
)


@click.group(name="plugin")
def plugin_group() -> None:
    """Write and check the codec of a device protocol.

    What runs in a broker is listed, loaded and reloaded by `iot-mqtt ctl plugins`.
    """


@plugin_group.command()
@click.argument("name")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Directory of the project.  [default: ./NAME]")
def new(name: str, folder: Path | None) -> None:
    """Write a complete plugin project: codec, entry point, golden vectors, tests that pass, README."""
    from iot_mqtt.sdk.project import BadName, Exists, write_project

    folder = folder or Path(name)
    try:
        files = write_project(name, folder)
    except (BadName, Exists) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{folder}: {error.strerror}") from error
    for path in files:
        click.echo(f"wrote {path}")
    click.echo(f"\nNext:\n\n  cd {folder}\n  pip install -e .\n  pytest\n  iot-mqtt plugin check {name}")


@plugin_group.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_(as_json: bool) -> None:
    """List the codecs that are installed here: entry points of the group iot_mqtt.codecs."""
    from iot_mqtt.sdk.kit.finding import installed

    rows = [
        {
            "name": found.name,
            "version": found.codec.version if found.codec else "-",
            "sdk": found.codec.sdk if found.codec else "-",
            "distribution": f"{found.distribution} {found.distribution_version}".strip(),
            "target": found.target,
            "state": found.problem or "ok",
        }
        for found in installed()
    ]
    print_items(_COLUMNS, rows, as_json)


@plugin_group.command()
@click.argument("name")
@click.option("--config", "config", type=click.Path(exists=True, dir_okay=False), help="YAML of plugins.NAME.config.")
@click.option("--vectors", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Golden vectors.")
@click.option("--frames", type=click.IntRange(1, 10_000_000), help="Hostile frames, for each of two checks.")
@click.option("--seconds", type=NumberRange(0.1, 3600), help="Seconds for each of them, at most.")
@click.option("--seed", type=int, help="Of what is random; the same one tries the same.")
@click.option("--least-rate", type=NumberRange(0), help="Frames a CPU second that are wanted.")
@click.option("--only", multiple=True, help="A check by its name; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="The score card for programs.")
def check(name: str, config: str | None, only: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Hold the codec NAME against the codec kit and print its score card.

    NAME is an installed entry point, or package.module:Class. Exit code 1 if a check fails.
    """
    from iot_mqtt.sdk.kit import CHECKS, Options, ScoreCard, Unfit, check_one, subject_of

    codec = find_codec(name)
    chosen = replace(Options(), **{key: value for key, value in options.items() if value is not None})
    if wrong := [one for one in only if one not in CHECKS]:
        raise click.UsageError(f"there is no check {wrong[0]!r}; there are {', '.join(CHECKS)}")
    try:
        subject = subject_of(codec, read_config(config), chosen)
    except Unfit as error:
        raise click.ClickException(f"{name}: {error}") from error
    scores = []
    for number, one in enumerate(only or CHECKS):
        if not as_json and not number:
            click.echo(f"{name} {codec.version}\n")
        scores.append(check_one(one, subject, chosen))
        if not as_json:
            click.echo(str(scores[-1]))
    card = ScoreCard(name, codec.version, tuple(scores))
    click.echo(json.dumps(card.as_json(), indent=2, ensure_ascii=False) if as_json else f"\n{card.verdict}")
    sys.exit(not card.ok)


def find_codec(name: str) -> type[Codec]:
    """A codec by its name; classes are looked for below the working directory and its ``src``, too."""
    from iot_mqtt.sdk.kit.finding import NotFound, codec_named

    for folder in (Path.cwd() / "src", Path.cwd()):
        if ":" in name and folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        return codec_named(name)
    except NotFound as error:
        raise click.ClickException(str(error)) from error


def read_config(path: str | None) -> dict[str, object]:
    """A YAML file with the configuration of a codec."""
    if path is None:
        return {}
    try:
        told = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise click.ClickException(f"{path}: {error}") from error
    if told is not None and not isinstance(told, dict):
        raise click.ClickException(f"{path}: is no mapping")
    return told or {}
