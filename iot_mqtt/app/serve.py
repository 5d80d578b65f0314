"""``iot-mqtt serve``: the configuration is read, and a node runs until it is told to stop."""

from __future__ import annotations

import signal
import sys

import click

from iot_mqtt.app.config import ConfigError, load_checked
from iot_mqtt.app.config.cli import config_options, refused
from iot_mqtt.app.config.reading import Rereading
from iot_mqtt.app.lazy import importing


@click.command()
@config_options
def serve(path: str | None, sets: tuple[str, ...]) -> None:
    """Run a node until it gets SIGTERM or SIGINT.

    Without --config, ./application.yaml is read if there is one. Prints one line that begins with `ready` when
    every listener accepts. SIGHUP has it read users, rules, certificates and the configuration again, and
    open its log anew; keys that need a restart are named in the log.
    """
    # As at the beginning of ``cli``, for those who begin elsewhere.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        loaded = load_checked(path, sets)
    except ConfigError as error:
        raise refused(error) from error
    # Late: a reactor is installed on import, and a configuration that is refused needs none.
    with importing():
        from iot_mqtt.app.node import lives

    sys.exit(lives.run(loaded, Rereading(loaded, sets)))
