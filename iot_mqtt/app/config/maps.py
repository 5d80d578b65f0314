"""Keys whose value is a mapping with names of somebody else: what is written below them is no key of ours.

::

    uplink.kafka.options:                    is   uplink.kafka.options = {socket.timeout.ms: 5000}
      socket.timeout.ms: 5000

A higher layer adds to what a lower one has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from iot_mqtt.app.config.layers import Setting, content_of

MAPS = ("uplink.kafka.options",)


def gathered(settings: Iterable[Setting]) -> list[Setting]:
    """The leaves of all layers, lowest first, with those below such a key as settings of the key."""
    found: list[Setting] = []
    so_far: dict[str, dict[str, Any]] = {}
    for setting in settings:
        key = next((one for one in MAPS if setting.key.startswith(f"{one}.")), None)
        if key is not None:
            so_far[key] = {**so_far.get(key, {}), setting.key.removeprefix(f"{key}."): content_of(setting)}
            found.append(Setting(key, so_far[key], setting.origin))
        elif setting.key not in MAPS or setting.value not in (None, ""):
            found.append(setting)
    return found
