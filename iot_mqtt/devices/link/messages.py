"""Readings as unified messages: the JSON object that leaves for subscribers and for the uplink.

::

    {"id", "node", "gateway", "device", "ts", "ingest_ts", "seq", "values": {tag: value}, "quality": {tag: word},
     "codec", "schema"}

``ts`` is the device's clock and ``ingest_ts`` this node's, in milliseconds; ``seq`` is null where the protocol has no
numbers, ``quality`` is there only if something is not good. ``id`` is the same whenever the same reading comes again
(gateway, device, number); without a number it is unique to what came.

A gateway says much about few devices, so what is the same for all messages of a device is written once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from iot_mqtt.ports.json_reader import read_json
from iot_mqtt.sdk import Readings
from iot_mqtt.values import CodecId

#: Devices of one connection whose beginnings are remembered; beyond this they are forgotten and written again.
KNOWN_DEVICES: Final = 4096
#: Characters that a name may not have, because it becomes a level of a topic.
_FORBIDDEN: Final = frozenset("/+#$\0")
LONGEST_NAME: Final = 64
#: Characters of what a vendor calls his codec and its version.
LONGEST_CODEC: Final = 256

_encode: Callable[[object], str] = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
).encode


def is_name(name: object) -> bool:
    """Whether this can name a gateway or a device: a level of a topic, and nothing that would surprise anybody."""
    return (
        isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and _FORBIDDEN.isdisjoint(name) and name.isprintable()
    )


def codec_id_of(codec: str, version: str, schema: int) -> CodecId:
    """What readings say of the codec that made them."""
    return CodecId(f"{codec}/{version}"[:LONGEST_CODEC], _encode(schema))


class Device:
    """What is the same in all messages of a device."""

    __slots__ = ("name", "topic", "_numbered", "_unnumbered")

    def __init__(self, node: str, gateway: str, device: str, codec: CodecId) -> None:
        self.name = device
        self.topic = f"up/{gateway}/{device}".encode()
        who = f'"node":{_encode(node)},"gateway":{_encode(gateway)},"device":{_encode(device)}'
        end = f'"codec":{_encode(codec.name)},"schema":{codec.schema}}}'
        id = _encode(f"{gateway}/{device}/")[:-1]
        # Names may have a percent sign.
        id, who, end = (part.replace("%", "%%") for part in (id, who, end))
        self._numbered = f'{{"id":{id}%d",{who},"ts":%d,"ingest_ts":%d,"seq":%d,"values":%b,%b{end}'.encode()
        self._unnumbered = f'{{"id":{id}%d-%d",{who},"ts":%d,"ingest_ts":%d,"seq":null,"values":%b,%b{end}'.encode()

    def message(self, readings: Readings, now: int, count: int) -> bytes:
        """Raises ValueError for values that JSON does not have. ``count``: of this node's messages without a number."""
        values = readings.values
        if type(values) is not bytes:
            values = _encode(values).encode()
        time = readings.time
        if time is None:
            time = now
        quality = b"" if not readings.quality else b'"quality":' + _encode(readings.quality).encode() + b","
        sequence = readings.sequence
        if sequence is None:
            return self._unnumbered % (now, count, time, now, values, quality)
        return self._numbered % (sequence, time, now, sequence, values, quality)


class Composer:
    """The messages of one gateway's connection."""

    __slots__ = ("_node", "_gateway", "_codec_id", "_devices", "_count")

    def __init__(self, node: str, gateway: str, codec: CodecId) -> None:
        self._node = node
        self._gateway = gateway
        self._codec_id = codec
        self._devices: dict[str, Device] = {}
        self._count = 0

    def device(self, name: str) -> Device | None:
        """A device by its name; None if it cannot be one."""
        known = self._devices.get(name)
        if known is None:
            if not is_name(name):
                return None
            if len(self._devices) >= KNOWN_DEVICES:
                self._devices.clear()
            known = Device(self._node, self._gateway, name, self._codec_id)
            self._devices[name] = known
        return known

    def compose(self, device: Device, readings: Readings, now: int) -> bytes:
        """The message; raises ValueError or TypeError for values that are none."""
        self._count += 1
        return device.message(readings, now, self._count)


def command_values(body: bytes) -> Mapping[str, object]:
    """What a command's body says, if it is a JSON object."""
    if body[:1] != b"{":
        return {}
    try:
        found = read_json(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
