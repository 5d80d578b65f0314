"""The process's one scanner: native or pure, filled in with what belongs to the codec."""

from __future__ import annotations

from typing import Any, Final

from iot_mqtt import native
from iot_mqtt.codec.encoder import encode_run
from iot_mqtt.codec.kinds import PacketType
from iot_mqtt.codec.properties import NO_PROPERTIES, read_publish
from iot_mqtt.codec.runs import AckRun, PublishBatch, PublishRun, RunBatch
from iot_mqtt.codec.wire import check_topic
from iot_mqtt.errors import ReasonCode


def build(scanner: Any = native.Scanner) -> native.Scanner:
    """A scanner of the given class, so that both can be held against the same vectors."""
    types = (PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP)
    built: native.Scanner = scanner(
        PublishRun, PublishBatch, AckRun, types, ReasonCode.SUCCESS, NO_PROPERTIES, read_publish, check_topic
    )
    return built


SCANNER: Final = build()


def page_reader(logged: type[Any], reference: type[Any], nobody: Any, reader: Any = native.PageReader) -> Any:
    """What reads pages of the log, to runs as these classes have them."""
    return reader(SCANNER, logged, reference, nobody)


def runs_of(batch: PublishBatch) -> list[PublishRun]:
    """The packets of a batch as runs, each of one topic."""
    if isinstance(batch, RunBatch):
        return batch.runs
    found: list[PublishRun] = []
    mode = native.FROM_CLIENT | (native.FIVE if batch.five else 0)
    SCANNER.scan(batch.wire, 0, found, batch.longest, mode)
    return found


def named(run: PublishRun, topic: bytes) -> PublishRun:
    """A run with its topic in place of an alias, which means nothing outside of its connection."""
    if not run.raw_properties or run.properties.topic_alias is None:
        return run
    properties, expiry = run.forwardable, run.properties.message_expiry_interval
    if expiry is not None:
        properties = b"\x02" + expiry.to_bytes(4, "big") + properties
    wire = encode_run(run, five=True, qos=run.qos, retain=run.retain, ids=run.ids, properties=properties, topic=topic)
    found: list[PublishRun] = []
    SCANNER.scan(wire, 0, found, len(wire), native.FIVE)
    return found[0]
