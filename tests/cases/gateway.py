"""One frame of each kind, as docs/gateway-protocol.md shows them, built by the code."""

from __future__ import annotations

import logging

from iot_mqtt.custom_protocols.gateway import GatewayCodec
from iot_mqtt.custom_protocols.gateway.wire import Type
from iot_mqtt.sdk import Command, Host, NoConfig
from tests.doubles import gateway as client

#: 2026-01-01 00:00:00 UTC.
TIME = 1_767_225_600_000

DEVICES: list[client.Device] = [
    ("plc-1", [("temp", Type.F32, 21.5), ("run", Type.BOOL, True)]),
    ("plc-2", [("state", Type.STRING, "idle"), ("count", Type.U32, 70000)]),
]


def codec(counted: dict[str, int] | None = None) -> GatewayCodec:
    """The broker's end, with nobody logged in."""

    def count(name: str, by: int) -> None:
        if counted is not None:
            counted[name] = counted.get(name, 0) + by

    return GatewayCodec(
        Host(NoConfig(), peer="127.0.0.1", log=logging.getLogger("test"), count=count, now=lambda: TIME)
    )


def logged_in(counted: dict[str, int] | None = None) -> GatewayCodec:
    """The broker's end, after the login of gw-1."""
    made = codec(counted)
    made.decode(LOGIN)
    made.welcome()
    return made


LOGIN = client.login("gw-1", user="line1", secret=b"s3cret", heartbeat=30, time=TIME)


def documented() -> dict[str, bytes]:
    """By the name that the document gives the picture."""
    broker = codec()
    broker.decode(LOGIN)
    refusal = broker.refuse("bad user name or password")
    welcome = broker.welcome()
    return {
        "login": LOGIN,
        "welcome": welcome,
        "refusal": refusal,
        "data": client.data(DEVICES, sequence=7, time=TIME, wants_ack=True),
        "qualities": client.data(
            DEVICES[:1], sequence=8, time=TIME, wants_ack=True, qualities={("plc-1", "temp"): "stale"}
        ),
        "declare": client.declare(1, DEVICES[:1], time=TIME),
        "declared": client.data(DEVICES[:1], sequence=9, time=TIME, layout=1),
        "ack": broker.safe(8),
        "heartbeat": client.heartbeat(time=TIME),
        "heartbeat answer": client.heartbeat_answer(time=TIME),
        "command": broker.encode(Command(1, "plc-1", {}, b'{"run":false}', TIME + 60_000)),
        "command answer": client.answer(1, True, "", [("run", Type.BOOL, False)], time=TIME),
        "close": client.close("restart", time=TIME),
    }
