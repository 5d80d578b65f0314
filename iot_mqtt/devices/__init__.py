"""Gateways, devices, shadows and commands: what the broker knows beyond clients and messages.

A command is a message to ``down/<gateway>/<device>`` or ``down/<client id>`` whose fate the sender learns; see
``docs/commands.md`` and ADR 8.
"""

from iot_mqtt.devices.accompanied import SWEEP_SECONDS, Accompanied
from iot_mqtt.devices.asked import COMMAND_ID, NewCommand, command_id_of
from iot_mqtt.devices.commands import Commands
from iot_mqtt.devices.registry import Devices
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.devices.shadows import Shadows
from iot_mqtt.devices.states import States

__all__ = [
    "COMMAND_ID",
    "SWEEP_SECONDS",
    "Accompanied",
    "Commands",
    "Devices",
    "DevicesSettings",
    "NewCommand",
    "Shadows",
    "States",
    "command_id_of",
]
