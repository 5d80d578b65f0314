"""What a client has under way to us."""

from __future__ import annotations

import pytest

from iot_mqtt.errors import ProtocolViolation, ReasonCode
from iot_mqtt.session import Inbound


def test_new_ids_are_all_new() -> None:
    """None stands for the usual case, so that nothing is built for it."""
    inbound = Inbound(10)
    assert inbound.fresh([1, 2, 3]) is None
    assert inbound.received == {1, 2, 3}


def test_ids_are_one_clients_own() -> None:
    """Those who have none have no set, either."""
    one, other = Inbound(10), Inbound(10)
    one.fresh([1])
    assert (one.received, other.received) == ({1}, None)
    assert one.release(1)
    other.fresh([2])
    assert (one.received, other.received) == (None, {2})


def test_a_repeated_id_is_not_new() -> None:
    """The positions of the others are told [MQTT-4.3.3-10]."""
    inbound = Inbound(10)
    inbound.fresh([2])
    assert inbound.fresh([1, 2, 3]) == [0, 2]


def test_an_id_twice_in_one_run_is_new_once() -> None:
    """A client that repeats within one segment."""
    inbound = Inbound(10)
    assert inbound.fresh([4, 4, 5]) == [0, 2]
    assert inbound.received == {4, 5}


def test_a_released_id_is_new_again() -> None:
    """PUBREL frees it [MQTT-4.3.3-11]; an unknown one is told apart."""
    inbound = Inbound(10)
    inbound.fresh([7])
    assert inbound.release(7)
    assert not inbound.release(7)
    assert inbound.fresh([7]) is None


def test_more_than_the_receive_maximum_is_refused() -> None:
    """Both kinds count: QoS 1 without PUBACK, QoS 2 without PUBREL [MQTT-3.3.4-9]."""
    inbound = Inbound(3)
    inbound.fresh([1])
    inbound.unacknowledged = 1
    inbound.admit(1)
    with pytest.raises(ProtocolViolation) as caught:
        inbound.admit(2)
    assert caught.value.reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_what_was_taken_back_is_new_when_it_comes_again() -> None:
    """Nobody could take it the first time; others stay known."""
    inbound = Inbound(10)
    inbound.fresh([1, 2])
    inbound.forget([2])
    assert inbound.fresh([1, 2]) == [1]
