"""One message on its way: when its time is over, and what of several sent together has left."""

from __future__ import annotations

from iot_mqtt.ports.log import Reference
from iot_mqtt.session import Convoy, Delivery
from iot_mqtt.session.outbound import Entry
from iot_mqtt.values import Message


def test_a_message_is_over_when_its_expiry_is_reached() -> None:
    """One without an expiry never is [MQTT-3.3.2-5]."""
    timed = Delivery(Message(b"t", b"", 1, expires_at=1000.0), 1)
    assert [timed.expired(wall) for wall in (999.9, 1000.0, 2000.0)] == [False, True, True]
    assert not Delivery(Message(b"t", b"", 1), 1).expired(1e12)


def test_what_left_of_a_convoy_is_known_of_each_flight() -> None:
    """In the order of sending: what has left is sent again with DUP, what has not without."""
    references = [Reference(1, 1, 10, 2), Reference(1, 1, 20, 3), Reference(1, 1, 30, 1)]
    convoy = Convoy(None, references, range(1, 7), (), None)
    convoy.sent = 3
    entries: dict[int, Entry] = dict.fromkeys(range(1, 7), convoy)
    del entries[2]
    flights = convoy.unfold(entries)
    assert [(list(flight.ids), flight.sent) for flight in flights] == [([1, 2], 2), ([3, 4, 5], 1), ([6], 0)]
    assert entries == {1: flights[0], 3: flights[1], 4: flights[1], 5: flights[1], 6: flights[2]}


def test_a_flight_is_outstanding_as_far_as_its_ids_are_its_own() -> None:
    """An id that was confirmed may belong to another message by now."""
    first, second = (Convoy(None, [Reference(1, 1, 10, 4)], range(1, 5), (), None) for _ in range(2))
    entries: dict[int, object] = {1: first, 2: second, 3: first, 4: first}
    assert [(offset, list(ids)) for offset, ids in first.outstanding(entries)] == [(0, [1]), (2, [3, 4])]
