"""Golden vectors of the gateway protocol: frames of its document, and what they mean, for the codec kit."""

from __future__ import annotations

from typing import Any, Final

#: Magic, time, channels 0.
_CONTROL: Final = "68 019b76daa800 00 "
_NOW: Final = "68 018bcfe56800 00 "
_TIME: Final = 1_767_225_600_000
_PLC_1: Final = "05706c632d31 02 0474656d70 0a 0372756e 01 "
_PLC_2: Final = "05706c632d32 02 057374617465 0c 05636f756e74 08 "

VECTORS: Final[list[dict[str, Any]]] = [
    {
        "name": "login",
        "frames": [_CONTROL + "0018 01 01 01 001e 0467772d31 056c696e6531 0006 733363726574"],
        "events": [
            {"event": "login", "gateway": "gw-1", "username": "line1", "secret": "733363726574", "heartbeat": 30}
        ],
    },
    {"name": "let in", "before": "login", "say": {"welcome": True}, "bytes": _NOW + "0006 02 00 01 001e 00"},
    {"name": "ended", "before": "let in", "say": {"refuse": "no"}, "bytes": _NOW + "0004 09 026e6f"},
    {"name": "ack", "before": "login", "say": {"safe": 8}, "bytes": _NOW + "0009 06 0000000000000008"},
    {
        "name": "readings of two devices",
        "before": "login",
        "frames": [
            "68 019b76daa800 02 0041 0000000000000007 01 0027" + _PLC_1 + _PLC_2 + "41ac0000 01 0004 69646c65 00011170"
        ],
        "events": [
            {
                "event": "readings",
                "device": "plc-1",
                "values": {"temp": 21.5, "run": True},
                "time": _TIME,
                "sequence": 7,
            },
            {
                "event": "readings",
                "device": "plc-2",
                "values": {"state": "idle", "count": 70000},
                "time": _TIME,
                "sequence": 7,
            },
            {"event": "when_safe", "token": 7},
        ],
    },
    {
        "name": "readings with qualities",
        "before": "login",
        "frames": ["68 019b76daa800 01 0024 0000000000000008 02 0012" + _PLC_1 + "41ac0000 01 03 00"],
        "events": [
            {
                "event": "readings",
                "device": "plc-1",
                "values": {"temp": 21.5, "run": True},
                "time": _TIME,
                "sequence": 8,
                "quality": {"temp": "stale"},
            }
        ],
    },
    {
        "name": "a float that is no number",
        "before": "login",
        "frames": ["68 000000000000 01 0022 0000000000000000 00 0012" + _PLC_1 + "7fc00000 00"],
        "events": [
            {
                "event": "readings",
                "device": "plc-1",
                "values": {"temp": None, "run": False},
                "quality": {"temp": "bad"},
            }
        ],
    },
    {
        "name": "a declared layout",
        "before": "login",
        "frames": [
            _CONTROL + "0016 05 0001 01" + _PLC_1,
            "68 019b76daa800 01 0010 0000000000000009 04 0001 41ac0000 01",
        ],
        "events": [
            {"event": "heartbeat"},
            {
                "event": "readings",
                "device": "plc-1",
                "values": {"temp": 21.5, "run": True},
                "time": _TIME,
                "sequence": 9,
            },
        ],
    },
    {
        "name": "heartbeat",
        "before": "login",
        "frames": [_CONTROL + "0001 03"],
        "events": [{"event": "heartbeat"}, {"event": "send", "data": (_NOW + "0001 04").replace(" ", "")}],
    },
    {
        "name": "command",
        "before": "login",
        "command": {"device": "plc-1", "values": {"run": False}},
        "bytes": _NOW + "001f 07 00000001 000000000000 05706c632d31 7b2272756e223a2066616c73657d",
        "frames": [_CONTROL + "000e 08 00000001 01 00 01 0372756e 01 00"],
        "events": [{"event": "answer", "number": 1, "ok": True, "values": {"run": False}}],
    },
    {
        "name": "goodbye",
        "before": "login",
        "frames": [_CONTROL + "0009 09 0772657374617274"],
        "events": [{"event": "close", "reason": "goodbye"}],
    },
    {"name": "data before the login", "frames": ["68 019b76daa800 01 0000"], "bad": "no_login"},
    {"name": "another magic", "before": "login", "frames": ["69 019b76daa800 00 0001 03"], "bad": "magic"},
    {"name": "a second login", "before": "login", "frames": [_CONTROL + "0001 01"], "bad": "kind"},
    {
        "name": "values cut",
        "before": "login",
        "frames": ["68 019b76daa800 01 0021 0000000000000007 00 0012" + _PLC_1 + "41ac0000"],
        "bad": "length",
    },
    {
        "name": "an unknown type",
        "before": "login",
        "frames": ["68 019b76daa800 01 0012 0000000000000007 00 0006 0164 01 0161 0e 00"],
        "bad": "layout",
    },
]
