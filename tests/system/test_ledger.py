"""The judge itself: each fault it is there to find, found."""

from __future__ import annotations

from ledger import Ledger


def _ledger(qos: int, sent: int, acked: list[int], delivered: list[int]) -> Ledger:
    ledger = Ledger()
    ledger.publisher("p", "t", qos)
    ledger.subscribe("s", ["p"])
    payloads = [ledger.next("p") for _ in range(sent)]
    for number in acked:
        ledger.acked(payloads[number - 1])
    for number in delivered:
        ledger.delivered("s", "t", f"p {number}".encode())
    return ledger


def test_all_delivered_in_order_is_clean() -> None:
    """The plain case raises nothing."""
    account = _ledger(2, 3, [1, 2, 3], [1, 2, 3]).check()
    account.assert_clean()
    assert (account.sent, account.acked, account.delivered) == (3, 3, 3)


def test_an_unacknowledged_message_may_be_missing_or_there() -> None:
    """Without an acknowledgement nothing was promised."""
    _ledger(1, 3, [1], [1, 3]).check().assert_clean()


def test_an_acknowledged_message_that_is_missing_is_lost() -> None:
    """Lost, and unexplained as long as no drop counter owns up to it."""
    ledger = _ledger(1, 3, [1, 2, 3], [1, 3])
    assert ledger.missing() == 1
    assert (ledger.check().lost_acked, ledger.check().unexplained, ledger.check(dropped=1).unexplained) == (1, 1, 0)
    assert "lost [2]" in ledger.details()


def test_a_second_delivery_is_a_fault_at_qos_2_only() -> None:
    """QoS 1 says at least once, QoS 2 exactly once."""
    assert _ledger(2, 2, [1, 2], [1, 2, 1]).check().duplicate_qos2 == 1
    account = _ledger(1, 2, [1, 2], [1, 2, 1]).check()
    account.assert_clean()
    assert account.duplicate_qos1 == 1


def test_a_first_delivery_after_a_later_message_is_out_of_order() -> None:
    """Only first deliveries count: repeated ones come late by nature."""
    assert _ledger(1, 3, [], [1, 3, 2]).check().reordered == 1
    assert _ledger(1, 3, [], [1, 2, 3, 1, 2, 3]).check().reordered == 0


def test_what_nobody_sent_there_is_unexplained() -> None:
    """A wrong topic, a number not sent yet, and a foreign payload."""
    ledger = _ledger(1, 1, [1], [1, 2])
    ledger.delivered("s", "elsewhere", b"p 1")
    ledger.delivered("s", "t", b"garbage")
    assert ledger.check().unexplained == 3
