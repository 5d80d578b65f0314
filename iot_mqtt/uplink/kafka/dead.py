"""What becomes of a record that Kafka will never take: a letter to the topic of dead letters that says why.

The value is cut to what fits. Headers say where it should have gone (``original_topic``), why it did not
(``reason``), how many bytes it had (``size``), and to how many it was cut (``cut``); its own headers are kept.
``id`` is that of the record, its spool and position, and ``message_id`` what the message in it has as its ``id``.
"""

from __future__ import annotations

import json
import re

from iot_mqtt.ports.uplink import Record

#: For what a record has beside its value and headers.
OVERHEAD = 512
#: What is left of the value at least; below that there is no use.
LEAST = 256
_LONGEST_REASON = 300
#: All messages begin with it.
_MESSAGE_ID = re.compile(rb'\{"id":("(?:[^"\\]|\\.)*")')


def letter(record: Record, spool: str, topic: str, reason: str, limit: int) -> Record:
    """The record as the topic ``topic`` takes it, which takes ``limit`` bytes."""
    headers = (
        *record.headers,
        ("original_topic", record.topic.encode()),
        ("reason", reason.encode()[:_LONGEST_REASON]),
        ("size", b"%d" % len(record.value)),
        ("id", f"{spool}-{record.position}".encode()),
    )
    if (found := _MESSAGE_ID.match(record.value)) is not None:
        headers = (*headers, ("message_id", json.loads(found[1]).encode("utf-8", "replace")))
    key = record.key.encode("utf-8", "replace").decode()
    taken = OVERHEAD + len(key.encode()) + sum(len(name) + len(value) + 10 for name, value in headers)
    room = max(LEAST, limit - taken)
    if len(record.value) > room:
        headers = (*headers, ("cut", b"%d" % room))
    return Record(topic, key, record.value[:room], headers, record.timestamp, record.position)
