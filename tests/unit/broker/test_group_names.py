"""What the parts of durable groups are kept under: told apart whatever the writer, the filter and the client are."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.shared_groups.names import GroupName, home_of, part_name, share_name, split_name, writer_at_home
from iot_mqtt.broker.shared_groups.references import split
from iot_mqtt.ports.log import Reference

FILTER = "$share/größe/t/+/#"


@pytest.mark.parametrize("writer", [0, 1, 127, 128, 255])
def test_names_say_what_they_are_made_of(writer: int) -> None:
    """That of a sole node is the filter, as it has always been."""
    name = part_name(writer, FILTER)
    assert (name == FILTER) == (writer == 0)
    assert split_name(name) == GroupName(writer, FILTER, "")
    assert split_name(name.encode().decode()) == GroupName(writer, FILTER, "")
    if writer:
        assert split_name(share_name(name, "client 1")) == GroupName(writer, FILTER, "client 1")


def test_homes_are_not_clients() -> None:
    """No client can have such an id."""
    assert [writer_at_home(home_of(writer)) for writer in (0, 1, 255)] == [0, 1, 255]
    assert writer_at_home("groups-1") is None
    assert home_of(1).startswith("\0")


@pytest.mark.parametrize(
    ("positions", "inside", "outside"),
    [
        (set(), [], [(10, 4), (20, 1)]),
        ({10, 11, 12, 13, 20}, [(10, 4), (20, 1)], []),
        ({9, 11, 12, 30}, [(11, 2)], [(10, 1), (13, 1), (20, 1)]),
        ({10, 12, 20}, [(10, 1), (12, 1), (20, 1)], [(11, 1), (13, 1)]),
    ],
)
def test_references_are_split_by_position(
    positions: set[int], inside: list[tuple[int, int]], outside: list[tuple[int, int]]
) -> None:
    """Consecutive messages stay together."""
    references = [Reference(1, 2, 10, 4), Reference(1, 2, 20, 1)]
    found = split(references, positions)
    assert [[(one.position, one.length) for one in part] for part in found] == [inside, outside]
