"""Where new subscriptions begin in the logs of other nodes, and which of these logs are read at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.broker.cluster.beginnings import LogEnds
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.grid import CacheName
from tests.simulation.clients import Subscriber
from tests.simulation.ledger import Broken
from tests.simulation.messaging import Weather
from tests.simulation.speed import Speed
from tests.unit.broker.plant import Plant
from tests.unit.broker.steps import called_by


def test_the_log_of_a_node_that_is_gone_is_read_after_a_restart() -> None:
    """It was cleaned up after before this life of the survivor began."""
    plant = Plant("a", "b")
    plant.subscriber("s", "a").leave()
    plant.publish("b")
    plant.leave_for_good("b")
    plant.kill("a")
    plant.wait(1.0)
    plant.again("a")
    plant.enter("s", "a")
    plant.settle()
    assert plant.came("s") == 5


@pytest.mark.parametrize("back", [False, True])
def test_a_new_subscriber_gets_nothing_of_a_node_that_was_gone(back: bool) -> None:
    """Neither while that is away nor when it comes back; what it publishes then comes."""
    plant = Plant("a", "b")
    plant.subscriber("s", "a")
    plant.publish("b")
    plant.kill("b")
    plant.kill("a")
    plant.wait(8.0)
    plant.names = ("a",)
    plant.again("a")
    plant.enter("s", "a")
    plant.subscriber("new", "a")
    if back:
        plant.names = ("a", "b")
        plant.again("b")
        plant.wait(3.0)
        plant.publish("b", 2)
    else:
        plant.wait(30.0)
    plant.settle()
    assert plant.came("new") == (2 if back else 0)


def test_a_subscription_during_a_split_begins_where_it_was_made() -> None:
    """The link says where the other's log was before it broke; the grid says where it is."""
    plant = Plant("a", "b")
    plant.subscriber("s", "a")
    plant.network.part("a", "b")
    plant.wait(3.0)
    plant.publish("b")
    plant.subscriber("new", "a")
    plant.publish("b", 3)
    plant.network.heal()
    plant.settle()
    assert plant.came("s") == 8
    assert plant.came("new") == 3


def test_what_is_under_way_between_nodes_was_published_before() -> None:
    """It is acknowledged there and comes here, where somebody else wants it, behind the SUBSCRIBE."""
    plant = Plant("a", "b")
    plant.subscriber("s", "a")
    new = plant.subscriber("new", "a", "u/#")
    plant.network.weather["b", "a"] = Weather((0.5, 0.6))
    plant.publish("b")
    assert not plant.came("s")
    new.subscribe(("t/#", 2))
    assert plant.until(lambda: "t/#" in new.subscribed, 10.0)
    plant.network.weather.clear()
    plant.publish("b", 3)
    plant.settle()
    assert plant.came("s") == 8 and plant.came("new") == 3
    life = plant.lives["a"]
    assert not sum(life.counters.dropped.values())


def test_what_comes_while_the_grid_is_asked_was_published_before() -> None:
    """Although the session has room, and has read all that was announced."""
    plant = Plant("a", "b")
    plant.subscriber("s", "a")
    new = plant.subscriber("new", "a", "u/#")
    plant.network.weather["b", "a"] = Weather((0.6, 0.7))
    plant.publish("b")
    plant.lives["a"].door.speed = Speed(0.4, 0.5)
    new.subscribe(("t/#", 2))
    plant.step(0.1)
    broker, place = plant.lives["a"].broker, plant.lives["b"].place
    assert broker is not None and place is not None
    broker.readers.elsewhere.read_on(place.number)
    plant.wait(1.0)
    assert plant.came("s") == 5 and "t/#" not in new.subscribed
    plant.lives["a"].door.speed = Speed()
    plant.network.weather.clear()
    plant.settle()
    assert "t/#" in new.subscribed and not plant.came("new")


def test_a_node_of_which_nobody_here_has_heard_has_a_log_too() -> None:
    """The grid knows it, when neither the list of members nor a link does."""
    plant = Plant("a", "b")
    plant.subscriber("s", "b")
    new = plant.enter("new", "a")
    plant.ensemble.suspend("a")
    plant.network.part("a", "b")
    plant.names = ("a", "b", "c")
    plant.start("c")
    plant.network.part("a", "c")
    assert plant.until(lambda: plant.lives["c"].ready, 4.0)
    plant.publish("c")
    new.subscribe(("t/#", 2))
    assert plant.until(lambda: bool(new.subscribed), 4.0)
    plant.ensemble.heal("a")
    plant.network.heal()
    plant.wait(3.0)
    plant.publish("c", 2)
    plant.settle()
    assert plant.came("s") == 7 and plant.came("new") == 2


def test_suback_waits_until_the_grid_has_said_where_the_logs_end() -> None:
    """And comes then, with a claim that begins there."""
    plant = Plant("a", "b")
    plant.subscriber("s", "b")
    plant.publish("b")
    new = plant.enter("new", "a")
    plant.lives["a"].door.shut = True
    new.subscribe(("t/#", 2))
    plant.wait(0.5)
    assert not new.subscribed
    plant.publish("b", 2)
    plant.lives["a"].door.shut = False
    assert plant.until(lambda: bool(new.subscribed), 5.0)
    plant.publish("b", 3)
    plant.settle()
    assert 3 <= plant.came("new") <= 5


@pytest.mark.parametrize("leave", [lambda client: client.leave(), lambda client: client.leave(politely=True)])
def test_a_subscription_whose_suback_never_came_is_whole_or_not_there(leave: Callable[[Subscriber], None]) -> None:
    """The client leaves while the grid is asked, and is back elsewhere: it is owed nothing, and gets nothing old."""
    plant = Plant("a", "b", "c")
    plant.subscriber("s", "b")
    plant.publish("b")
    new = plant.enter("new", "a")
    plant.lives["a"].door.shut = True
    new.subscribe(("t/#", 2))
    plant.wait(0.3)
    leave(new)
    plant.wait(2.0)
    plant.lives["a"].door.shut = False
    plant.wait(2.0)
    plant.subscriber("new", "c")
    plant.publish("b", 2)
    plant.settle()
    assert plant.came("new") == 2


def test_several_filters_one_after_the_other() -> None:
    """Each begins where it was asked for, and what was owed for the others before it still comes."""
    plant = Plant("a", "b")
    plant.subscriber("s", "a", "#")
    new = plant.subscriber("new", "a", "t/a")
    plant.network.part("a", "b")
    plant.wait(3.0)
    plant.publish("b", 3, "t/a")
    plant.publish("b", 3, "t/b")
    for filter in ("t/b", "t/+", "t/b"):
        new.subscribe((filter, 2))
        plant.step(0.001)
    assert plant.until(lambda: len(new.subscribed) == 3, 10.0)
    plant.publish("b", 2, "t/b")
    plant.network.heal()
    plant.settle()
    assert plant.came("new") == 5


def test_a_session_takes_its_beginnings_along() -> None:
    """To a node that reads the other log as far as an old link brought it."""
    plant = Plant("a", "b", "c")
    plant.subscriber("s", "c")
    plant.network.part("b", "c")
    plant.wait(3.0)
    plant.publish("b")
    plant.subscriber("new", "a")
    plant.enter("new", "c")
    plant.wait(1.0)
    plant.network.heal()
    plant.publish("b", 2)
    plant.settle()
    assert plant.came("s") == 7 and plant.came("new") == 2


def test_the_ledger_sees_what_is_old() -> None:
    """What finds nothing proves nothing."""
    plant = Plant("a")
    plant.subscriber("s", "a")
    plant.publish("a", 1)
    plant.ledger.asks("new", "t/#")
    with pytest.raises(Broken, match="old"):
        plant.ledger.came("new", b"p-1", 0.0, "new/1", "a")


def test_a_look_that_fails_takes_nothing_from_a_session_that_lives_elsewhere_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client has subscribed there to the same, and was told so."""
    plant = Plant("a", "b")
    place = plant.lives["a"].place
    assert place is not None
    fails: Deferred[None] = Deferred()
    look = LogEnds.look

    async def look_in_vain(self: LogEnds) -> dict[int, int]:
        if self._peers.number == place.number:
            await fails
        return await look(self)

    monkeypatch.setattr(LogEnds, "look", look_in_vain)
    client = plant.enter("s", "a")
    client.subscribe(("t/#", 2))
    plant.wait(1.0)
    assert not client.subscribed
    client.leave()
    plant.subscriber("s", "b")
    fails.errback(Unavailable("the grid does not answer"))
    plant.wait(1.0)
    assert len(plant.entries(CacheName.SUBSCRIPTIONS)) == 1
    plant.kill("b")
    plant.again("b")
    plant.enter("s", "b")
    plant.publish("b")
    plant.settle()
    assert plant.came("s") == 5


@pytest.mark.parametrize("how", ["its client leaves", "its link breaks", "it moves"])
def test_what_somebody_found_of_a_log_has_not_been_offered_yet(how: str) -> None:
    """Where a log ends is looked up in the grid for a group, say; what is before that may be under way."""
    plant = Plant("a", "b")
    client = plant.subscriber("s", "a")
    plant.publish("b", 1)
    plant.wait(1.0)
    plant.network.weather["b", "a"] = Weather((5.0, 5.1))
    plant.publish("b")
    here, there = plant.lives["a"], plant.lives["b"]
    assert here.broker is not None and there.place is not None
    looked = Deferred.fromCoroutine(here.broker.readers.logs.reader(there.place.number))
    plant.wait(0.5)
    assert looked.called and plant.came("s") == 1
    if how == "its client leaves":
        client.leave()
        plant.wait(0.5)
    elif how == "its link breaks":
        here.broker.readers.elsewhere.stream_broken(there.place.number)
    plant.enter("s", "b" if how == "it moves" else "a")
    plant.network.weather.clear()
    plant.settle()
    assert plant.came("s") == 6


def test_a_subscription_costs_the_same_however_many_begin_with_it() -> None:
    """Each SUBSCRIBE was held against all that began before it: 10,000 of them held a node up for seconds."""
    steps = []
    for count in (50, 400):
        plant = Plant("a", "b")
        client = plant.subscriber("s", "a", "u/#")

        def ask(plant: Plant = plant, client: Subscriber = client, count: int = count) -> None:
            for number in range(count):
                client.subscribe((f"t/{number}", 1))
            assert plant.until(lambda: len(client.subscribed) == count + 1, 20.0)

        steps.append(len(called_by(ask)) / count)
    assert steps[1] < 1.1 * steps[0]
