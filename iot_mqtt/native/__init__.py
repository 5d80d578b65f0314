"""Optional accelerators: compiled modules where they could be built, else their pure-Python twins.

``HAVE_NATIVE`` says whether the compiled modules are there, ``USE_NATIVE`` whether they are what this package
exports. The environment decides: ``IOT_MQTT_NATIVE=auto`` (the default) takes them if they are there, ``off``
never, and ``require`` refuses to start without them. Imported only by ``codec`` and, for ``lines``, by ``uplink``, for
``object_line`` by ``plugins``, for ``PacketRing`` by ``broker``, for
``receive``, ``send`` and ``Turns`` by ``pipeline``, for ``decode`` and ``is_deep`` by ``ports``, and for
``serve``, ``write_at``, ``merge``, ``record``, ``put_all``, ``message_record`` and ``RowWriter`` by ``grid``.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from iot_mqtt.compiled import CHOICE, SWITCH

__all__ = [
    "FIVE",
    "FROM_CLIENT",
    "HAVE_NATIVE",
    "IN_ORDER",
    "NAMES",
    "NOT_JSON",
    "NotRead",
    "NUMBER",
    "USE_NATIVE",
    "ConnectReader",
    "PacketRing",
    "PageReader",
    "Turns",
    "Messages",
    "RowReader",
    "RowWriter",
    "Scanner",
    "accept",
    "acks",
    "decode",
    "decode_once",
    "decoded",
    "image_of",
    "is_deep",
    "lines",
    "locate",
    "merge",
    "message_record",
    "named",
    "object_line",
    "pairs",
    "patch",
    "payloads",
    "publish",
    "put_all",
    "receive",
    "recode",
    "record",
    "rewrite",
    "send",
    "send_end",
    "serve",
    "values",
    "write_at",
]

from iot_mqtt.native._pure_lines import NOT_JSON, NotRead, decode, decode_once, decoded, is_deep
from iot_mqtt.native._pure_packets import image_of
from iot_mqtt.native._pure_scan import FIVE, FROM_CLIENT, IN_ORDER, NAMES
from iot_mqtt.native._pure_syncing import NUMBER

_COMPILED = (
    "_scan",
    "_lines",
    "_records",
    "_syncing",
    "_connecting",
    "_rows",
    "_appending",
    "_packets",
    "_sockets",
    "_changes",
)
MODULES: Final = tuple(f"iot_mqtt.native.{name}" for name in _COMPILED)


def _choose(setting: str, have: bool, *, ours: bool = True) -> bool:
    """Whether to use the compiled modules, or ImportError if they were demanded and one is absent. ``ours``: whether
    those that mypyc compiles are used in that form.
    """
    if setting not in ("auto", "off", "require"):
        raise ImportError(f"{SWITCH} is {setting!r}; it may be auto, off or require")
    if setting == "require" and not have:
        raise ImportError(f"{SWITCH}=require, but {' and '.join(MODULES)} were not built: run setup.py build_ext")
    if setting == "require" and not ours:
        raise ImportError(
            f"{SWITCH}=require, but mypyc compiled nothing, or other sources than these: run setup.py build_ext"
        )
    return have and setting != "off"


HAVE_NATIVE: Final = all(find_spec(name) is not None for name in MODULES)
USE_NATIVE: Final = _choose(os.environ.get(SWITCH, "auto"), HAVE_NATIVE, ours=CHOICE.use)

if TYPE_CHECKING or not USE_NATIVE:
    from iot_mqtt.native._pure import (
        Messages,
        PageReader,
        Scanner,
        acks,
        locate,
        named,
        pairs,
        patch,
        payloads,
        publish,
        recode,
        rewrite,
        values,
    )
    from iot_mqtt.native._pure_appending import RowWriter
    from iot_mqtt.native._pure_changes import merge, put_all, record
    from iot_mqtt.native._pure_connecting import ConnectReader
    from iot_mqtt.native._pure_lines import lines, object_line
    from iot_mqtt.native._pure_packets import PacketRing
    from iot_mqtt.native._pure_records import message_record
    from iot_mqtt.native._pure_rows import RowReader
    from iot_mqtt.native._pure_sockets import Turns, accept, receive, send, send_end
    from iot_mqtt.native._pure_syncing import serve, write_at
else:
    from iot_mqtt.native._appending import RowWriter
    from iot_mqtt.native._changes import merge, put_all, record
    from iot_mqtt.native._connecting import ConnectReader
    from iot_mqtt.native._lines import lines, object_line
    from iot_mqtt.native._packets import PacketRing
    from iot_mqtt.native._records import message_record
    from iot_mqtt.native._rows import RowReader
    from iot_mqtt.native._scan import (
        Messages,
        PageReader,
        Scanner,
        acks,
        locate,
        named,
        pairs,
        patch,
        payloads,
        publish,
        recode,
        rewrite,
        values,
    )
    from iot_mqtt.native._sockets import Turns, accept, receive, send, send_end
    from iot_mqtt.native._syncing import serve, write_at
