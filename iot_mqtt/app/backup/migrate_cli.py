"""``iot-mqtt migrate``. What it does is in docs/backup.md."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from iot_mqtt.app.backup.cli import in_words, print_caches
from iot_mqtt.app.backup.files import Restored
from iot_mqtt.app.backup.migration import Migrated, migrate
from iot_mqtt.app.backup.running import run
from iot_mqtt.app.config import Config, read_config
from iot_mqtt.app.config.cli import config_options
from iot_mqtt.app.progress import going_on
from iot_mqtt.app.terminal import plain, print_form, print_json, size


@click.command("migrate")
@click.argument("data_dir", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON, for scripts.")
@config_options
@in_words
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
        print_caches(told.caches or {})
    for kept in restored.kept:
        click.echo(f"note: {plain(str(kept))} is there already, and is another", err=True)


async def _migrate(reactor: Any, *, config: Config, source: Path, told: Migrated) -> Restored:
    return await migrate(reactor, config, source, told)
