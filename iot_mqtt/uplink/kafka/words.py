"""What the library says of an error, without what differs each time that it says it."""

from __future__ import annotations

import re

from confluent_kafka import KafkaError

_EACH_TIME = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)")


def words_of(error: KafkaError) -> str:
    return _EACH_TIME.sub("", error.str())
