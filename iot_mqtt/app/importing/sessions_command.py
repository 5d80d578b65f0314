"""``iot-mqtt import sessions``: from ``mosquitto.db``, into the grid of a node that is stopped."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import LoopingCall

from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.grids import stopped, whole, writing
from iot_mqtt.app.backup.running import run
from iot_mqtt.app.config import Config, ConfigError, read_config
from iot_mqtt.app.config.cli import config_options, refused
from iot_mqtt.app.config.folders import grid_dir
from iot_mqtt.app.grid_note import refuse_lost
from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.app.importing.mosquitto_db import opened
from iot_mqtt.app.importing.mosquitto_sessions import OldSessions
from iot_mqtt.app.importing.session_transfer import Outcome, Transfer
from iot_mqtt.app.node.parts import log_settings
from iot_mqtt.app.progress import going_on
from iot_mqtt.app.terminal import plain, print_json
from iot_mqtt.errors import MqttError
from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.grid.log import GridLog
from iot_mqtt.grid.store import GridStore
from iot_mqtt.pipeline import ReactorClock
from iot_mqtt.ports.counters import Counters

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
#: Seconds between looks whether the grid takes what is written, and for how many of them it may refuse.
_LOOK: Final = 1.0
_REFUSALS: Final = 10
_COUNTS: Final = (
    "sessions",
    "subscriptions",
    "messages",
    "released",
    "ended",
    "kept",
    "expired",
    "qos_0",
)


@click.command("sessions")
@click.option("--file", "database", type=_FILE, required=True, help="mosquitto.db, of a mosquitto that was stopped.")
@click.option("--keep", is_flag=True, help="Leave sessions alone that are here already.")
@click.option("--any-user", is_flag=True, help="A session goes to whoever comes first with its client id.")
@click.option("--dry-run", is_flag=True, help="Say what there is, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_options
def import_sessions(
    database: Path,
    keep: bool,
    any_user: bool,
    dry_run: bool,
    as_json: bool,
    path: str | None,
    sets: tuple[str, ...],
) -> None:
    """Take over durable sessions of mosquitto, with what waits for them.

    \b
    iot-mqtt import sessions --file /var/lib/mosquitto/mosquitto.db

    Both brokers are stopped; the grid is an embedded one. Subscriptions, messages that wait or are not acknowledged,
    and QoS 2 exchanges that are not over go on where they were. All sessions are there afterwards, or none.
    """  # noqa: D301 - a sign of click's
    try:
        transfer = Transfer(OldSessions(opened(database)), time.time(), any_user=any_user)
        transfer.read()
        if not dry_run:
            config = _config(path, sets)
            with going_on(lambda: f"writing {transfer.outcome.sessions} sessions"):
                run(partial(_write, config=config, transfer=transfer, keep=keep), Path(config.node.data_dir))
    except ConfigError as error:
        raise refused(error) from error
    except Refused as error:
        raise click.ClickException(plain(f"{database}: {error}")) from error
    except (BackupError, MqttError, OpenFault) as error:
        raise click.ClickException(plain(str(error))) from error
    _say(transfer.outcome, as_json=as_json, dry_run=dry_run)


def _config(path: str | None, sets: tuple[str, ...]) -> Config:
    config = read_config(path, sets).config
    if config.grid.kind == "ignite":
        raise BackupError("grid.kind is ignite: take them over into an embedded grid, then use iot-mqtt migrate")
    return config


async def _write(reactor: Any, config: Config, transfer: Transfer, *, keep: bool) -> None:
    with stopped("iot-mqtt import sessions", Path(config.node.data_dir)):
        refuse_lost(grid_dir(config))
        async with writing(config, reactor) as grid:
            await whole(grid)
            clock = ReactorClock(reactor)
            store = GridStore(grid, clock, Counters())
            log = GridLog(grid, store, clock, log_settings(config.log))
            await log.open()
            await transfer.leave_out(store, keep=keep)
            await _written(transfer, store, log, reactor)


async def _written(transfer: Transfer, store: GridStore, log: GridLog, reactor: Any) -> None:
    """Write it. A store repeats what the grid refuses for as long as it lives; nobody waits here for room to come."""
    refusals = 0
    writing: Deferred[None] = ensureDeferred(transfer.write(store, log))

    def look() -> None:
        nonlocal refusals
        refusals = refusals + 1 if store.failing else 0
        if refusals >= _REFUSALS:
            store.give_up()
            writing.cancel()

    looking = LoopingCall(look)
    looking.clock = reactor
    looking.start(_LOOK, now=False)
    try:
        await writing
    except CancelledError:
        raise BackupError(f"no session was taken over: the grid refuses what is written: {store.trouble}") from None
    finally:
        looking.stop()


def _say(outcome: Outcome, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json({**{name: getattr(outcome, name) for name in _COUNTS}, "notes": outcome.notes, "dry_run": dry_run})
        return
    for note in outcome.notes:
        click.echo(f"note: {plain(note)}", err=True)
    text = f"{outcome.sessions} sessions with {outcome.subscriptions} subscriptions and {outcome.messages} messages"
    text += "" if dry_run else " are here now"
    for count, said in (
        (outcome.released, "QoS 2 exchanges wait for their end"),
        (outcome.kept, "sessions were here before and stay"),
        (outcome.ended, "sessions had ended"),
        (outcome.expired, "messages had expired"),
        (outcome.qos_0, "messages of QoS 0 are not kept"),
    ):
        text += f"; {count} {said}" if count else ""
    click.echo(text)
