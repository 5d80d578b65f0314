"""What comes to a port that is for something else, by its first bytes: TLS, HTTP, or MQTT where TLS is expected."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

#: First bytes of a TLS handshake, and of requests of HTTP.
_TLS: Final = b"\x16\x03"
_HTTP: Final = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"DELETE ", b"CONNECT ", b"PRI ")


class WrongPort(StrEnum):
    """As the log and ``why`` say it."""

    TLS = "TLS came to a port that has none"
    HTTP = "HTTP came to a port that is for MQTT"
    PLAIN_MQTT = "MQTT without TLS came to a port that has TLS"
    PLAIN_HTTP = "HTTP without TLS came to a port that has TLS"


def is_undecided(begin: bytes) -> bool:
    """Whether the next bytes will tell: what came is the beginning of something else than MQTT, or of nothing."""
    return any(len(begin) < len(word) and word.startswith(begin) for word in (_TLS, *_HTTP))


def at_mqtt_port(begin: bytes) -> WrongPort | None:
    """What the first bytes at a port for MQTT are, if they are neither MQTT nor unknown."""
    if begin.startswith(_TLS):
        return WrongPort.TLS
    return WrongPort.HTTP if begin.startswith(_HTTP) else None


def at_tls_port(begin: bytes) -> WrongPort | None:
    """The same of a port with TLS."""
    if begin.startswith(b"\x10") and (b"MQTT" in begin[:12] or b"MQIsdp" in begin[:12]):
        return WrongPort.PLAIN_MQTT
    return WrongPort.PLAIN_HTTP if begin.startswith(_HTTP) else None
