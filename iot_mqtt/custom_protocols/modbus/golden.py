"""Golden vectors of Modbus, for the codec kit: the same conversation with a header, and on a bare line."""

from __future__ import annotations

from typing import Any, Final

CONFIG: Final[dict[str, Any]] = {
    "registers": [
        {"tag": "temperature", "address": 0, "type": "i16", "scale": 0.1},
        {"tag": "energy", "address": 1, "type": "u32"},
        {"tag": "power", "address": 3, "type": "f32", "words": "little"},
        {"tag": "setpoint", "address": 10, "type": "i16", "scale": 0.1, "writable": True},
        {"tag": "limit", "address": 11, "type": "u32", "writable": True},
        {"tag": "running", "address": 0, "type": "bool", "table": "coil", "writable": True},
        {"tag": "open", "address": 9, "type": "bool", "table": "coil", "writable": True},
    ],
    "polls": [
        {"slave": 1, "function": 3, "start": 0, "count": 5},
        {"slave": 1, "function": 1, "start": 0, "count": 11},
    ],
    "devices": [{"slave": 1, "id": "boiler"}],
    "gateway": "plant",
}

_REGISTERS: Final = [
    {"event": "readings", "device": "boiler", "values": {"temperature": 21.4, "energy": 70000, "power": 1.5}}
]
_COILS: Final = [{"event": "readings", "device": "boiler", "values": {"running": True, "open": True}}]
_NOTHING: Final = {"temperature": None, "energy": None, "power": None}
_EXCEPTION: Final = [
    {"event": "readings", "device": "boiler", "values": _NOTHING, "quality": dict.fromkeys(_NOTHING, "bad")}
]
_DONE: Final = [{"event": "answer", "number": 1, "ok": True}]
_REFUSED: Final = [{"event": "answer", "number": 1, "ok": False, "detail": "exception 2: illegal data address"}]

_SETPOINT: Final = {"device": "boiler", "values": {"setpoint": 21.5}}
_BOTH: Final = {"device": "boiler", "values": {"setpoint": 21.5, "limit": 70000}}
_COIL: Final = {"device": "boiler", "values": {"running": True}}
_UNWRITABLE: Final = {"device": "boiler", "values": {"energy": 1}}


def _vectors(frames: dict[str, str], *, bytewise: bool) -> dict[str, Any]:
    """The conversation in one of the forms; to the framer of the bare line every byte is a frame."""

    def cut(name: str) -> list[str]:
        return [f"{byte:02x}" for byte in bytes.fromhex(frames[name])] if bytewise else [frames[name]]

    return {
        "config": CONFIG,
        "vectors": [
            {"name": "registers", "frames": cut("registers"), "events": _REGISTERS},
            {"name": "coils", "frames": cut("coils"), "events": _COILS},
            {"name": "exception", "frames": cut("exception"), "events": _EXCEPTION},
            {"name": "not asked for", "frames": cut("unknown"), "events": [{"event": "heartbeat"}]},
            {
                "name": "write a register",
                "command": _SETPOINT,
                "bytes": frames["setpoint"],
                "frames": cut("setpoint"),
                "events": _DONE,
            },
            {
                "name": "write registers",
                "command": _BOTH,
                "bytes": frames["both"],
                "frames": cut("both echo"),
                "events": _DONE,
            },
            {
                "name": "write a coil",
                "command": _COIL,
                "bytes": frames["coil"],
                "frames": cut("refusal"),
                "events": _REFUSED,
            },
            {"name": "what is not writable", "command": _UNWRITABLE, "cannot": "not writable"},
            {"name": "an unknown function", "frames": cut("function 7"), "bad": "function"},
            {"name": frames["bad"], "frames": cut("bad frame"), "bad": frames["bad"]},
        ],
    }


TCP: Final = _vectors(
    {
        "registers": "0001 0000 000d 01 03 0a 00d6 00011170 0000 3fc0",
        "coils": "0002 0000 0005 01 01 02 0102",
        "exception": "0003 0000 0003 01 83 02",
        "unknown": "0004 0000 0005 09 03 02 0000",
        "setpoint": "0001 0000 0006 01 06 000a 00d7",
        "both": "0001 0000 000d 01 10 000a 0003 06 00d7 00011170",
        "both echo": "0001 0000 0006 01 10 000a 0003",
        "coil": "0001 0000 0006 01 05 0000 ff00",
        "refusal": "0001 0000 0003 01 85 02",
        "function 7": "0001 0000 0003 01 07 00",
        "bad": "protocol",
        "bad frame": "0001 0001 0003 01 83 02",
    },
    bytewise=False,
)
RTU: Final = _vectors(
    {
        "registers": "01 03 0a 00d6 00011170 0000 3fc0 d139",
        "coils": "01 01 02 0102 39ad",
        "exception": "01 83 02 c0f1",
        "unknown": "09 03 02 0000 5985",
        "setpoint": "01 06 000a 00d7 e996",
        "both": "01 10 000a 0003 06 00d7 00011170 eec6",
        "both echo": "01 10 000a 0003 a00a",
        "coil": "01 05 0000 ff00 8c3a",
        "refusal": "01 85 02 c351",
        "function 7": "01 07 00",
        "bad": "checksum",
        "bad frame": "01 83 02 c0f2",
    },
    bytewise=True,
)
