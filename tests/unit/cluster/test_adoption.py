"""What dead nodes leave is taken over: by one survivor, also when that one dies, and by the node's own next life."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.cluster.adoption import CLEANED
from iot_mqtt.cluster.joining import Known, NoNumber, Place, enter, join, known_nodes, note_cleaned, remove
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.ports.cluster import Claim, Interest
from iot_mqtt.ports.cluster_status import NotGone
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from tests.simulation.sharedgrid import GridDoor, SharedGrid, finish
from tests.unit.cluster.nodekit import Life, World


def populate(life: Life, count: int) -> set[str]:
    """Clients whose home it is."""
    names = {f"{life.name}-{number}" for number in range(count)}
    for name in sorted(names):
        life.begin_claim(name)
    life.world.pass_time(1.0)
    return names


def store_route(life: Life, filter: str) -> None:
    """As the broker does it for what it keeps."""
    batch = WriteBatch()
    batch.put(CacheName.ROUTES, bytes((life.number,)) + filter.encode(), b"\x10")
    life.world.run(life.door.commit(batch))


def test_the_sessions_of_a_dead_node_are_adopted_once() -> None:
    """Two survivors race for it; every client has one owner, which its record names."""
    for seed in range(10):
        world = World("a", "b", "c", seed=seed)
        names = populate(world["a"], 30)
        world.kill("a")
        world.pass_time(9.0)
        for name in names:
            (owner,) = world.owners(name)
            assert world[owner].number == world.home(name)
        assert sum(len(world[name].node.told("adopt")) for name in ("b", "c")) == 1
        assert all(world[name].node.told("gone") == [("gone", world["a"].number)] for name in ("b", "c"))


def test_what_a_dead_node_kept_is_removed_when_nobody_needs_it_any_more() -> None:
    """Half a minute after its sessions have a new home, everywhere, and it is noted."""
    world = World("a", "b", "c")
    a, b = world["a"], world["b"]
    a.want(Interest("t", live=True, kept=True))
    store_route(a, "t")
    populate(a, 3)
    world.kill("a")
    world.pass_time(20.0)
    assert world.grid.entries(CacheName.ROUTES)
    assert b.node.peers_want[a.number] == {"t": Interest("t", kept=True)}
    world.pass_time(25.0)
    assert not world.grid.entries(CacheName.ROUTES)
    assert all(world[name].node.peers_want[a.number] == {} for name in ("b", "c"))
    assert all(not world[name].cluster.status().dead for name in ("b", "c"))
    known = {known.number: known for known in world.run(known_nodes(b.door))}
    assert known[a.number].cleaned == known[a.number].boot


def back(world: World) -> Life:
    """Node a, while its adopter waits until nobody needs any more what its earlier life had kept."""
    populate(world["a"], 3)
    world.kill("a")
    world.pass_time(20.0)
    again = world.start("a")
    store_route(again, "new")
    return again


def back_and_dead_again(world: World) -> Life:
    """The same, and it dies once more."""
    again = back(world)
    again.want(Interest("new", kept=True))
    populate(again, 2)
    world.kill("a")
    return again


def test_what_a_node_keeps_that_is_back_is_not_removed() -> None:
    """It comes while its adopter waits until nobody needs any more what it had kept before."""
    world = World("a", "b", "c")
    store_route(world["a"], "old")
    again = back(world)
    world.pass_time(60.0)
    assert {bytes((again.number,)) + name for name in (b"old", b"new")} == set(world.grid.entries(CacheName.ROUTES))
    known = {known.number: known for known in world.run(known_nodes(again.door))}
    assert known[again.number].cleaned < again.place.boot  # type: ignore[union-attr]


def test_who_dies_again_is_adopted_again_at_once() -> None:
    """Not when the adopter has done with the earlier life, which takes half a minute."""
    world = World("a", "b", "c")
    again = back_and_dead_again(world)
    world.pass_time(9.0)
    adopters = [name for name in ("b", "c") if world[name].node.told("adopt")]
    assert world.home("a-0") in [world[name].number for name in adopters]
    assert world.home("a-0") != again.number


def test_what_a_later_life_kept_is_kept_as_long_as_that_of_an_earlier_one() -> None:
    """Nobody forgets it with what the earlier life had kept, and nobody removes it."""
    world = World("a", "b", "c")
    again = back_and_dead_again(world)
    for _ in range(35):
        world.pass_time(1.0)
        assert world.grid.entries(CacheName.ROUTES)
        assert all(world[name].node.peers_want[again.number] == {"new": Interest("new", kept=True)} for name in "bc")
    world.pass_time(15.0)
    assert not world.grid.entries(CacheName.ROUTES)
    assert all(world[name].node.peers_want[again.number] == {} for name in "bc")


def test_what_a_later_life_kept_is_not_removed_although_nobody_saw_it() -> None:
    """It came and went between two looks at the list."""
    world = World("a", "b", "c")
    store_route(world["a"], "old")
    populate(world["a"], 3)
    world.kill("a")
    world.pass_time(20.0)
    unseen = world.begin("a")
    world.run(enter(unseen.door, "a"))
    world.pass_time(19.0)
    assert world.grid.entries(CacheName.ROUTES)
    world.pass_time(90.0)
    assert not world.grid.entries(CacheName.ROUTES)


def test_who_has_missed_that_a_dead_node_is_cleaned_up_after_finds_it_out() -> None:
    """Else it would record for that node for ever."""
    world = World("a", "b", "c")
    a = world["a"]
    a.want(Interest("t", kept=True))
    store_route(a, "t")
    populate(a, 3)
    world.kill("a")
    world.until(lambda: any(world[name].node.told("adopt") for name in "bc"))
    adopter, other = "bc" if world["b"].node.told("adopt") else "cb"
    world[other].cluster._conversation.requests[CLEANED] = lambda peer, request: None
    world.until(lambda: not world[adopter].node.peers_want[a.number], 60.0)
    assert world[other].node.peers_want[a.number] != {}
    world.pass_time(60.0)
    assert world[other].node.peers_want[a.number] == {}


def test_an_adopter_that_cannot_see_the_others_removes_nothing() -> None:
    """The node may be back, or another one may be at it; it is done when the others are seen again."""
    world = World("a", "b")
    store_route(world["a"], "t")
    populate(world["a"], 3)
    world.kill("a")
    world.until(lambda: len(world["b"].node.told("adopt")) == 1)
    world.pass_time(ClusterSettings().linger - 0.5)
    world.ensemble.suspend("b")
    world.pass_time(3.0)
    assert not world["b"].over
    assert world.grid.entries(CacheName.ROUTES)
    world.ensemble.heal("b")
    world.pass_time(90.0)
    assert not world.grid.entries(CacheName.ROUTES)


def test_a_node_that_takes_its_time_to_start_is_not_fenced() -> None:
    """It has its boot long before it is in the list; who is never there is dead in the end."""
    world = World("a")
    slow = world.begin("b")
    place = world.run(enter(slow.door, "b"))
    world.kill("a")
    world.pass_time(10.0)
    world.start("a")
    world.pass_time(ClusterSettings().absent_grace - 2.0)
    assert world.grid.fenced.get(place.number, 0) < place.boot
    world.pass_time(10.0)
    assert world.grid.fenced[place.number] == place.boot


def test_the_logs_of_all_who_were_ever_there_are_read() -> None:
    """From the start, those that are cleaned up after included; also of those that come and go unseen."""
    world = World("a", "b", "c")
    numbers = {name: world[name].number for name in "abc"}
    assert world["c"].node.followed == {numbers["a"], numbers["b"]}
    world.kill("b")
    world.pass_time(60.0)
    known = {known.number: known for known in world.run(known_nodes(world["c"].door))}
    assert known[numbers["b"]].cleaned == known[numbers["b"]].boot
    world.kill("a")
    again = world.start("a")
    assert again.node.followed == {numbers["b"], numbers["c"]}
    unseen = world.run(enter(GridDoor(world.grid, again.clock), "unseen"))
    world.pass_time(60.0)
    assert unseen.number in again.node.followed


def test_if_the_adopter_dies_another_one_goes_on() -> None:
    """With the clients of the first dead node and with those of the second, at whatever moment it dies."""
    for seed in range(12):
        world = World("a", "b", "c", seed=seed)
        names = populate(world["a"], 20) | populate(world["b"], 5)
        world.kill("a")
        world.until_fenced("a")
        world.pass_time(0.002 * seed)
        world.kill("b")
        world.pass_time(40.0)
        assert all(world.owners(name) == ["c"] and world.home(name) == world["c"].number for name in names)


def test_what_cannot_be_loaded_is_loaded_again() -> None:
    """The clients belong to the adopter and to nobody else until it has them."""
    world = World("a", "b")
    names = populate(world["a"], 3)
    world["b"].node.fails_to_adopt = 2
    world.kill("a")
    world.until(lambda: world["b"].node.unread_some)
    world.pass_time(5.0)
    assert not world["b"].node.unread_some
    assert {name for name in names if world.owners(name) == ["b"]} == names


def test_an_adoption_that_the_grid_interrupts_is_finished_later() -> None:
    """Also for clients of which nobody knew whether they had been taken."""
    for seed in range(10):
        world = World("a", "b", seed=seed)
        names = populate(world["a"], 40)
        world.kill("a")
        world.until_fenced("a")
        world.pass_time(0.001 * seed)
        world["b"].door.shut = True
        world.pass_time(3.0)
        world["b"].door.shut = False
        world.pass_time(60.0)
        assert {name for name in names if world.owners(name) == ["b"]} == names


def test_what_became_of_clients_is_not_asked_for_ever() -> None:
    """The grid did not say whether they were adopted, and their node came back and took them: they may move again."""
    for seed in range(10):
        world = World("a", "b", seed=seed)
        names = populate(world["a"], 40)
        world.kill("a")
        while world["b"].number not in map(world.home, names):
            world.pass_time(0.0005)
        world.pass_time(0.0002 * seed)
        world["b"].door.shut = True
        world.pass_time(0.5)
        world.start("a")
        world.pass_time(2.0)
        world["b"].door.shut = False
        world.pass_time(60.0)
        assert {name for name in names if len(world.owners(name)) == 1} == names
        assert all(world["b"].claim(name) is Claim.TAKEN for name in sorted(names))


def test_a_claim_during_an_adoption_waits_for_it() -> None:
    """The client is loaded once, and then served."""
    for seed in range(10):
        world = World("a", "b", "c", seed=seed)
        names = sorted(populate(world["a"], 20))
        world.kill("a")
        world.until_fenced("a")
        claims = [world["b"].begin_claim(name) for name in names] + [world["c"].begin_claim(name) for name in names]
        world.pass_time(20.0)
        assert all(claims)
        for name in names:
            assert len(world.owners(name)) == 1 and world[world.owners(name)[0]].number == world.home(name)


def test_a_node_that_starts_again_finds_its_clients() -> None:
    """Those that nobody else has taken; whoever is faster has them, and nobody loses any."""
    for seed, wait in enumerate((0.0, 2.0, 5.99, 6.0, 6.005, 6.01, 6.02, 6.05, 8.0)):
        world = World("a", "b", seed=seed)
        names = populate(world["a"], 20)
        number = world["a"].number
        world.kill("a")
        world.pass_time(wait)
        world.start("a")
        world.pass_time(5.0)
        assert world["a"].number == number
        for name in names:
            (owner,) = world.owners(name)
            assert world[owner].number == world.home(name)


def test_a_node_alone_finds_everything_again() -> None:
    """After all have gone: its own clients at once, those of others when it is sure that they do not come."""
    world = World("a", "b")
    mine, others = populate(world["a"], 5), populate(world["b"], 5)
    world.kill("a")
    world.kill("b")
    world.pass_time(30.0)
    world.start("a")
    assert world["a"].node.sessions == mine
    world.pass_time(25.0)
    assert world["a"].node.sessions == mine | others
    assert ("gone", world["b"].number) in world["a"].node.entries


def test_a_client_of_a_node_that_died_before_this_one_began_is_taken_after_a_moment() -> None:
    """It might have been about to appear."""
    world = World("a", "b")
    world["b"].claim("c")
    world.kill("a")
    world.kill("b")
    world.pass_time(30.0)
    world.start("a")
    begun = world.clock.monotonic()
    assert world["a"].claim("c") is Claim.INHERITED
    assert 1.5 < world.clock.monotonic() - begun < 5.0


def test_while_a_node_loads_it_gives_nothing_away_and_wants_what_it_wanted() -> None:
    """Others go on recording for it; clients are told to come again."""
    world = World("a", "b")
    a = world["a"]
    a.want(Interest("t", live=True, kept=True))
    populate(a, 2)
    world.kill("a")
    world.pass_time(0.5)
    again = world.begin("a")
    again.node.wanted["t"] = Interest("t", kept=True)
    world.run(again.start(load=False))
    world.pass_time(1.0)
    assert world["b"].node.peers_want[again.number] == {"t": Interest("t", kept=True)}
    assert world["b"].claim("a-0") is Claim.REFUSED
    again.cluster.loaded()
    world.pass_time(1.0)
    assert world["b"].claim("a-0") is Claim.TAKEN


def test_a_second_process_with_the_same_node_id_ends_the_first() -> None:
    """The later one is the node."""
    world = World("a", "b")
    names = populate(world["a"], 5)
    first = world["a"]
    second = Life.__new__(Life)
    # On the same machine, with a connection of its own.
    world.network.nodes.pop("a")
    Life.__init__(second, world, "a")
    world.lives["a"] = second
    world.run(second.start())
    batch = WriteBatch()
    batch.put(CacheName.SESSIONS, b"x", b"late")
    first.door.commit_soon(batch, lambda _: None)
    world.pass_time(1.0)
    assert len(first.over) == 1 and second.number == first.number
    assert second.node.sessions == names and not world.grid.entries(CacheName.SESSIONS)


def test_numbers_are_lowest_first_and_kept() -> None:
    """And boots grow, whoever starts."""
    world = World()
    grid = world.grid.memory
    places = [finish(join(grid, name)) for name in ("x", "y", "x", "z", "y")]
    assert [(place.number, place.boot) for place in places] == [(1, 1), (2, 2), (1, 3), (3, 4), (2, 5)]  # type: ignore[attr-defined]


def test_a_number_whose_start_was_interrupted_is_given_to_the_same_node() -> None:
    """And not lost."""
    world = World()
    grid = world.grid.memory
    finish(join(grid, "x"))
    finish(grid.compare_and_set(CacheName.META, b"node/x", world.grid.entries(CacheName.META)[b"node/x"], None))
    assert finish(join(grid, "x")).number == 1  # type: ignore[attr-defined]


def test_when_all_numbers_are_taken_the_text_says_what_to_do() -> None:
    """255 nodes are the most."""
    world = World()
    grid = world.grid.memory
    for number in range(255):
        finish(join(grid, f"n{number}"))
    with pytest.raises(NoNumber, match="iot-mqtt ctl cluster remove"):
        finish(join(grid, "one-more"))


def test_the_number_of_a_removed_node_goes_to_the_next_new_one() -> None:
    """With a boot behind all of its lives, so that its log is continued; and the removed node is a new one."""
    world = World()
    grid = world.grid.memory
    for name in ("x", "y", "z"):
        finish(join(grid, name))
    finish(note_cleaned(grid, 2, 2))
    finish(remove(grid, _known(grid, "y")))
    assert [known.node_id for known in finish(known_nodes(grid))] == ["x", "", "z"]  # type: ignore[attr-defined]
    assert finish(join(grid, "new")) == Place("new", 2, 4)
    assert finish(join(grid, "y")) == Place("y", 4, 5)
    assert finish(join(grid, "new")) == Place("new", 2, 6)


def test_a_removal_that_was_interrupted_leaves_a_new_node() -> None:
    """Its own entry is still there."""
    world = World()
    grid = world.grid.memory
    finish(join(grid, "x"))
    entry = world.grid.entries(CacheName.META)[b"node/x"]
    finish(note_cleaned(grid, 1, 1))
    finish(remove(grid, _known(grid, "x")))
    finish(grid.compare_and_set(CacheName.META, b"node/x", None, entry))
    assert finish(join(grid, "other")) == Place("other", 1, 2)
    assert finish(join(grid, "x")) == Place("x", 2, 3)


def test_only_a_node_that_is_cleaned_up_after_is_removed() -> None:
    """Nor is one that has started meanwhile."""
    world = World()
    grid = world.grid.memory
    finish(join(grid, "x"))
    with pytest.raises(NotGone, match="x has left sessions"):
        finish(remove(grid, _known(grid, "x")))
    finish(note_cleaned(grid, 1, 1))
    known = _known(grid, "x")
    finish(join(grid, "x"))
    with pytest.raises(NotGone, match="x has just started"):
        finish(remove(grid, known))
    assert finish(join(grid, "x")).number == 1  # type: ignore[attr-defined]


def _known(grid: Grid, name: str) -> Known:
    known: list[Known] = finish(known_nodes(grid))  # type: ignore[assignment]
    (found,) = [one for one in known if one.node_id == name]
    return found


def test_many_that_join_at_once_get_different_numbers_and_boots() -> None:
    """Compare-and-set gives them out."""
    world = World(seed=3)
    lives = [world.begin(f"n{number}") for number in range(12)]
    starts = [world.rng.random() * 0.02 for _ in lives]
    ended: list[bool] = []
    for life, at in zip(lives, starts, strict=True):
        world.clock.call_later(at, lambda life=life: _begin(life, ended))  # type: ignore[misc]
    world.until(lambda: len(ended) == len(lives))
    assert {life.number for life in lives} == set(range(1, 13))
    assert len({life.place.boot for life in lives if life.place}) == 12


def _begin(life: Life, ended: list[bool]) -> None:
    Deferred.fromCoroutine(life.start()).addCallback(lambda _: ended.append(True))


def test_the_door_of_the_world_is_shut_for_the_fenced() -> None:
    """What was on its way when the fence came either got in before it or not at all."""
    world = World()
    grid: SharedGrid = world.grid
    messaging = world.network.join("x")
    door = GridDoor(grid, messaging.clock)
    world.run(door.identify(7, 3))
    other = GridDoor(grid, messaging.clock)
    world.run(other.fence(7, 2))
    world.run(door.remove_prefix(CacheName.ROUTES, b""))
    world.run(other.fence(7, 3))
    with pytest.raises(Exception, match="fenced"):
        world.run(door.remove_prefix(CacheName.ROUTES, b""))


def test_a_node_is_dead_by_name_from_its_end_until_its_sessions_live_elsewhere() -> None:
    """Whoever is asked for one of them meanwhile knows that somebody is missing, and nobody is once they are there."""
    world = World("a", "b", "c")
    number, names = world["a"].number, populate(world["a"], 30)
    world.kill("a")

    def missing(name: str) -> bool:
        """Whether a node says that a is there, or that it is dead and who that is."""
        status = world[name].cluster.status()
        (peer,) = (peer for peer in status.peers if peer.number == number)
        return peer.member or (peer.node_id == "a" and number in status.dead)

    def elsewhere() -> bool:
        return all(world.home(name) != number for name in names)

    world.pass_time(4.5)
    while not elsewhere():
        assert missing("b")
        assert missing("c")
        world.pass_time(0.001)
    world.pass_time(1.0)
    assert not missing("b")
    assert not missing("c")
    assert not any(world[name].cluster.status().dead for name in ("b", "c"))
