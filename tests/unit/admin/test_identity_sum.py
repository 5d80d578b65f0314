"""The loss identity of several nodes is one sum."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from iot_mqtt.admin.identity_sum import as_one
from iot_mqtt.ports.identity import Account, KeptAccount, NodeAccounts


def answer(number: int, account: Account, *kept: KeptAccount, unexplained: int = 0, waiting: int = 0) -> dict[str, Any]:
    """As it comes over a link."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(NodeAccounts(number, unexplained, waiting, 0, account, kept))))
    return found


def test_what_one_node_hands_over_another_takes() -> None:
    """Then nothing moves, and all is explained."""
    one = Account(0.0, matched=7, delivered=4, handed_over=3, passed_on=3)
    two = Account(0.0, restored=3, taken_over=3, delivered=1, dropped={"expired": 1})
    found = as_one([answer(1, one), answer(2, two, waiting=1)], {})
    assert (found["unexplained"], found["moving"], found["estimated"]) == (0, 0, ())
    assert (found["matched"], found["delivered"], found["waiting"], found["lives"]) == (7, 5, 1, 2)
    assert found["dropped"] == {"expired": 1}


def test_what_nobody_has_taken_over_is_unexplained() -> None:
    one = Account(0.0, matched=3, handed_over=3, passed_on=3)
    found = as_one([answer(1, one, unexplained=2)], {})
    assert (found["unexplained"], found["moving"]) == (5, 3)


def test_a_node_that_does_not_answer_is_taken_from_the_store() -> None:
    """And it is said that this is no exact figure; a node that answers is not counted a second time."""
    kept = (
        KeptAccount(1, 9, Account(0.0, matched=9)),
        KeptAccount(2, 4, Account(0.0, killed=1, lives=2, left=4, left_by_killed=4, taken_over=3)),
    )
    one = Account(0.0, matched=10, passed_on=3, lent=2)
    found = as_one([answer(1, one, *kept)], {"two": "it is dead"})
    assert (found["moving"], found["matched"], found["waiting"], found["killed"], found["left"]) == (0, 10, 4, 1, 4)
    assert found["estimated"] == ("missing_nodes", "killed_lives", "links")


def test_losses_that_nobody_counted_are_named() -> None:
    """A node of the version before says nothing of them."""
    before = answer(1, Account(0.0))
    del before["uncounted_losses"]
    assert as_one([before, answer(2, Account(0.0))], {})["estimated"] == ()
    assert as_one([before, answer(2, Account(0.0)) | {"uncounted_losses": 1}], {})["estimated"] == ("uncounted_losses",)
