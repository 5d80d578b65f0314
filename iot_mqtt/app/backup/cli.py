"""``iot-mqtt backup`` and ``iot-mqtt migrate``. What they do is in docs/backup.md."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TypeVar

import click

from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.files import Restored
from iot_mqtt.app.backup.migration import Migrated, migrate
from iot_mqtt.app.backup.running import run
from iot_mqtt.app.backup.work import Report, Told, make, read, restore
from iot_mqtt.app.config import Config, ConfigError, read_config
from iot_mqtt.app.config.cli import config_options, refused
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.target import Target
from iot_mqtt.app.progress import going_on
from iot_mqtt.app.terminal import amount, field, moment, number, plain, print_form, print_items, print_json, size
from iot_mqtt.errors import MqttError
from iot_mqtt.grid.archive import BadArchive, Secret
from iot_mqtt.whole_files import new_file

Command = TypeVar("Command", bound=Callable[..., Any])
_FILE = click.Path(dir_okay=False, path_type=Path)
_BACKUP = click.Path(exists=True, dir_okay=False, path_type=Path)
_COLUMNS = (field("cache"), number("entries"), amount("bytes"))
_SHORTEST = 12


@click.group("backup")
def backup_group() -> None:
    """Copy all that a node or a cluster keeps into a file, and back.

    Sessions, subscriptions, retained and waiting messages, the log, devices, commands, users, rules, tokens and
    plugins; and of this machine the audit log, and the files of users and rules. Not what has gone up, and no secret
    of the configuration.
    """


def _in_words(command: Command) -> Command:
    """What goes wrong in the words of who found it, and exit code 1."""

    @wraps(command)
    def telling(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except ConfigError as error:
            raise refused(error) from error
        except BrokenPipeError:
            raise  # whoever reads what is printed has had enough; click knows
        except OSError as error:
            named = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
            raise click.ClickException(plain(named)) from error
        except (BackupError, BadArchive, CtlError, MqttError) as error:
            raise click.ClickException(plain(str(error))) from error

    return telling  # type: ignore[return-value]


_secret = click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"The backup is encrypted; the secret is the first line of this file, {_SHORTEST} characters or more.",
)
_json = click.option("--json", "as_json", is_flag=True, help="As JSON, for scripts.")


@backup_group.command("make")
@click.argument("file", type=_FILE)
@_secret
@click.option("--files/--no-files", default=True, help="Also what this node keeps beside its grid.")
@_json
@config_options
@_in_words
def backup_make(
    file: Path, secret_file: Path | None, files: bool, as_json: bool, path: str | None, sets: tuple[str, ...]
) -> None:
    """Make a backup; nodes may serve meanwhile.

    What was acknowledged before it begins is in it. A node with an embedded grid is asked for a copy of it, so this
    runs on its machine, as its user or as root. The grid of a cluster is read from any machine that has its
    configuration.
    """
    if file.exists():
        raise BackupError(f"{file} exists")
    config, secret = _config(path, sets), _read_secret(secret_file)
    connect = Target(data_dir=config.node.data_dir, config=path).connect
    with new_file(file) as out, going_on(lambda: f"writing {file.name}: {size(out.tell())}"):
        making = partial(_make, config=config, out=out, secret=secret, connect=connect, files=files)
        report = run(making, Path(config.node.data_dir))
    _show(report, as_json)


async def _make(reactor: Any, *, config: Config, out: Any, secret: Secret | None, connect: Any, files: bool) -> Report:
    return await make(reactor, config, out, secret, connect, files=files)


@backup_group.command("check")
@click.argument("file", type=_BACKUP)
@_secret
@_json
@_in_words
def backup_check(file: Path, secret_file: Path | None, as_json: bool) -> None:
    """Read a backup to its end, and say what is in it."""
    with file.open("rb") as opened:
        secret = _read_secret(secret_file)
        with _reading(file, opened):
            report = read(opened, secret)
    _show(report, as_json)


@backup_group.command("restore")
@click.argument("file", type=_BACKUP)
@_secret
@_json
@config_options
@_in_words
def backup_restore(
    file: Path, secret_file: Path | None, as_json: bool, path: str | None, sets: tuple[str, ...]
) -> None:
    """Put a backup into an empty grid of the kind that it was made of.

    Nodes are stopped. Afterwards everything is read again and compared. Files that are there already are left alone.
    """
    config, secret = _config(path, sets), _read_secret(secret_file)
    with file.open("rb") as opened, _reading(file, opened):
        restoring = partial(restore, config=config, file=opened, secret=secret)
        report, restored = run(restoring, Path(config.node.data_dir))
    _show(report, as_json)
    for kept in restored.kept:
        click.echo(f"note: {plain(str(kept))} is there already, and is another", err=True)
    for named in restored.named:
        click.echo(f"note: {plain(str(named))} has to be put where the configuration wants it", err=True)


@backup_group.command("rehearse")
@click.argument("file", type=_BACKUP)
@_secret
@click.option("--dir", "folder", type=click.Path(exists=True, file_okay=False), help="Where there is room for it.")
@_json
@_in_words
def backup_rehearse(file: Path, secret_file: Path | None, folder: str | None, as_json: bool) -> None:
    """Put a backup into a directory that is removed afterwards, read its log through, and start a node on it."""
    from iot_mqtt.app.backup.rehearsal import rehearse

    secret = _read_secret(secret_file)
    with (
        file.open("rb") as opened,
        TemporaryDirectory(dir=folder, prefix="iot-mqtt-rehearsal-") as place,
        _reading(file, opened),
    ):
        found = run(partial(rehearse, file=opened, secret=secret, folder=Path(place)))
    shown: dict[str, object] = {
        "made_at": found.header.made_at,
        "messages": found.messages,
        "damaged": found.damaged,
        "sessions": found.sessions,
        "retained": found.retained,
        "seconds": round(found.seconds, 1),
    }
    if as_json:
        print_json(shown)
    else:
        shown["made_at"] = moment(found.header.made_at)
        print_form((name.replace("_", " "), "-" if value is None else value) for name, value in shown.items())
    if found.damaged:
        sys.exit(1)


def _reading(file: Path, opened: BinaryIO) -> AbstractContextManager[None]:
    """Shows how far a backup has been read."""
    total = size(file.stat().st_size)
    return going_on(lambda: f"reading {file.name}: {size(opened.tell())} of {total}")


def _config(path: str | None, sets: tuple[str, ...]) -> Config:
    return read_config(path, sets).config


def _read_secret(path: Path | None) -> Secret | None:
    if path is None:
        return None
    with path.open("rb") as file:
        secret = file.readline(4096).strip()
    if len(secret) < _SHORTEST:
        raise BackupError(f"{path}: the secret has fewer than {_SHORTEST} characters")
    return secret


def _show(report: Report, as_json: bool) -> None:
    header = report.header
    told = {"grid": header.grid, "version": header.version, "made_at": header.made_at, "node": header.node}
    if as_json:
        print_json({**told, "caches": report.caches, "passed_over": report.unknown})
    else:
        print_form((("grid", header.grid), ("made", f"{moment(header.made_at)} by iot-mqtt {header.version}")))
        _print_caches(report.caches)
    if report.unknown:
        first, *more = report.unknown
        text = f"{plain(first)} and {len(more)} more" if more else plain(first)
        click.echo(f"note: this release has no place for files of the backup and passes them over: {text}", err=True)


def _print_caches(caches: Told) -> None:
    """As a table."""
    print_items(_COLUMNS, [{"cache": name, **sums} for name, sums in sorted(caches.items())], False)  # noqa: FBT003


@click.command("migrate")
@click.argument("data_dir", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON, for scripts.")
@config_options
@_in_words
def migrate_command(data_dir: Path, as_json: bool, path: str | None, sets: tuple[str, ...]) -> None:
    """Carry all that a sole node keeps in DATA_DIR into the grid of a cluster.

    The node is stopped, and so are the nodes of the cluster, whose grid is empty. The configuration is that of one of
    those nodes. An interrupted command may be run again.
    """
    config, told = read_config(path, sets).config, Migrated()
    with going_on(lambda: f"{told.doing}: {told.entries} entries, {size(told.bytes)}"):
        migrating = partial(_migrate, config=config, source=data_dir, told=told)
        restored = run(migrating, data_dir, Path(config.node.data_dir))
    figures = {"sessions": told.sessions, "entries": told.entries, "bytes": told.bytes, "files": told.files}
    if as_json:
        print_json({**figures, "again": told.again, "caches": told.caches})
    else:
        print_form((name, size(value) if name == "bytes" else value) for name, value in figures.items())
        _print_caches(told.caches or {})
    for kept in restored.kept:
        click.echo(f"note: {plain(str(kept))} is there already, and is another", err=True)


async def _migrate(reactor: Any, *, config: Config, source: Path, told: Migrated) -> Restored:
    return await migrate(reactor, config, source, told)
