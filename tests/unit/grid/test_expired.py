"""What is over among retained messages leaves a shared grid, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.grid import expired
from iot_mqtt.grid.expired import AFTER_SECONDS, ExpiredRetained
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.grid.records.retained import encode_retained
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.values import Message
from tests.simulation.sharedgrid import finish

NOW = 1_000_000.0


def retained(topic: str, expires_at: float | None) -> bytes:
    message = Message(topic.encode(), b"x", qos=1, retain=True, expires_at=expires_at)
    return encode_retained(message, 1, 1)


@pytest.fixture
def grid() -> MemoryGrid:
    grid = MemoryGrid()
    finish(grid.open())
    return grid


def put(grid: MemoryGrid, records: dict[str, bytes]) -> None:
    batch = WriteBatch()
    for topic, record in records.items():
        batch.put(CacheName.RETAINED, topic.encode(), record)
    finish(grid.commit(batch))


def topics(grid: MemoryGrid) -> list[str]:
    return [key.decode() for key in grid._values[CacheName.RETAINED]]


def test_only_what_has_been_over_for_long_goes(grid: MemoryGrid) -> None:
    """A clock that is fast by less than that takes nothing that another node still shows."""
    put(
        grid,
        {
            "for-ever": retained("for-ever", None),
            "just-over": retained("just-over", NOW - 1),
            "long-over": retained("long-over", NOW - AFTER_SECONDS - 1),
            "to-come": retained("to-come", NOW + 1),
            "unreadable": b"\x7f",
        },
    )
    assert finish(ExpiredRetained(grid).drop(NOW, 5)) == 1
    assert topics(grid) == ["for-ever", "just-over", "to-come", "unreadable"]


def test_all_are_looked_at_in_turns_and_then_again(grid: MemoryGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired, "PAGE", 10)
    old = NOW - 2 * AFTER_SECONDS
    put(grid, {f"t/{number:03}": retained("t", old if number % 3 == 0 else None) for number in range(35)})
    care = ExpiredRetained(grid)
    assert [finish(care.drop(NOW, 1)) for _ in range(4)] == [4, 3, 3, 2]
    put(grid, {"t/000": retained("t", old)})
    assert finish(care.drop(NOW, 1)) == 1
    assert len(topics(grid)) == 23


def test_what_was_put_in_its_place_meanwhile_stays(grid: MemoryGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the removal another node retains the next message of the topic."""
    put(grid, {"t": retained("t", NOW - 2 * AFTER_SECONDS)})
    swap = grid.compare_and_set

    async def later(*arguments: Any) -> bool:
        put(grid, {"t": retained("t", None)})
        return await swap(*arguments)

    monkeypatch.setattr(grid, "compare_and_set", later)
    assert finish(ExpiredRetained(grid).drop(NOW, 1)) == 0
    assert topics(grid) == ["t"]
