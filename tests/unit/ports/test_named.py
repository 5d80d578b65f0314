"""Named tuples made in short are what they would be otherwise."""

from __future__ import annotations

from iot_mqtt.ports.access import Principal, vouched_for
from iot_mqtt.ports.events import Event
from iot_mqtt.ports.named import made


def test_a_named_tuple_is_made_of_all_its_values() -> None:
    """It is of its class, and equal to one that was made as usual."""
    event = made(Event, (1, 2.5, "kind", ("a",), (3,)))
    assert type(event) is Event
    assert event == Event(1, 2.5, "kind", ("a",), (3,))
    assert event.fields == {"a": 3}


def test_who_is_vouched_for_is_the_same_but_for_what_is_known_now() -> None:
    """Each field stays where it belongs."""
    before = Principal(
        "client",
        "ann",
        anonymous=False,
        superuser=True,
        groups=frozenset({"crew"}),
        address="old",
        brought_rules=("allow publish a",),
        expires_at=7.5,
        generation=3,
        link="other",
    )
    found = vouched_for(before, "192.0.2.1", 4, "file")
    assert type(found) is Principal
    assert found == before._replace(address="192.0.2.1", generation=4, link="file")
