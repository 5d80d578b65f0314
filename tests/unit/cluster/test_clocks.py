"""Nodes measure how far their wall clocks are apart, and say whose are wrong."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from iot_mqtt.cluster.clocks import wrong
from iot_mqtt.cluster.links import proto_v1
from iot_mqtt.cluster.links.values import Datagram, Heartbeat
from tests.simulation.messaging import Weather
from tests.unit.cluster.nodekit import Life, World


def offsets(life: Life) -> list[float | None]:
    return [peer.clock_offset for peer in life.cluster.status().peers]


def without_clocks(told: Datagram) -> Datagram:
    return replace(told, clocks=None) if isinstance(told, Heartbeat) else told


def looked(world: World) -> dict[str, dict[str, float]]:
    """Whose clocks are wrong, in everybody's eyes."""
    for life in world.lives.values():
        life.cluster.clocks.look()
    return {name: dict(life.cluster.status().clocks_wrong) for name, life in world.lives.items()}


def test_what_a_clock_is_apart_is_measured_whatever_the_way_takes() -> None:
    """The half of what the way there takes more than the way back is the error."""
    world = World("a", "b", weather=Weather(delay=(0.3, 0.5)))
    world.network.skews["b"] = 600.0
    world.pass_time(30.0)
    assert offsets(world["a"]) == [pytest.approx(600.0, abs=0.1)]
    assert offsets(world["b"]) == [pytest.approx(-600.0, abs=0.1)]


def test_the_one_that_is_wrong_is_named_everywhere_and_only_that_one(caplog: pytest.LogCaptureFixture) -> None:
    """By itself, too. The log says it once, and once when it is over."""
    world = World("a", "b", "c")
    world.network.skews["b"] = 0.7
    world.pass_time(30.0)
    assert looked(world) == {"a": {}, "b": {}, "c": {}}
    world.network.skews["c"] = -90.0
    world.pass_time(30.0)
    with caplog.at_level(logging.INFO):
        found = [looked(world) for _ in range(3)][-1]
    assert found.keys() == {"a", "b", "c"}
    assert all(one == {"c": pytest.approx(-90.0, abs=1.0)} for one in found.values())
    said = "the clock of c is 90.0 s behind those of the other nodes: see that NTP sets it"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [said] * 3
    world.network.skews["c"] = 0.0
    world.pass_time(30.0)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert looked(world) == looked(world) == {"a": {}, "b": {}, "c": {}}
    assert [record.getMessage() for record in caplog.records] == ["the clock of c agrees with the others again"] * 3


@pytest.mark.parametrize("steps", [(3600.0, 0.0), (-3600.0, 0.0), (350_000.0, -3600.0)])
def test_a_clock_that_is_set_is_named_with_all_of_its_error_from_the_first_word(
    caplog: pytest.LogCaptureFixture, steps: tuple[float, float]
) -> None:
    """What was seen before and after is not mixed, and nobody else is named meanwhile, at no node."""
    world = World("a", "b", "c", weather=Weather(delay=(0.001, 0.05)))
    world.pass_time(30.0)
    before = 0.0
    for step in steps:
        world.network.skews["c"] = step
        seen: list[dict[str, float]] = []
        for _ in range(40):
            world.pass_time(0.7)
            seen += looked(world).values()
        for one in seen:
            assert set(one) <= {"c"}
            assert not one or one["c"] in (pytest.approx(before, abs=0.2), pytest.approx(step, abs=0.2))
        assert seen[-3:] == [{"c": pytest.approx(step, abs=0.2)} if step else {}] * 3
        before = step
    assert len([one for one in caplog.records if "see that NTP sets it" in one.getMessage()]) == 3


def test_nothing_is_said_of_clocks_that_are_not_known() -> None:
    """Of a node that is not heard, or that speaks as before clocks were told."""
    world = World("a", "b")
    world.network.skews["b"] = 600.0
    world.pass_time(30.0)
    assert looked(world)["a"]
    world.kill("b")
    world.pass_time(5.0)
    assert (offsets(world["a"]), looked(world)["a"]) == ([None], {})


def test_a_release_that_tells_no_clock_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of its clock, nor of ours by it. That it understands is shown by ``OLDER_READS``."""
    monkeypatch.setattr(proto_v1, "write", lambda head, told, write=proto_v1.write: write(head, without_clocks(told)))
    world = World("a", "b")
    world.pass_time(30.0)
    assert offsets(world["a"]) == offsets(world["b"]) == [None]
    assert all(peer.up and peer.routes_agree for peer in world["a"].cluster.status().peers)


@pytest.mark.parametrize(
    ("clocks", "named"),
    [
        ({"a": 0.0}, {}),
        ({"a": 0.0, "b": 600.0}, {"a": -600.0, "b": 600.0}),
        ({"a": 0.0, "b": 1.9, "c": -1.9}, {}),
        ({"a": 0.0, "b": 0.1, "c": 600.0}, {"c": 599.9}),
        ({"a": 600.0, "b": 0.0, "c": 0.0}, {"a": 600.0}),
        ({"a": 0.0, "b": 0.0, "c": 0.0, "d": -60.0, "e": 600.0}, {"d": -60.0, "e": 600.0}),
        ({"a": 0.0, "b": 0.0, "c": 600.0, "d": 600.0}, {"a": -600.0, "b": -600.0, "c": 600.0, "d": 600.0}),
    ],
)
def test_wrong_is_what_the_middle_of_the_others_is_not(clocks: dict[str, float], named: dict[str, float]) -> None:
    """Where as many say one thing as another, nobody knows who is right."""
    assert wrong(clocks, ()) == pytest.approx(named)


def test_what_is_wrong_has_to_come_closer_than_it_had_to_go_apart() -> None:
    """Or a clock at the limit would be told of again and again."""
    clocks = {"a": 0.0, "b": 0.0, "c": 1.5}
    assert not wrong(clocks, ())
    assert wrong(clocks, ("c",)) == {"c": 1.5}
    assert not wrong({**clocks, "c": 0.9}, ("c",))
