"""What was changed while the node ran: a layer of its own in the data directory, above the file and below the
environment, so that a restart changes nothing.

::

    changed.yaml        log: {level: debug}
                        listeners: {line7: {protocol: frames, codec: acme, port: 9700}}

Only keys that may change at run time stand in it, and listeners. The node writes it, nobody else has to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from iot_mqtt.app.config.errors import Layer, Origin, Problem
from iot_mqtt.app.config.layers import Setting, file_settings
from iot_mqtt.app.config.limits import is_live
from iot_mqtt.app.dotted import nested
from iot_mqtt.whole_files import new_file

FILE = "changed.yaml"
_HEAD = "# Changed while the node ran (`iot-mqtt ctl config`, `ctl listeners`); counts above the configuration file.\n"


def file_of(data_dir: str) -> Path:
    """Where a node with this data directory keeps it."""
    return Path(data_dir) / FILE


def changed_settings(data_dir: str, problems: list[Problem]) -> list[Setting]:
    """The layer as it was left there; none where nothing was changed."""
    path = file_of(data_dir)
    if not os.path.lexists(path):
        return []
    found = file_settings(str(path), problems, Layer.CHANGED)
    for setting in found:
        if not may_stand_there(setting.key):
            text = "is no key that may change at run time: write it into the configuration file"
            problems.append(Problem(setting.origin, setting.key, text))
    return found


def may_stand_there(key: str) -> bool:
    """Whether a key may be changed at run time, or is one of a listener."""
    return is_live(key) or key.startswith("listeners.")


def changed_now(data_dir: str, values: Mapping[str, Any]) -> list[Setting]:
    """The layer as it will be read with these values in it."""
    where = str(file_of(data_dir))
    return [Setting(key, value, Origin(Layer.CHANGED, where, data_dir)) for key, value in values.items()]


def write_changed(data_dir: str, values: Mapping[str, Any]) -> None:
    """Keep the layer: all of it or, if this fails, what was there. Raises ``OSError``."""
    path = file_of(data_dir)
    tree = nested(dict(sorted(values.items())))
    text = _HEAD + (yaml.safe_dump(tree, sort_keys=False, allow_unicode=True) if tree else "")
    with new_file(path) as file:
        file.write(text.encode())
