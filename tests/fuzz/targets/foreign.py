"""Files of other brokers that are no texts: ``mosquitto.db``, which is read or refused with the place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.app.importing.mosquitto_db import Database
from iot_mqtt.codec import encode
from iot_mqtt.values import ProtocolVersion
from tests.cases import mosquitto_files as db
from tests.fuzz.target import Target


def run_mosquitto_db(data: bytes) -> None:
    """What was read can be published."""
    try:
        for message in Database(data).messages(1_700_000_000):
            assert len(message.topic) + len(message.payload) <= len(data), "more was read than is there"
            for version in ProtocolVersion:
                encode(replace(message, packet_id=1) if message.qos else message, version)
    except Refused as error:
        assert str(error)


def _seeds() -> Iterator[bytes]:
    for version in (5, 6):
        raw = b"\x03\x00\x01t\x26\x00\x01k\x00\x01v"
        yield db.file(
            version,
            db.message(1, b"a/b", b"21", 2, expires=1_700_000_100, properties=bytes((len(raw),)) + raw),
            db.message(2, b"c", b"x", 0),
            db.retained(2),
            db.retained(1),
        )
    for version in (3, 4):
        yield db.file(version, db.old_message(version, 1, b"a/b", b"21"), db.retained(1))


TARGETS = (
    Target(
        "mosquitto-db",
        run_mosquitto_db,
        _seeds,
        (b"\0\0\0\2", b"\0\0\0\4", b"\0\0\0\6", b"\0\0\0\x08", b"\xff\xff\xff\xff"),
        400,
        8000,
    ),
)
__all__ = ["TARGETS"]
