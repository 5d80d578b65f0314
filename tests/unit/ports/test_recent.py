"""What is remembered of clients' last troubles: counted, bounded, and who had trouble last stays."""

from __future__ import annotations

import random

from iot_mqtt.ports import recent
from iot_mqtt.ports.recent import Recent, Trouble


def test_the_same_trouble_again_is_counted() -> None:
    """With when it began and when it was last; the last one stands first."""
    now = [1.0]
    memory = Recent(lambda: now[0])
    memory.note("c", "too_large", b"a/b", 2)
    memory.note("c", "expired", b"x")
    now[0] = 5.0
    memory.note("c", "too_large", b"a/b", 3, "again")
    assert memory.of("c") == [
        Trouble("too_large", "a/b", 5, 1.0, 5.0, "again"),
        Trouble("expired", "x", 1, 1.0, 1.0, ""),
    ]
    assert memory.of("d") == []


def test_the_last_of_all_clients_come_first() -> None:
    """Whoever had trouble in whatever order, and however often again: as if all were sorted by their time."""
    dice, now = random.Random(7), [0.0]
    memory = Recent(lambda: now[0])
    for _ in range(500):
        now[0] += dice.randrange(2)
        memory.note(f"c{dice.randrange(20)}", "expired", f"t/{dice.randrange(12)}", publisher=f"p{now[0]}")
    found = list(memory.latest())
    every = [(f"c{number}", one) for number in range(20) for one in memory.of(f"c{number}")]
    assert [one.last for _, one in found] == sorted((one.last for _, one in every), reverse=True)
    assert sorted(map(repr, found)) == sorted(map(repr, every))
    assert all(one.publisher == f"p{one.last}" for _, one in found)
    assert list(Recent(lambda: 0.0).latest()) == []


def test_the_memory_is_bounded() -> None:
    """In kinds of one client, in clients, and in characters; what is not UTF-8 is shown all the same."""
    memory = Recent(lambda: 0.0)
    for number in range(recent.EACH + 3):
        memory.note("c", "expired", f"t/{number}")
    assert [one.topic for one in memory.of("c")] == [f"t/{number}" for number in range(recent.EACH + 2, 2, -1)]
    memory.note("long" * 1000, "expired", b"\xff" * 5000, detail="d" * 5000)
    (found,) = memory.of("long" * 1000)
    assert (len(found.topic), len(found.detail)) == (recent.LONGEST, recent.LONGEST)
    for number in range(recent.CLIENTS):
        memory.note(f"n{number}", "expired")
    assert len(memory) == recent.CLIENTS
    assert not memory.of("c")


def test_what_is_common_pushes_out_nobody() -> None:
    """QoS 0 for thousands that are away does not make a node forget who was denied what."""
    memory = Recent(lambda: 0.0)
    memory.note("first", "denied_publish", "t")
    for number in range(recent.CLIENTS + 5):
        memory.note(f"away{number}", "offline_qos0", weak=True)
    assert memory.of("first")
    memory.note("last", "denied_publish", "t")
    assert memory.of("last")
    assert len(memory) == recent.CLIENTS
