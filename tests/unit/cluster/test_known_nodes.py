"""Which nodes are lacking, by name: one that was stopped in order, and one that is gone."""

from __future__ import annotations

import logging

import pytest

from iot_mqtt.cluster import leaving
from iot_mqtt.cluster.joining import Known, known_record
from iot_mqtt.cluster.roster import Life
from iot_mqtt.ports.cluster_status import AbsentNode, Ending
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.simulation.sharedgrid import finish
from tests.unit.cluster.nodekit import World


def absent(world: World, asked: str) -> list[tuple[str, Ending]]:
    """Who is lacking, as one node has it."""
    return [(one.node_id, one.ending) for one in world[asked].cluster.status().absent]


def stop(world: World, name: str) -> None:
    """In order, as ``app`` does it."""
    world.run(world[name].cluster.note_stopped())
    world.run(world[name].cluster.stop())
    world.network.kill(name)
    world.pass_time(1.0)


def test_a_node_that_was_killed_is_gone_by_name_for_everybody_since_then() -> None:
    """As soon as it is off the list, and for as long as it is neither back nor removed."""
    world = World("a", "b", "c")
    number, boot = world["a"].number, world["a"].place.boot  # type: ignore[union-attr]
    before = world["b"].clock.wall()
    world.kill("a")
    world.pass_time(7.0)
    for asked in ("b", "c"):
        (one,) = world[asked].cluster.status().absent
        assert one == AbsentNode(number, "a", boot, Ending.GONE, one.since)
        assert one.since is not None and before < one.since <= world[asked].clock.wall()
    world.pass_time(100.0)
    assert absent(world, "b") == absent(world, "c") == [("a", Ending.GONE)]


def test_a_node_that_hung_is_gone_until_its_next_life_is_on_the_list() -> None:
    """What is noted is of a life, not of the node."""
    world = World("a", "b", "c")
    world.pause("a")
    world.pass_time(8.0)
    assert absent(world, "b") == [("a", Ending.GONE)]
    world.network.kill("a")
    world.start("a")
    assert absent(world, "b") == absent(world, "c") == []
    stop(world, "a")
    assert absent(world, "b") == [("a", Ending.STOPPED)]


def test_a_node_that_was_stopped_in_order_is_not_gone() -> None:
    """It is lacking all the same, also for who starts later."""
    world = World("a", "b", "c")
    stop(world, "a")
    assert absent(world, "b") == absent(world, "c") == [("a", Ending.STOPPED)]
    stop(world, "c")
    world.start("c")
    world.pass_time(60.0)
    assert absent(world, "b") == absent(world, "c") == [("a", Ending.STOPPED)]


def test_a_node_that_died_with_all_others_is_gone_when_it_does_not_come_back() -> None:
    """Nobody was there to see it, and it may be about to start."""
    world = World("a", "b", "c")
    for name in "abc":
        world.kill(name)
    world.pass_time(10.0)
    world.start("b")
    world.start("c")
    assert ("a", Ending.LEFT) in absent(world, "b")
    world.pass_time(30.0)
    assert absent(world, "b") == absent(world, "c") == [("a", Ending.GONE)]


def test_how_an_earlier_life_ended_says_nothing_of_a_later_one() -> None:
    """It was stopped in order once, and is away with all others now."""
    world = World("a", "b", "c")
    stop(world, "a")
    world.start("a")
    for name in "abc":
        world.kill(name)
    world.pass_time(10.0)
    world.start("b")
    assert ("a", Ending.LEFT) in absent(world, "b")


def test_a_node_that_was_removed_is_lacking_no_more() -> None:
    """Where it was removed at once, elsewhere with the next look; its number is another one's then."""
    world = World("a", "b", "c")
    world.kill("a")
    world.pass_time(60.0)
    assert world.run(world["b"].cluster.remove("a"))
    assert absent(world, "b") == []
    world.run(world["c"].cluster.look())
    assert absent(world, "c") == []
    world.start("new")
    stop(world, "new")
    assert absent(world, "b") == [("new", Ending.STOPPED)]


def test_what_was_migrated_from_a_sole_node_is_not_lacking() -> None:
    """Number 0 never comes back."""
    world = World("a", "b")
    batch = WriteBatch()
    batch.put(*known_record(Known(0, "sole (migrated)", 1, 1)))
    finish(world.grid.memory.commit(batch))
    world.run(world["a"].cluster.look())
    assert absent(world, "a") == []


def test_the_first_note_of_a_life_stays_and_that_of_a_later_one_follows() -> None:
    """Whoever is late with it may have seen less."""
    world = World()
    grid = world.grid.memory

    def noted() -> leaving.Note:
        found = finish(leaving.notes(grid))
        return found[7]  # type: ignore[index, no-any-return]

    finish(leaving.note(grid, Life(7, 3), Ending.STOPPED, 10.5))
    finish(leaving.note(grid, Life(7, 3), Ending.GONE, 20.0))
    finish(leaving.note(grid, Life(7, 2), Ending.GONE, 20.0))
    assert noted() == leaving.Note(3, 10.5, Ending.STOPPED)
    finish(leaving.note(grid, Life(7, 4), Ending.GONE, 30.0))
    assert noted() == leaving.Note(4, 30.0, Ending.GONE)


@pytest.mark.parametrize("record", [b"", b"\x10", b"\x20" + bytes(17), b"\x10" + bytes(16) + b"\x09"])
def test_a_note_of_a_later_version_is_passed_over(record: bytes) -> None:
    """Nothing is known of how that life ended."""
    world = World()
    finish(world.grid.memory.compare_and_set(CacheName.META, b"left/007", None, record))
    assert finish(leaving.notes(world.grid.memory)) == {}


def test_people_read_names_and_not_numbers(caplog: pytest.LogCaptureFixture) -> None:
    """Numbers go by the order of joining: here number 1 is node-2."""
    caplog.set_level(logging.INFO)
    world = World("node-2", "node-1", "node-3")
    answers: list[object] = []
    asked = world["node-1"].cluster.questions.ask_all("nonsense", b"", 5.0, (1,))
    world.network.kill("node-2")
    asked.addCallback(answers.append)
    world.pass_time(6.0)
    world.ensemble.pause("node-2")
    world.pass_time(9.0)
    assert answers == [{1: "node-2 gave no answer in time"}]
    (living,) = [one for one in caplog.records if one.message == "a dead node's sessions live here now"]
    assert vars(living)["node"] == "node-2"
    peers = {one.number: one.node_id for one in world["node-1"].cluster.status().peers}
    assert peers == {1: "node-2", 3: "node-3"}
