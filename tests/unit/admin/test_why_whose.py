"""What is somebody else's matter is no cause: strangers' connections, and what is withheld from who asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.admin.why.finding import Weight
from iot_mqtt.admin.why.resource import answer, findings
from iot_mqtt.admin.why.together import together
from tests.unit.admin.adminkit import CLIENT, NOW
from tests.unit.admin.test_why import UNKNOWN, WELL, attempt

#: A connection that did not say who it is, from where the client is as well.
STRANGER = replace(attempt("unnamed", "tls_failed", "TLS: no certificate", user=None), client_id="")


@pytest.mark.parametrize("client_id", ["10", "0.0.", "10.0.0.1"])
def test_a_connection_of_a_stranger_is_no_cause_for_who_is_connected(client_id: str) -> None:
    """Behind the same address, and whatever its id has in common with that."""
    client = replace(CLIENT, client_id=client_id, connected_at=NOW - 60)
    found = findings(replace(WELL, asked=client_id, client=client, unnamed=(STRANGER,)))
    assert [(one.code, one.weight) for one in found] == [
        ("well", Weight.SAYS + 1),
        ("tls_failed", Weight.SAYS),
    ]


@pytest.mark.parametrize(
    ("asked", "peer", "weight"),
    [
        ("10.0.0.1", "10.0.0.1:5", Weight.STOPS),
        ("10.0.0.1:5", "10.0.0.1:5", Weight.STOPS),
        ("::1", "[::1]:5", Weight.STOPS),
        ("10.0.0.1", "[::ffff:10.0.0.1]:5", Weight.STOPS),
        ("10", "10.0.0.1:5", Weight.WAS),
        ("10.0.0.1:55", "10.0.0.1:5", Weight.WAS),
        ("10.0.0.1", "210.0.0.1:5", Weight.WAS),
    ],
)
def test_a_connection_without_a_name_is_the_cause_for_its_address(asked: str, peer: str, weight: Weight) -> None:
    """As it is asked for: nothing else is an address."""
    found = findings(replace(UNKNOWN, asked=asked, unnamed=(replace(STRANGER, peer=peer),)))
    assert [one.weight for one in found if one.code == "tls_failed"] == [weight]


def test_strangers_of_another_node_are_no_cause_for_who_is_connected() -> None:
    """That node knows nothing of the client, and tells of all who came to it."""
    there = replace(UNKNOWN, node="n2", unnamed=(STRANGER,))
    answers = [answer(one, contents=True) for one in (WELL, there)]
    assert [one["code"] for one in together(answers, {})["findings"]] == ["well", "tls_failed"]
