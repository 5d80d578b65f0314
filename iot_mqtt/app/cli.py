"""The ``iot-mqtt`` command.

Exit codes: 0 it worked; 1 it did not (configuration refused, not found, unreachable); 2 the command itself was
wrong, which is click's own.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

if sys.argv[1:2] == ["serve"]:
    # Before anything that takes time: to have it end a node that starts would surprise people. Whoever hears it is
    # there later.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

import click

from iot_mqtt import __version__
from iot_mqtt.app.lazy import LazyCommand, LazyGroup
from iot_mqtt.app.process_list import hide_secrets
from iot_mqtt.app.standard_streams import output_failure, prepare_streams, say_failure

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
COMMANDS = (
    LazyCommand("acl", "iot_mqtt.app.tools.acl:acl_group", "Check ACL files, ask them, and make one of mosquitto's."),
    LazyCommand(
        "backup",
        "iot_mqtt.app.backup.cli:backup_group",
        "Copy all that a node or a cluster keeps into a file, and back.",
    ),
    LazyCommand(
        "bench",
        "iot_mqtt.app.bench.command:bench",
        "Put a bounded load on a broker, and say what became of it.",
    ),
    LazyCommand(
        "cluster",
        "iot_mqtt.app.engines.cli:cluster_group",
        "Start and stop the servers that a cluster stands on: Apache Ignite, ZooKeeper, Kafka.",
    ),
    LazyCommand(
        "completion",
        "iot_mqtt.app.completion:completion",
        "Print what has a shell complete commands, options and names of a running node.",
    ),
    LazyCommand("config", "iot_mqtt.app.config.cli:config_group", "Look at the configuration."),
    LazyCommand("ctl", "iot_mqtt.app.ctl.cli:ctl", "Look at a running node and act on it."),
    LazyCommand(
        "frames",
        "iot_mqtt.app.tools.frames:frames_group",
        "Decode, encode and replay frames of device protocols, without a broker.",
    ),
    LazyCommand(
        "import",
        "iot_mqtt.app.importing.cli:import_group",
        "Come from another broker: with its configuration, users, rules, sessions and retained messages.",
    ),
    LazyCommand(
        "migrate",
        "iot_mqtt.app.backup.cli:migrate_command",
        "Carry all that a sole node keeps in DATA_DIR into the grid of a cluster.",
    ),
    LazyCommand(
        "passwd",
        "iot_mqtt.app.tools.passwd:passwd",
        "Set the password of USER in FILE, or remove, disable or enable the user.",
    ),
    LazyCommand(
        "pipeline",
        "iot_mqtt.app.pipeline.cli:pipeline_group",
        "Clean, sum up and watch what has gone up, with Spark.",
    ),
    LazyCommand("plugin", "iot_mqtt.app.tools.plugin:plugin_group", "Write and check the codec of a device protocol."),
    LazyCommand(
        "pub",
        "iot_mqtt.app.client.pub:pub",
        "Publish messages, and say by the exit code whether the broker took them.",
    ),
    LazyCommand("serve", "iot_mqtt.app.serve:serve", "Run a node until it gets SIGTERM or SIGINT."),
    LazyCommand("sub", "iot_mqtt.app.client.sub:sub", "Subscribe and print messages."),
)


class _Main(LazyGroup):
    """Says in one line that its output cannot be written."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        prepare_streams()
        try:
            result = super().main(*arguments, **options)
        except (OSError, SystemExit) as ended:
            if (failure := output_failure(ended)) is None:
                raise
        else:
            if (failure := output_failure()) is None:
                return result
        say_failure(failure)
        sys.exit(1)


@click.group(cls=_Main, lazy=COMMANDS, context_settings=_CONTEXT)
@click.version_option(__version__, "-V", "--version", prog_name="iot-mqtt")
def main() -> None:
    """A clustered MQTT broker for factories and other fleets of devices."""
    hide_secrets(sys.argv)


@main.command()
@click.option("--data-dir", type=click.Path(exists=True, file_okay=False), help="Say what wrote this data directory.")
def version(data_dir: str | None) -> None:
    """Print the version, and what of it is compiled."""
    from iot_mqtt.app.form import form

    click.echo(f"iot-mqtt {__version__} (Python {sys.version.split()[0]}, {Path(sys.executable)})")
    click.echo(f"runs {form()}")
    if data_dir is not None:
        from iot_mqtt.app.data_format import FORMAT, FormatRefused, format_of
        from iot_mqtt.grid.engine_format import FORMAT as GRID_FORMAT
        from iot_mqtt.grid.faults import OpenFault
        from iot_mqtt.grid.format_look import grid_format

        try:
            found, grid = format_of(Path(data_dir)), grid_format(Path(data_dir, "grid"))
        except (FormatRefused, OpenFault) as error:
            raise click.ClickException(str(error)) from error
        by = f"written by iot-mqtt {found.written_by}" if found.written_by else "without a file VERSION"
        click.echo(f"{data_dir} has format {found.format}, {by}; this version has format {FORMAT}")
        if grid is not None:
            major, minor = grid
            click.echo(f"its grid has format {major}.{minor}; this version reads up to {GRID_FORMAT[0]}.x")
