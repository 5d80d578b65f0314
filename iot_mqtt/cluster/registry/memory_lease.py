"""The lease of a registry that keeps its leases in memory: over at once when the registry says so."""

from __future__ import annotations

from typing import Protocol

from iot_mqtt.ports.registry import RegistryState


class Lessor(Protocol):
    """What gave the lease."""

    @property
    def state(self) -> RegistryState: ...

    def gave_back(self, lease: MemoryLease) -> None:
        """Another may have it."""
        ...


class MemoryLease:
    """Held until it is released, or its registry has taken it away (``valid``), or is not CONNECTED for any time."""

    __slots__ = ("number", "name", "valid", "_lessor")

    def __init__(self, name: str, number: int, lessor: Lessor) -> None:
        self.name = name
        self.number = number
        self.valid = True
        self._lessor = lessor

    @property
    def held(self) -> bool:
        return self.valid and self._lessor.state is RegistryState.CONNECTED

    def release(self) -> None:
        if self.valid:
            self.valid = False
            self._lessor.gave_back(self)
