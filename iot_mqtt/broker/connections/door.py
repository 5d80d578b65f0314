"""The door: whether anybody is let in now."""

from __future__ import annotations

from iot_mqtt.errors import Refused


class Door:
    """Open, unless somebody said why not."""

    __slots__ = ("busy", "refusing")

    def __init__(self) -> None:
        #: Why no client is let in now; None: they are.
        self.refusing: Refused | None = None
        #: The same for a while, because the node has too much to do: it is one of its cluster all the same.
        self.busy: Refused | None = None
