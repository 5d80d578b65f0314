"""Where clients are sent: to the member with the fewest clients, by the listener that they came by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.broker.cluster.references import LeastLoaded
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.registry import Member

A, B, C = (
    Member(
        f"n{number}", number, 1, "1", addresses={"mqtt": f"n{number}:1883", "ws": f"n{number}:8083"}, clients=clients
    )
    for number, clients in ((1, 50), (2, 20), (3, 30))
)


def send(*members: Member, fallback: str = "", listener: str = "mqtt", times: int = 1) -> list[str]:
    references = LeastLoaded(lambda: members, 1, ManualClock(), fallback)
    return [references(listener) for _ in range(times)]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ((A, B, C), "n2:1883"),
        ((A, replace(B, draining=True), C), "n3:1883"),
        ((A, replace(B, load=0.99), C), "n3:1883"),
        ((A, replace(B, load=0.99)), "n2:1883"),
        ((A, replace(B, addresses={"mqtt": "0.0.0.0:1883"}), C), "n3:1883"),
        ((A, replace(B, addresses=None)), "elsewhere"),
        ((A,), "elsewhere"),
        ((), "elsewhere"),
    ],
    ids=[
        "the fewest clients",
        "not to one that is drained itself",
        "not to one that is busy",
        "to one that is busy if there is no other",
        "not to every address of a machine",
        "not where no address is known",
        "never to this node",
        "an empty list",
    ],
)
def test_clients_are_sent_to_the_best_member(members: tuple[Member, ...], expected: str) -> None:
    """Or where the configuration says, if there is none."""
    assert send(*members, fallback="elsewhere") == [expected]


def test_the_listener_is_the_one_that_the_client_came_by() -> None:
    """By its name; a client that speaks WebSocket is not sent to a plain port."""
    assert send(A, B, listener="ws") == ["n2:8083"]
    assert send(A, B, listener="mqtts", fallback="f") == ["f"]


def test_those_who_are_on_their_way_count() -> None:
    """B has ten clients less than C until ten were sent there; then it is each one's turn."""
    sent = send(A, B, C, times=30)
    assert sent[:10] == ["n2:1883"] * 10
    assert sent.count("n2:1883") == 20
    assert sent.count("n3:1883") == 10


def test_a_member_that_says_anew_how_many_it_has_is_believed() -> None:
    """And one that says nothing after ten seconds: those who did not arrive went elsewhere."""
    clock, members = ManualClock(), [A, B, C]
    references = LeastLoaded(lambda: members, 1, clock)
    for _ in range(7):
        references("mqtt")
    assert references.clients_of(B) == 27
    members[1] = replace(B, clients=23)
    assert references.clients_of(members[1]) == 23
    references("mqtt")
    clock.advance(9.0)
    references("mqtt")
    assert references.clients_of(members[1]) == 25
    clock.advance(1.0)
    assert references.clients_of(members[1]) == 23
