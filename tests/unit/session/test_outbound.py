"""The window towards a client: packet ids, the two exchanges, the order of what is repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.errors import ProtocolViolation
from iot_mqtt.session import RELEASED, SENT_QOS1, SENT_QOS2, Delivery, Outbound
from iot_mqtt.session.outbound import MAX_PACKET_ID
from iot_mqtt.values import Message


def delivery(qos: int, payload: bytes = b"x") -> Delivery:
    """Something to keep."""
    return Delivery(Message(b"t", payload, qos), qos)


def test_ids_begin_with_one_and_go_up() -> None:
    """0 is never an id [MQTT-2.3.1-1]."""
    assert list(Outbound(10).reserve(3)) == [1, 2, 3]


def test_an_id_in_flight_is_stepped_over() -> None:
    """Also right after the counter wrapped."""
    outbound = Outbound(10)
    outbound.restore(MAX_PACKET_ID - 1, SENT_QOS1)
    outbound.entries[1] = SENT_QOS2
    outbound.entries[3] = RELEASED
    assert list(outbound.reserve(4)) == [MAX_PACKET_ID, 2, 4, 5]


def test_more_ids_than_there_are_cannot_be_asked_for() -> None:
    """A search that could not end is refused."""
    outbound = Outbound(MAX_PACKET_ID)
    outbound.mark(outbound.reserve(MAX_PACKET_ID - 1), 1)
    assert list(outbound.reserve(1)) == [MAX_PACKET_ID]
    with pytest.raises(ValueError, match="more packet ids"):
        outbound.reserve(2)


def test_room_is_what_the_limit_leaves() -> None:
    """A released exchange still counts until PUBCOMP [MQTT-4.9.0-1]."""
    outbound = Outbound(3)
    outbound.mark(outbound.reserve(2), 2)
    assert outbound.room == 1
    outbound.receive(1)
    assert outbound.room == 1
    assert outbound.complete(1)
    assert outbound.room == 2


def test_puback_ends_a_qos_1_exchange() -> None:
    """The entries come back in the order of the ids; unknown ones are passed over."""
    outbound = Outbound(10)
    kept = delivery(1)
    outbound.keep(kept)
    outbound.mark(outbound.reserve(1), 1)
    assert outbound.acknowledge([2, 9, 1]) == [SENT_QOS1, kept]
    assert len(outbound) == 0


@pytest.mark.parametrize("entry", [SENT_QOS2, RELEASED, delivery(2)])
def test_puback_for_a_qos_2_exchange_is_a_violation(entry: object) -> None:
    """And the exchange stays as it was, where it was."""
    outbound = Outbound(10)
    outbound.restore(5, entry)  # type: ignore[arg-type]
    outbound.mark([6], 1)
    with pytest.raises(ProtocolViolation):
        outbound.acknowledge([5])
    assert list(outbound.entries.items()) == [(5, entry), (6, SENT_QOS1)]


@pytest.mark.parametrize("entry", [SENT_QOS1, delivery(1)])
def test_pubrec_for_a_qos_1_exchange_is_a_violation(entry: object) -> None:
    """And the exchange stays as it was, where it was."""
    outbound = Outbound(10)
    outbound.restore(5, entry)  # type: ignore[arg-type]
    outbound.mark([6], 1)
    with pytest.raises(ProtocolViolation):
        outbound.receive(5)
    assert list(outbound.entries.items()) == [(5, entry), (6, SENT_QOS1)]


def test_pubcomp_before_pubrec_is_a_violation() -> None:
    """The message may not have arrived."""
    outbound = Outbound(10)
    outbound.mark(outbound.reserve(1), 2)
    with pytest.raises(ProtocolViolation):
        outbound.complete(1)
    assert not outbound.complete(7)


def test_pubrels_keep_the_order_of_the_pubrecs() -> None:
    """[MQTT-4.6.0-4], while PUBLISHes keep the order of sending [MQTT-4.6.0-1]."""
    outbound = Outbound(10)
    outbound.mark(outbound.reserve(4), 2)
    outbound.receive(3)
    outbound.receive(1)
    assert list(outbound.entries) == [2, 4, 3, 1]
    assert outbound.released == 2


def test_a_repeated_pubrec_is_answered_again() -> None:
    """It returns the marker, so that the message is not counted twice."""
    outbound = Outbound(10)
    outbound.mark(outbound.reserve(1), 2)
    assert outbound.receive(1) is SENT_QOS2
    assert outbound.receive(1) is RELEASED


def test_a_refused_message_frees_its_id() -> None:
    """PUBREC of 0x80 and more ends the exchange [MQTT-4.3.3-4]; a released one can't be refused any more."""
    outbound = Outbound(10)
    kept = delivery(2)
    outbound.keep(kept)
    assert outbound.reject(1) is kept
    assert outbound.reject(1) is None
    outbound.restore(2, RELEASED)
    assert outbound.reject(2) is None


def test_what_is_restored_counts_as_sent() -> None:
    """It will be repeated with DUP under its old id [MQTT-3.3.1-1] [MQTT-4.4.0-1]."""
    outbound = Outbound(10)
    kept = delivery(1)
    outbound.restore(42, kept)
    assert (kept.packet_id, kept.sent) == (42, True)
    assert list(outbound.reserve(1)) == [43]


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=60))
def test_an_id_in_flight_is_never_issued_again(steps: list[tuple[int, bool]]) -> None:
    """Whatever is acknowledged in whatever order, near the end of the range."""
    outbound = Outbound(200)
    outbound.restore(MAX_PACKET_ID - 50, SENT_QOS1)
    for count, acknowledge in steps:
        count = min(count, outbound.room)
        if acknowledge:
            outbound.acknowledge(list(outbound.entries)[::2][:count])
        elif count:
            before = set(outbound.entries)
            ids = list(outbound.reserve(count))
            assert len(set(ids)) == count
            assert before.isdisjoint(ids)
            assert all(1 <= packet_id <= MAX_PACKET_ID for packet_id in ids)
            outbound.mark(ids, 1)


def test_ids_in_flight_are_stepped_over_in_the_midst_of_others() -> None:
    """Far from where the counter wraps."""
    outbound = Outbound(10)
    outbound.restore(3, SENT_QOS1)
    outbound.restore(1, SENT_QOS1)
    assert list(outbound.reserve(3)) == [2, 4, 5]


def test_a_held_id_is_not_given_out_until_it_is_let_go() -> None:
    """It is free by then, and stepped over all the same."""
    outbound = Outbound(10)
    outbound.restore(3, SENT_QOS1)
    outbound.restore(1, SENT_QOS1)
    outbound.hold([3], 100)
    outbound.acknowledge([3])
    assert list(outbound.reserve(2)) == [2, 4]
    outbound.let_go()
    outbound.last = 2
    assert list(outbound.reserve(1)) == [3]
