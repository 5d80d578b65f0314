"""Whether the bundled codecs can be loaded with what is configured for them.

A node starts without a codec that cannot be loaded, and has an alarm: this is for whoever asks beforehand, or reloads.
What a vendor brought runs nowhere but in a process of its own, and is not asked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from iot_mqtt.app.config.errors import Layer, Problem
from iot_mqtt.app.config.plugin_entries import entry_of
from iot_mqtt.app.config.reading import LoadedConfig, hidden

CODECS = "plugins.codecs"


def plugin_problems(loaded: LoadedConfig) -> list[Problem]:
    """What the bundled codecs have against their configuration. The entries themselves have been checked."""
    return hidden(_problems(loaded), (setting for settings in loaded.written.values() for setting in settings))


def _problems(loaded: LoadedConfig) -> Iterator[Problem]:
    # Late: whoever only reads the configuration need not load them.
    from iot_mqtt.custom_protocols import BUNDLED
    from iot_mqtt.plugins.loading import load_alone
    from iot_mqtt.plugins.place import Place
    from iot_mqtt.sdk.fitting import DoesNotFit

    origin = loaded.origin(CODECS)
    for name, told in map(entry_of, loaded.config.plugins.codecs):
        if name in BUNDLED and told.enabled:
            try:
                load_alone(Place(name, BUNDLED[name], "", "", (), bundled=True), told.config)
            except DoesNotFit as error:
                text = str(error).removeprefix("its configuration: ")
                yield Problem(None if origin.layer is Layer.DEFAULT else origin, f"plugins.{name}.config", text)
