"""Which topics are the broker's alone."""

import pytest

from iot_mqtt.topics import is_reserved
from iot_mqtt.topics.reserved import FIRST_BYTES

RESERVED = [
    "$SYS",
    "$SYS/",
    "$SYS/a",
    "$events",
    "$events/client/connected",
    "$share/g/t",
    "$replay/1h/t",
    "status",
    "status/",
    "status/a/b",
]
RESERVED += ["shadow/a/delta", "shadow/g/a/refused", "shadow//delta"]
FREE = [
    "",
    "a",
    "$",
    "$SYSa",
    "$eventsa",
    "events/a",
    "$sys/a",
    "$aws/a",
    "/$SYS",
    "a/status/b",
    "statuses",
    "s",
    "sensor/1",
]
FREE += ["shadow", "shadow/delta", "shadow/a/desired", "shadow/a/reported", "shadow/a/delta/x", "shadow/a/xdelta"]


@pytest.mark.parametrize("topic", RESERVED)
def test_the_brokers_own(topic: str) -> None:
    """Only the broker speaks there, and the first byte says that one has to look."""
    assert is_reserved(topic.encode())
    assert topic.encode()[0] in FIRST_BYTES


@pytest.mark.parametrize("topic", FREE)
def test_everybody_elses(topic: str) -> None:
    """A resemblance is not enough."""
    assert not is_reserved(topic.encode())
