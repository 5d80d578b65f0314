"""The ``iot-mqtt`` command.

Exit codes: 0 it worked; 1 it did not (configuration refused, not found, unreachable); 2 the command itself was
wrong, which is click's own.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from iot_mqtt import __version__
from iot_mqtt.app.config import ConfigError, load_config, read_config
from iot_mqtt.app.config.cli import config_group, config_options, refused
from iot_mqtt.app.ctl.cli import ctl
from iot_mqtt.app.engines.cli import cluster_group
from iot_mqtt.app.pipeline.cli import pipeline_group
from iot_mqtt.app.tools.frames import frames_group
from iot_mqtt.app.tools.passwd import passwd
from iot_mqtt.app.tools.plugin import plugin_group

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(context_settings=_CONTEXT)
@click.version_option(__version__, "-V", "--version", prog_name="iot-mqtt")
def main() -> None:
    """A clustered MQTT broker for factories and other fleets of devices."""


@main.command()
@config_options
def serve(path: str | None, sets: tuple[str, ...]) -> None:
    """Run a node until it gets SIGTERM or SIGINT.

    Without --config, ./application.yaml is read if there is one. Prints one line that begins with `ready` when
    every listener accepts. SIGHUP has it read users, rules and certificates again, and open its log anew.
    """
    # Until there is somebody to hear it: to have it end a node that starts, or serves, would surprise people.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        config = load_config(path, sets)
    except ConfigError as error:
        raise refused(error) from error
    # Late: a reactor is installed on import, and `config` and `ctl` need none.
    from iot_mqtt.app.node import lives

    sys.exit(lives.run(config, lambda: read_config(path, sets)))


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"iot-mqtt {__version__} (Python {sys.version.split()[0]}, {Path(sys.executable)})")


main.add_command(config_group)
main.add_command(passwd)
main.add_command(ctl)
main.add_command(cluster_group)
main.add_command(plugin_group)
main.add_command(frames_group)
main.add_command(pipeline_group)
