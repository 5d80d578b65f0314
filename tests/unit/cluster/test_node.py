"""Nodes find each other, tell each other what they want, and hand clients over."""

from __future__ import annotations

import pytest

from iot_mqtt.cluster.departures import GONE, NOTICE, TOPIC
from iot_mqtt.cluster.joining import NoNumber
from iot_mqtt.cluster.links import Routes
from iot_mqtt.cluster.translation import interest_out
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.cluster import Claim, Forwarded, Interest
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.registry import Member
from iot_mqtt.values import CodecId, Message, Origin
from tests.simulation.messaging import Weather
from tests.unit.cluster.links.linkskit import publishes
from tests.unit.cluster.nodekit import World


def test_nodes_that_start_are_up_for_each_other() -> None:
    """Each hears of each, whatever the order they started in."""
    world = World("a", "b", "c")
    for life in world.lives.values():
        others = {one.number for one in world.lives.values()} - {life.number}
        assert {entry[1] for entry in life.node.told("up")} == others
        assert all(peer.up and peer.hears_us and peer.routes_agree for peer in life.cluster.status().peers)


def test_a_node_does_not_enter_among_nodes_that_it_cannot_talk_to() -> None:
    """It says which they are and what they speak; they go on."""
    world = World("a")
    later = world["a"]
    entry = Member("z", 9, 1, "7.0", protocols=(2, 3))
    world.run(world.ensemble.registry("z").register(entry))
    world.pass_time(0.5)
    assert not later.over
    with pytest.raises(
        NoNumber, match=r"the node z \(release 7.0\) speaks version 2, 3 of .* this node \(release 1\) version 1"
    ):
        world.start("b")


def test_what_one_wants_the_others_know() -> None:
    """Version by version, and everything for one that comes later."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    version = a.want(Interest("t", live=True), Interest("$share/g/t", members=("x", "y")))
    known: list[str] = []
    a.cluster.when_known(version, lambda: known.append("known"))
    assert not known and not a.cluster.known_by(b.number, version)
    world.pass_time(0.3)
    assert known and a.cluster.known_by(b.number, version)
    assert ("knows", b.number, version) in a.node.entries
    assert b.node.peers_want[a.number] == {
        "t": Interest("t", live=True),
        "$share/g/t": Interest("$share/g/t", members=("x", "y")),
    }
    a.want(Interest("t"))
    c = world.start("c")
    assert set(c.node.peers_want[a.number]) == {"$share/g/t"} == set(b.node.peers_want[a.number])


def test_what_a_member_wants_is_in_doubt_from_when_it_is_not_heard_until_it_has_said_all() -> None:
    """Not only until it is heard again."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    b.want(Interest("t", kept=True))
    world.pass_time(1.0)
    assert not a.node.doubts and not b.node.doubts
    world.network.part("a", "b")
    world.until(lambda: a.node.doubts)
    b.want(Interest("u", kept=True))
    world.pass_time(20.0)
    assert a.node.doubts
    world.network.heal()
    world.until(lambda: not a.node.doubts)
    assert set(a.node.peers_want[b.number]) == {"t", "u"}


def test_who_stood_still_is_in_doubt_until_it_hears_something_that_did_not_wait_for_it() -> None:
    """It does not take others for silent, and is not to take what they want for known: SUBACK waited long enough."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    world.pass_time(1.0)
    world.network.part("a", "b")
    world.pause("a")
    known: list[None] = []
    b.cluster.when_known(b.want(Interest("t", kept=True)), lambda: known.append(None))
    world.until(lambda: bool(known))
    world.resume("a")
    world.pass_time(0.01)
    assert a.node.doubts
    assert a.node.told("up", "down")[-1] == ("up", b.number)
    world.network.heal()
    world.until(lambda: not a.node.doubts)
    assert "t" in a.node.peers_want[b.number]


def test_who_stood_still_and_hears_all_is_in_doubt_for_a_moment() -> None:
    world = World("a", "b")
    a = world["a"]
    world.pass_time(1.0)
    world.pause("a")
    world.pass_time(1.3)
    world.resume("a")
    world.pass_time(0.01)
    assert a.node.doubts
    world.until(lambda: not a.node.doubts, 1.0)
    assert a.node.told("up", "down")[-1] == ("up", world["b"].number)


def test_a_node_that_is_not_heard_is_not_told_that_it_gets_what_it_wants() -> None:
    """What it had said before comes late, when a hole before it is given up. Until it is heard nothing is forwarded."""
    world = World("a", "b")
    a, b = world["a"], world["b"]

    def heard() -> bool:
        return a.node.told("up", "down")[-1] == ("up", b.number)

    world.network.cut("b", "a")
    version = b.want(Interest("t", kept=True))
    world.until(lambda: not heard())
    world.pause("b")
    late = Routes(version - 1, version, interest_out(tuple(b.node.wanted.values())))
    a.cluster._conversation.received(b.number, [late], 0)
    assert set(a.node.peers_want[b.number]) == {"t"}
    world.pass_time(1.0)
    world.resume("b")
    world.pass_time(1.0)
    assert not heard()
    assert ("knows", a.number, version) not in b.node.entries
    world.network.heal()
    world.until(lambda: ("knows", a.number, version) in b.node.entries)
    assert heard()


def test_a_member_that_wants_nothing_is_not_in_doubt_once_it_has_said_so() -> None:
    world = World("a", "b", "c")
    a = world["a"]
    world.network.part("a", "b")
    world.until(lambda: a.node.doubts)
    world.network.heal()
    world.until(lambda: not a.node.doubts)


def test_nothing_is_in_doubt_of_a_node_that_is_off_the_list() -> None:
    """Dead, or never there in this life of ours: what it keeps is known from the grid, and it takes nothing new."""
    world = World("a", "b", "c")
    a, b = world["a"], world["b"]
    world.kill("b")
    world.until(lambda: a.node.doubts)
    world.until(lambda: ("gone", b.number) in a.node.entries)
    assert not a.node.doubts
    later = world.start("d")
    assert not later.node.doubts and not a.node.doubts


def died_unheard(*names: str) -> World:
    """Node b; what it wanted is noted in the grid, which does not say it to a now."""
    world = World(*names)
    a, b = world["a"], world["b"]
    world.network.part("a", "b")
    a.node.noted[b.number] = [Interest("t", kept=True)]
    a.node.unreadable.add(b.number)
    world.kill("b")
    world.until(lambda: ("recall", b.number) in a.node.entries)
    return world


def test_what_a_node_wanted_that_left_unheard_is_in_doubt_until_it_is_read() -> None:
    """Its clients have their SUBACK, and nobody has said so here."""
    world = died_unheard("a", "b")
    a, b = world["a"], world["b"]
    assert a.node.entries.index(("gone", b.number)) < a.node.entries.index(("recall", b.number))
    world.pass_time(3.0)
    assert a.node.doubts
    assert not a.node.peers_want[b.number]
    a.node.unreadable.clear()
    world.until(lambda: not a.node.doubts)
    assert a.node.peers_want[b.number] == {"t": Interest("t", kept=True)}


def test_what_a_node_wanted_that_was_fenced_before_it_left_is_read_too() -> None:
    """Somebody took it for dead; it is fenced once, and leaves later."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    assert b.place is not None
    world.network.part("a", "b")
    world.run(a.cluster._adoption._fences.fence(b.number, b.place.boot))
    a.node.noted[b.number] = [Interest("t", kept=True)]
    world.kill("b")
    world.until(lambda: ("recall", b.number) in a.node.entries, 10.0)
    assert not a.node.doubts
    assert a.node.peers_want[b.number] == {"t": Interest("t", kept=True)}


def test_a_node_that_left_unheard_and_is_back_says_itself_what_it_wants() -> None:
    world = died_unheard("a", "b")
    a, b = world["a"], world["b"]
    world.network.heal()
    world.start("b")
    a.node.unreadable.clear()
    world.pass_time(10.0)
    assert not a.node.doubts
    assert not a.node.peers_want[b.number]


def test_a_node_that_is_heard_until_it_dies_has_said_all() -> None:
    """Nobody asks the grid."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    world.run(b.cluster.stop())
    world.until(lambda: ("gone", b.number) in a.node.entries)
    assert not a.node.doubts
    assert not a.node.told("recall")


def test_what_is_cleaned_up_after_is_in_doubt_no_more() -> None:
    """Whoever did it has said what it all wants; the answer of the grid may come later, and is old."""
    world = died_unheard("a", "b", "c")
    a, b = world["a"], world["b"]
    a.cluster._conversation.untold.cleaned(b.number)
    assert not a.node.doubts
    a.node.unreadable.clear()
    world.pass_time(10.0)
    assert not a.node.doubts
    assert not a.node.peers_want[b.number]


def test_an_ended_node_stays_on_the_list_while_the_grid_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    """It is said in one line: nothing is wrong with this node."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    world.kill("b")
    world.network.tell(TOPIC, NOTICE.pack(GONE, b.number, b.cluster.place.boot, 1))
    a.door.shut = True
    world.until(lambda: "stays on the list" in caplog.text)
    assert not [record for record in caplog.records if record.exc_info]


def test_a_node_that_starts_again_is_in_doubt_until_it_has_spoken() -> None:
    world = World("a", "b")
    a = world["a"]
    world["b"].want(Interest("t", kept=True))
    world.pass_time(1.0)
    world.kill("b")
    b = world.begin("b")
    world.run(b.start(load=False))
    world.until(lambda: not a.node.doubts)
    b.node.wanted["u"] = Interest("u", kept=True)
    b.cluster.changed([Interest("u", kept=True)])
    b.cluster.loaded()
    world.until(lambda: "u" in a.node.peers_want[b.number])
    assert not a.node.doubts


@pytest.mark.parametrize("after", [0.0, 0.1, 0.25, 0.4])
def test_who_is_not_waited_for_any_more_records_everything_by_then(after: float) -> None:
    """So what was asked for is not promised too early, whatever was lost between the two."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    world.pass_time(after)
    world.network.part("a", "b")
    doubted: list[bool] = []
    a.cluster.when_known(a.want(Interest("t", kept=True)), lambda: doubted.append(b.node.doubts))
    world.until(lambda: bool(doubted))
    assert doubted == [True]


def test_a_peer_that_does_not_answer_is_waited_for_only_so_long() -> None:
    """And that is counted."""
    world = World("a", "b")
    a = world["a"]
    world.pause("b")
    known: list[str] = []
    a.cluster.when_known(a.want(Interest("t", live=True)), lambda: known.append("known"))
    world.pass_time(3.9)
    assert not known
    world.pass_time(0.2)
    assert known and a.cluster.status().known_late == 1


def test_what_is_forwarded_comes_with_the_end_of_the_log() -> None:
    """Once, in order, with the members that were picked and who answers for it."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    run = publishes(b"t", [b"1", b"2"])
    item = Forwarded(
        run,
        b"t",
        "p",
        5.0,
        None,
        plain=True,
        members=(("$share/g/t", "x"),),
        origin=Origin("anna", CodecId("acme/1", "3")),
    )
    a.cluster.forward(b.number, item)
    a.node.end = 77
    a.cluster.flush()
    world.pass_time(0.1)
    ((_, peer, got),) = b.node.told("received")
    assert peer == a.number and got.run.wire == run.wire and got.members == item.members and got.plain
    assert got.origin == item.origin
    assert b.node.told("end")[-1] == ("end", a.number, 77)


def test_words_about_groups_keep_their_place_among_what_is_forwarded() -> None:
    """What follows a word is told after it, and what goes before it before. An answer names its question."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    references = (Reference(1 << 24, 2, 3 << 24, 4), Reference(1 << 24, 5, 6 << 24, 1))
    for name in (b"1", b"2"):
        a.cluster.forward(b.number, Forwarded(publishes(b"t", [name]), b"t", "p", 5.0))
        a.cluster.tell_group(b.number, "returned", "$share/g/t", "x", references, int(name))
    a.cluster.flush()
    world.pass_time(0.1)
    told = b.node.told("received", "group")
    assert [entry[0] for entry in told] == ["received", "group"] * 2
    assert [told[1], told[3]] == [
        ("group", a.number, "returned", "$share/g/t", "x", references, question) for question in (1, 2)
    ]


def test_a_retained_message_is_told_with_its_time() -> None:
    """The time of its expiry is the same everywhere, to the microsecond."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    message = Message(b"t", b"x", 1, retain=True, expires_at=world.clock.wall() + 60.25, publisher="p")
    a.cluster.retain(b"t", message, 9)
    a.cluster.retain(b"u", None, 10)
    world.pass_time(0.1)
    told = b.node.told("retained")
    assert [entry[1:3] + entry[4:] for entry in told] == [(a.number, b"t", 9), (a.number, b"u", 10)]
    assert abs(told[0][3].expires_at - message.expires_at) < 1e-6 and told[0][3].payload == b"x"
    assert told[1][3] is None


def test_a_node_that_is_not_heard_learns_of_it_before_the_end_moves() -> None:
    """What was published meanwhile was not forwarded: the peer must read the log, not trust the end."""
    world = World("a", "b")
    a, b = world["a"], world["b"]
    b.want(Interest("t", live=True, kept=True))
    world.pass_time(0.5)
    version = b.cluster.status().routes_version
    assert b.cluster.known_by(a.number, version)
    a.node.entries.clear()
    b.node.entries.clear()
    world.network.cut("b", "a")
    world.until(lambda: ("down", b.number) in a.node.entries)
    a.node.end = 500
    a.cluster.flush()
    world.pass_time(0.5)
    told = [entry[0] for entry in b.node.entries if entry[0] == "broken" or entry[:3] == ("end", a.number, 500)]
    assert told[:2] == ["broken", "end"]
    assert not b.cluster.known_by(a.number, version)
    assert a.node.peers_want[b.number] == {"t": Interest("t", kept=True)}
    world.network.heal()
    world.pass_time(2.5)
    assert b.cluster.known_by(a.number, version)
    assert a.node.peers_want[b.number] == {"t": Interest("t", live=True, kept=True)}


def test_in_bad_weather_both_sides_come_to_agree() -> None:
    """Losses of a third, and disorder; what is lost for good is asked for anew."""
    for seed in range(10):
        world = World("a", "b", seed=seed)
        world.network.everywhere = Weather((0.001, 0.05), loss=0.35, disorder=0.3, late=1.0)
        a, b = world["a"], world["b"]
        for number in range(30):
            a.want(Interest(f"t/{number % 7}", live=number % 3 > 0))
            world.pass_time(0.2)
        world.network.everywhere = Weather()
        world.pass_time(8.0)
        assert b.node.peers_want[a.number] == {one.filter: one for one in a.node.interest()}
        assert all(peer.routes_agree for peer in b.cluster.status().peers)


def test_a_client_moves_to_where_it_connects() -> None:
    """Its home lets go of it; nobody else has it."""
    world = World("a", "b")
    assert world["a"].claim("c") is Claim.NEW
    assert world["b"].claim("c") is Claim.TAKEN
    assert world.owners("c") == ["b"] and world.home("c") == world["b"].number
    assert world["a"].node.told("release") == [("release", "c")]
    assert world["b"].claim("c") is Claim.TAKEN


def test_a_home_keeps_its_client_from_another_user() -> None:
    """It is told whose the client is to be, and does not let go of what is somebody else's."""
    world = World("a", "b")
    assert world["a"].claim("c", owner="alice") is Claim.NEW
    world["a"].node.owners["c"] = "alice"
    for stranger in ("bob", ""):
        assert world["b"].claim("c", owner=stranger) is Claim.FOREIGN
    assert world["a"].node.told("release") == []
    assert world["b"].cluster.status().claims_refused == {"foreign": 2}
    assert world.owners("c") == ["a"]
    assert world["b"].claim("c", owner="alice") is Claim.TAKEN
    assert world.owners("c") == ["b"]


def test_a_home_of_the_version_before_is_asked_in_its_words() -> None:
    """It knows nothing of owners: there a client id is all that counts."""
    world = World("a", "b")
    world["a"].claim("c")
    del world["a"].cluster._conversation.requests["release_to"]
    assert world["b"].claim("c", owner="alice") is Claim.TAKEN
    assert world.owners("c") == ["b"]


def test_a_busy_home_is_asked_again() -> None:
    """A few times, then the client is refused."""
    world = World("a", "b")
    world["a"].claim("c")
    world["a"].node.busy.add("c")
    claim = world["b"].begin_claim("c")
    world.pass_time(0.3)
    assert not claim
    world["a"].node.busy.clear()
    world.pass_time(1.0)
    assert claim[0][0] is Claim.TAKEN
    world["b"].node.busy.add("c")
    assert world["a"].claim("c") is Claim.REFUSED
    assert world["a"].cluster.status().claims_refused == {"home_busy": 1}
    assert world.owners("c") == ["b"]


def test_a_home_that_lives_and_does_not_answer_keeps_its_client() -> None:
    """Refused, not taken."""
    world = World("a", "b")
    world["a"].claim("c")
    world["a"].node.silent = True
    assert world["b"].claim("c") is Claim.REFUSED
    assert world["b"].cluster.status().claims_refused == {"home_silent": 1}
    assert world.home("c") == world["a"].number


def test_two_who_claim_a_client_at_once_do_not_both_get_it() -> None:
    """The compare-and-set decides; the other one asks the new home."""
    for seed in range(20):
        world = World("a", "b", "c", seed=seed)
        world["a"].claim("x")
        one, two = world["b"].begin_claim("x"), world["c"].begin_claim("x")
        world.pass_time(15.0)
        assert one and two
        assert len(world.owners("x")) == 1
        assert world[world.owners("x")[0]].number == world.home("x")


def test_many_clients_of_a_dead_node_need_one_fence() -> None:
    """A storm of claims: every one is granted, and the grid is asked to fence once."""
    world = World("a", "b")
    for number in range(200):
        world["a"].begin_claim(f"c{number}")
    world.pass_time(1.0)
    world.kill("a")
    world.pass_time(5.0)
    claims = [world["b"].begin_claim(f"c{number}") for number in range(200)]
    world.pass_time(7.0)
    assert all(claim and claim[0][0] is Claim.INHERITED for claim in claims)
    assert world["b"].cluster.status().fences == 1
    assert world.grid.fenced[world["a"].number] == 1


def test_claims_wait_for_the_registry_to_say_that_a_home_is_dead() -> None:
    """Until then it may be alive: the client is told to come again."""
    world = World("a", "b")
    world["a"].claim("c")
    world.kill("a")
    assert world["b"].claim("c", 5.5) is Claim.REFUSED
    world.pass_time(2.0)
    assert world["b"].claim("c") is Claim.TAKEN
    assert world.owners("c") == ["b"]


def test_a_node_that_cannot_see_the_others_takes_nothing_new() -> None:
    """What is at home there it serves."""
    world = World("a", "b")
    world["a"].claim("mine")
    world["b"].claim("other")
    world.ensemble.suspend("a")
    world.pass_time(0.1)
    assert world["a"].suspended == [True]
    assert world["a"].claim("mine") is Claim.TAKEN
    assert world["a"].claim("other") is Claim.REFUSED
    assert world["a"].claim("new") is Claim.REFUSED
    assert world["a"].cluster.status().claims_refused == {"not_connected": 2}
    world.ensemble.heal("a")
    world.pass_time(0.5)
    assert world["a"].suspended == [True, False]
    assert world["a"].claim("other") is Claim.TAKEN


def test_a_node_that_the_registry_has_lost_ends_its_life() -> None:
    """Once; it takes nothing any more, and what it writes is not written."""
    world = World("a", "b")
    world["a"].claim("c")
    world.ensemble.expire("a")
    world.pass_time(1.0)
    assert len(world["a"].over) == 1 and "registry" in world["a"].over[0]
    assert world["a"].claim("new") is Claim.REFUSED
    world.pass_time(1.0)
    assert world.owners("c") == ["b"]


def test_a_node_that_wakes_up_after_others_took_its_place_learns_it_from_the_grid() -> None:
    """Whatever it writes is refused, even if the registry is slower to tell."""
    world = World("a", "b")
    world["a"].claim("c")
    world.pause("a")
    world.pass_time(10.0)
    assert world.home("c") == world["b"].number
    world.network.resume("a")
    claim = world["a"].begin_claim("new")
    batch = WriteBatch()
    batch.put(CacheName.SESSIONS, b"c", b"late")
    answers: list[BaseException | None] = []
    world["a"].door.commit_soon(batch, answers.append)
    world.pass_time(1.0)
    assert claim[0][0] is Claim.REFUSED and isinstance(answers[0], Unavailable)
    assert len(world["a"].over) == 1 and "fenced" in world["a"].over[0]
    assert world.home("new") is None and not world.grid.entries(CacheName.SESSIONS)


def test_a_grid_that_does_not_answer_refuses_claims() -> None:
    """Not ready is not absent."""
    world = World("a", "b")
    world["a"].door.shut = True
    assert world["a"].claim("c") is Claim.REFUSED
    assert world["a"].cluster.status().claims_refused == {"grid": 1}


def test_a_node_that_leaves_says_so() -> None:
    """The others do not wait for its session to run out."""
    world = World("a", "b")
    world["a"].claim("c")
    world.run(world["a"].cluster.stop())
    world.network.kill("a")
    world.pass_time(1.0)
    assert world.home("c") == world["b"].number and world["b"].node.told("gone") == [("gone", world["a"].number)]
