"""The process's one scanner: native or pure, filled in with what belongs to the codec."""

from __future__ import annotations

from typing import Any, Final

from iot_mqtt import native
from iot_mqtt.codec.batch import PublishBatch, batch_of
from iot_mqtt.codec.encoder import encode_run
from iot_mqtt.codec.kinds import PacketType
from iot_mqtt.codec.properties import NO_PROPERTIES, forwardable, read_publish
from iot_mqtt.codec.runs import AckRun, PublishRun, RunBatch
from iot_mqtt.codec.wire import check_topic
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import Message


def build(scanner: Any = native.Scanner) -> native.Scanner:
    """A scanner of the given class, so that both can be held against the same vectors."""
    types = (PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP)
    built: native.Scanner = scanner(
        PublishRun, batch_of, AckRun, types, ReasonCode.SUCCESS, NO_PROPERTIES, read_publish, check_topic
    )
    return built


def build_messages(messages: Any = native.Messages) -> native.Messages:
    """The same for what makes messages of packets."""
    built: native.Messages = messages(Message, _kept)
    return built


def _kept(raw: bytes, wall: float) -> tuple[bytes, float | None]:
    """What is kept of a property block: what is passed on, and when the message expires."""
    interval = read_publish(raw, from_client=False).message_expiry_interval
    return forwardable(raw), None if interval is None else wall + interval


SCANNER: Final = build()
MESSAGES: Final = build_messages()


def last_messages(batch: PublishBatch, publisher: str, wall: float) -> tuple[dict[bytes, Message], int] | None:
    """The last message of each topic of a batch that came at a time, and the size of all messages, also those that
    others came after; None if they are not all of the ordinary kind: one without payload, a topic that begins with "$".
    """
    return MESSAGES.last(batch.data, batch.begin, batch.count, batch.five, publisher, wall)


def page_reader(logged: type[Any], reference: type[Any], nobody: Any, reader: Any = native.PageReader) -> Any:
    """What reads pages of the log, to runs as these classes have them."""
    return reader(SCANNER, logged, reference, nobody)


def row_reader(logged: type[Any], reader: Any = native.RowReader) -> native.RowReader:
    """What looks at runs of the log that stand in a row, as this class has them."""
    built: native.RowReader = reader(logged, PublishRun)
    return built


def runs_of(batch: PublishBatch | RunBatch) -> list[PublishRun]:
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
