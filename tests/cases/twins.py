"""The native modules and decoders there are: the pure twin always, the compiled one where it was built."""

from __future__ import annotations

from typing import Any

from iot_mqtt import native
from iot_mqtt.codec import AckRun, Decoder, Item, Packet, PublishBatch, PublishRun
from iot_mqtt.codec.scan import build
from iot_mqtt.errors import MqttError
from iot_mqtt.native import _pure


class PureDecoder(Decoder):
    """The decoder on the pure scanner, whatever was built."""

    __slots__ = ()
    _scanner = build(_pure.Scanner)


DECODERS: dict[str, type[Decoder]] = {"pure": PureDecoder}
MODULES: dict[str, Any] = {"pure": _pure}

if native.HAVE_NATIVE:
    from iot_mqtt.native import _scan

    class NativeDecoder(Decoder):
        """The decoder on the compiled scanner, whatever the environment chose."""

        __slots__ = ()
        _scanner = build(_scan.Scanner)

    DECODERS["native"] = NativeDecoder
    MODULES["native"] = _scan


def packets(items: list[Item]) -> list[Packet | MqttError]:
    """Items with their runs taken apart."""
    found: list[Packet | MqttError] = []
    for item in items:
        assert not isinstance(item, PublishBatch)
        found += item.packets() if isinstance(item, PublishRun | AckRun) else [item]
    return found


def fields(items: list[Item]) -> list[Any]:
    """Everything that two twins must agree on, item by item."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, PublishRun):
            found.append([getattr(item, name) for name in PublishRun.__slots__])
        elif isinstance(item, AckRun):
            found.append([getattr(item, name) for name in AckRun.__slots__])
        else:
            found.append((type(item), item.detail, item.reason) if isinstance(item, MqttError) else item)
    return found
