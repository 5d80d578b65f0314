"""What waits for a session."""

from __future__ import annotations

import pytest

from iot_mqtt.ports.counters import Drop
from iot_mqtt.session import Delivery, DeliveryQueue
from iot_mqtt.session.queue import FLOOR, QueuedInAll
from iot_mqtt.values import Message


def delivery(payload: bytes) -> Delivery:
    """One message with a topic of one byte."""
    return Delivery(Message(b"t", payload, 1), 1)


def test_first_in_first_out_with_its_bytes_counted() -> None:
    """Bytes are topic, payload and properties."""
    queue = DeliveryQueue(10, 1000)
    queue.append(delivery(b"abc"))
    queue.append(delivery(b"d"))
    assert (len(queue), queue.bytes) == (2, 6)
    assert queue.popleft().message.payload == b"abc"
    assert (len(queue), queue.bytes) == (1, 2)
    assert [one.message.payload for one in queue] == [b"d"]


def test_the_newcomer_is_refused_with_the_reason() -> None:
    """What is kept already stays."""
    queue = DeliveryQueue(2, 10)
    queue.append(delivery(b"1234"))
    assert queue.refusal(5) is None
    assert queue.refusal(6) is Drop.QUEUE_BYTES
    queue.append(delivery(b"1"))
    assert queue.refusal(1) is Drop.QUEUE_FULL


def test_an_empty_queue_has_nothing_to_give() -> None:
    """And costs no container."""
    queue = DeliveryQueue(2, 10)
    assert list(queue) == []
    with pytest.raises(IndexError):
        queue.popleft()


def test_taking_all_leaves_nothing() -> None:
    """For a session that ends."""
    queue = DeliveryQueue(5, 100)
    queue.append(delivery(b"a"))
    queue.append(delivery(b"b"))
    assert [one.message.payload for one in queue.take_all()] == [b"a", b"b"]
    assert (len(queue), queue.bytes, bool(queue)) == (0, 0, False)


def test_a_message_expires_at_its_second() -> None:
    """Not before."""
    mortal = Delivery(Message(b"t", b"", 1, expires_at=100.0), 1)
    assert not mortal.expired(99.9)
    assert mortal.expired(100.0)
    assert not delivery(b"").expired(1e12)


def test_what_left_with_its_session_counts_for_nobody() -> None:
    """Neither at once, nor when it is taken out later."""
    in_all = QueuedInAll(1000)
    queue = DeliveryQueue(10, 1000)
    queue.in_all = in_all
    delivery = Delivery(Message(b"t", b"x" * 100, 1), 1)
    queue.append(delivery)
    assert in_all.bytes == delivery.message.size
    queue.leave()
    assert in_all.bytes == 0
    queue.popleft()
    assert in_all.bytes == 0


def test_what_waits_in_all_queues_is_bounded() -> None:
    """For who has more than a little waiting: others may always have that."""
    in_all = QueuedInAll(2 * FLOOR)
    large, small = DeliveryQueue(100, 10 * FLOOR), DeliveryQueue(100, 10 * FLOOR)
    large.in_all = small.in_all = in_all
    large.append(delivery(b"x" * (2 * FLOOR)))
    assert large.refusal(1) is Drop.QUEUES_FULL
    assert small.refusal(FLOOR) is None
    assert small.refusal(FLOOR + 1) is Drop.QUEUES_FULL
    large.popleft()
    assert large.refusal(FLOOR) is None
