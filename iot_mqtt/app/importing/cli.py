"""``iot-mqtt import``: come from another broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from iot_mqtt.app.dotted import nested
from iot_mqtt.app.lazy import LazyCommand, LazyGroup
from iot_mqtt.app.terminal import plain

if TYPE_CHECKING:
    from iot_mqtt.app.importing.imported import Imported

_FILE = click.Path(exists=True, dir_okay=False)
_RETAINED = LazyCommand(
    "retained",
    "iot_mqtt.app.importing.retained_command:import_retained",
    "Take over the retained messages of another broker, or of mosquitto.db.",
)
_SESSIONS = LazyCommand(
    "sessions",
    "iot_mqtt.app.importing.sessions_command:import_sessions",
    "Take over durable sessions of mosquitto, with what waits for them.",
)


@click.group("import", cls=LazyGroup, lazy=(_RETAINED, _SESSIONS))
def import_group() -> None:
    """Come from another broker: with its configuration, users, rules, sessions and retained messages."""


@import_group.command("mosquitto")
@click.argument("file", type=_FILE, metavar="MOSQUITTO.CONF")
@click.option("--output", "-o", required=True, type=click.Path(file_okay=False), help="Directory for what is made.")
@click.option("--strict", is_flag=True, help="Write nothing if there is anything to note.")
def import_mosquitto(file: str, output: str, strict: bool) -> None:
    """Make application.yaml, users and acl of MOSQUITTO.CONF and the files that it names.

    Passwords stay what they are. What cannot be taken over goes to standard error, with its line and the reason. A
    listener that would let in whom mosquitto refuses, or give him more rights, is left out.
    """
    from iot_mqtt.app.importing.mosquitto_conf import import_conf

    write(import_conf(file), Path(output), f"Made of {file} of mosquitto.", strict=strict)


def _hashing(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    from iot_mqtt.auth import salted_hashes

    if value is not None:
        try:
            salted_hashes.decoy(value)
        except ValueError as error:
            text = (
                f"{value} is none of EMQX's that can be verified here; without --hash its users are left out, and named"
            )
            raise click.BadParameter(text) from error
    return value


@import_group.command("emqx")
@click.argument("files", type=_FILE, nargs=-1, required=True, metavar="FILE...")
@click.option("--output", "-o", required=True, type=click.Path(file_okay=False), help="Directory for what is made.")
@click.option(
    "--hash",
    "hashing",
    metavar="HOW",
    callback=_hashing,
    help="password_hash_algorithm, if it is not bcrypt: sha256,prefix or sha512,suffix or pbkdf2-sha256,4096.",
)
@click.option("--strict", is_flag=True, help="Write nothing if there is anything to note.")
def import_emqx(files: tuple[str, ...], output: str, hashing: str | None, strict: bool) -> None:
    """Make users, acl and a script of bans of what EMQX 5 has.

    \b
    users    the .json or .csv that EMQX imports users from: user_id, password_hash, salt, ...
    rules    GET /api/v5/authorization/sources/built_in_database/rules/users, clients and all
    bans     GET /api/v5/banned
    archive  of emqx ctl data export (.tar.gz): all of these
    """  # noqa: D301 - a sign of click's
    import time

    from iot_mqtt.app.importing.emqx_files import import_files

    write(import_files(files, time.time(), hashing), Path(output), "Made of files of EMQX.", strict=strict)


def write(found: Imported, folder: Path, head: str, *, strict: bool) -> None:
    """The files of what was found; none is overwritten. Notes go to standard error."""
    import yaml

    from iot_mqtt.app.config import ConfigError, read_config
    from iot_mqtt.app.config.checks import serving_problems

    for note in found.notes:
        click.echo(f"note: {plain(note)}", err=True)
    if strict and found.notes:
        raise click.ClickException("nothing was written")
    comments = "".join(f"# {plain(line)}\n" for line in (head, *found.left_out))
    files = {
        "application.yaml": f"{comments}{yaml.safe_dump(nested(found.keys), sort_keys=False)}",
        "users": found.users,
        "acl": found.acl,
        "bans.sh": found.bans,
    }
    made = {folder / name: text for name, text in files.items() if text is not None}
    taken = [str(path) for path in made if path.exists()]
    if taken:
        raise click.ClickException(f"nothing was written: {', '.join(taken)} is there already")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in made.items():
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        click.echo(str(path))
    path = folder / "application.yaml"
    try:
        problems = serving_problems(read_config(str(path), (), {}))
    except ConfigError as error:
        problems = list(error.problems)
    for problem in problems:
        click.echo(f"to be mended: {problem}", err=True)
    if problems:
        raise SystemExit(1)
