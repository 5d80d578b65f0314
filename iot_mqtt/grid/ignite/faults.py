"""What can be wrong with the shared grid besides "not now"."""

from __future__ import annotations

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.faults import OpenFault


class Fenced(Unavailable):
    """This life of the node was declared dead: others may hold its sessions by now, and nothing it writes counts.

    Whoever waits for the write is told "not ready", as by every ``Unavailable``; the node itself must end and
    start anew, which gives it another boot number.
    """


class TooLarge(Unavailable):
    """One entry that no frame of the gateway can hold. Repeating does not help."""


class NoServer(OpenFault):
    """No Ignite server answered while the grid was being opened."""


class RefusedByGateway(OpenFault):
    """The gateway speaks to others, but not to us: a wrong token, or another version. For a person to put right."""
