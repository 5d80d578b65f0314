"""A plugin as a node knows it: whether it is enabled, which of its versions are at work, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.settings import PluginSettings
from iot_mqtt.plugins.versions import Common, Version


class Plugin:
    """One plugin and its versions at work."""

    def __init__(self, name: str, settings: PluginSettings) -> None:
        self.name = name
        self.settings = settings
        self.places: dict[str, Place] = {}
        self.common: Common
        self.current: Version | None = None
        self.isolation = ""
        #: Retired, with connections.
        self.old: list[Version] = []
        self.enabled = False
        self.busy = False
        #: A version is being started.
        self.loading = False
        #: Why the last change came to nothing.
        self.trouble: str | None = None
        #: It was tried with other settings than those that it has.
        self.misconfigured = False
        self.faults: Counter[str] = Counter()
        self.turned_away: Counter[str] = Counter()

    def differing(self, told: PluginSettings) -> Iterator[str]:
        """Which settings are other ones than these. Whether it is enabled is decided elsewhere."""
        for key in ("isolation", "config", "limits", "sandbox"):
            if getattr(told, key) != getattr(self.settings, key):
                yield key

    @property
    def state(self) -> str:
        """As it is with the current version; without one, whether one is being loaded."""
        if not self.enabled:
            return "disabled"
        if self.current is not None:
            return self.current.state
        return "starting" if self.busy or self.loading else "refused"

    @property
    def bundled(self) -> bool:
        return any(place.bundled for place in self.places.values())

    @property
    def versions(self) -> list[Version]:
        return [*self.old, *([] if self.current is None else [self.current])]
