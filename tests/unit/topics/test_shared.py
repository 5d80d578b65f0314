"""Shared groups: which member gets a message, policy by policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from iot_mqtt.topics import POLICIES, HashClient, HashTopic, LeastInflight, Policy, RoundRobin, SharedGroup, Sticky
from iot_mqtt.topics.route import Route
from iot_mqtt.values import Subscription
from tests.unit.topics.receivers import Client


def group_of(policy: Policy[Client], count: int = 4) -> tuple[SharedGroup[Client], list[Client]]:
    group: SharedGroup[Client] = SharedGroup("g", "a/#", policy)
    clients = [Client(f"c{number}") for number in range(count)]
    for client in clients:
        assert group.join(Route(client, Subscription("$share/g/a/#", 1)))
    return group, clients


def anyone(_client: Client) -> bool:
    return True


def but(*absent: Client) -> Callable[[Client], bool]:
    return lambda client: client not in absent


def totals(shares: Sequence[tuple[Client, int]]) -> Counter[str]:
    return Counter({client.client_id: count for client, count in shares})


@pytest.fixture(params=sorted(POLICIES))
def policy(request: pytest.FixtureRequest) -> Policy[Client]:
    """Each policy there is."""
    return POLICIES[request.param]()


def test_only_available_members_are_picked(policy: Policy[Client]) -> None:
    """Whatever the policy would prefer."""
    group, clients = group_of(policy)
    available = but(clients[0], clients[1], clients[3])
    for number in range(20):
        assert group.pick(f"p{number}", b"t%d" % number, available) is clients[2]
        assert group.pick_many(5, f"p{number}", b"t%d" % number, available) == [(clients[2], 5)]


def test_nobody_is_picked_when_nobody_is_available(policy: Policy[Client]) -> None:
    """The caller decides what then: keep it for a member that is away, or drop it."""
    group, clients = group_of(policy)
    assert group.pick("p", b"t", but(*clients)) is None
    assert group.pick_many(3, "p", b"t", but(*clients)) == []


def test_an_emptied_group_picks_nobody(policy: Policy[Client]) -> None:
    """An older match may still name it."""
    group, clients = group_of(policy)
    group.pick("p", b"t", anyone)
    for client in clients:
        assert group.leave(client)
        assert not group.leave(client)
    assert group.pick("p", b"t", anyone) is None
    assert group.pick_many(3, "p", b"t", anyone) == []
    assert len(group) == 0


def test_a_member_that_left_is_never_picked(policy: Policy[Client]) -> None:
    """Also where it was the preferred one."""
    group, clients = group_of(policy)
    for _ in range(3):
        chosen = group.pick("p", b"t", anyone)
        assert chosen is not None
        group.leave(chosen)
        clients.remove(chosen)
        for _ in range(10):
            assert group.pick("p", b"t", anyone) in clients


def test_a_run_is_given_out_completely(policy: Policy[Client]) -> None:
    """Every message once, every member at most once, nobody with nothing."""
    group, _ = group_of(policy)
    for count in (1, 2, 3, 4, 5, 7, 100):
        shares = group.pick_many(count, "p", b"t", anyone)
        assert sum(share for _, share in shares) == count
        assert len({client for client, _ in shares}) == len(shares)
        assert all(share > 0 for _, share in shares)
    assert group.pick_many(0, "p", b"t", anyone) == []


def test_joining_again_replaces_the_options() -> None:
    """One member stays one member."""
    group, clients = group_of(RoundRobin())
    assert not group.join(Route(clients[0], Subscription("$share/g/a/#", 2)))
    assert (len(group), group.route(clients[0]).qos, group.members[clients[1]].qos) == (4, 2, 1)


def test_round_robin_takes_turns() -> None:
    """In the order of joining, and around."""
    group, clients = group_of(RoundRobin(), 3)
    assert [group.pick("p", b"t", anyone) for _ in range(7)] == [*clients, *clients, clients[0]]


def test_round_robin_is_fair_to_one_message_over_runs_of_any_length() -> None:
    """One by one and run by run count together."""
    group, _ = group_of(RoundRobin(), 7)
    seen: Counter[str] = Counter()
    for step in range(200):
        if step % 3:
            seen += totals(group.pick_many(step % 23 + 1, "p", b"t", anyone))
        else:
            chosen = group.pick("p", b"t", anyone)
            assert chosen is not None
            seen[chosen.client_id] += 1
        assert max(seen.values()) - min(seen[f"c{number}"] for number in range(7)) <= 1


def test_round_robin_stays_fair_among_those_available() -> None:
    """A member that is away does not give its turns to its neighbour alone."""
    group, clients = group_of(RoundRobin(), 4)
    seen: Counter[str] = Counter()
    for count in (1, 2, 1, 4, 3, 1, 7, 2):
        seen += totals(group.pick_many(count, "p", b"t", but(clients[1])))
    assert sorted(seen.values()) == [7, 7, 7]


def test_round_robin_keeps_its_place_when_a_member_leaves() -> None:
    """Nobody is passed over because somebody before it left."""
    group, clients = group_of(RoundRobin(), 4)
    assert group.pick_many(2, "p", b"t", anyone) == [(clients[0], 1), (clients[1], 1)]
    group.leave(clients[0])
    assert group.pick("p", b"t", anyone) is clients[2]
    group.leave(clients[3])
    assert group.pick("p", b"t", anyone) is clients[1]


def test_sticky_stays_until_its_member_is_away() -> None:
    """And then stays with the next one, even when the first is back."""
    group, clients = group_of(Sticky())
    assert {group.pick(f"p{number}", b"t", anyone) for number in range(10)} == {clients[0]}
    assert group.pick("p", b"t", but(clients[0])) is clients[1]
    assert group.pick("p", b"t", anyone) is clients[1]
    group.leave(clients[1])
    assert group.pick("p", b"t", anyone) is clients[2]


def test_hash_client_depends_on_the_publisher_only() -> None:
    """All its topics go the same way, and publishers are spread."""
    group, _ = group_of(HashClient())
    chosen = {f"p{number}": group.pick(f"p{number}", b"t", anyone) for number in range(400)}
    assert all(group.pick(publisher, b"other", anyone) is client for publisher, client in chosen.items())
    share = Counter(client.client_id for client in chosen.values() if client is not None)
    assert all(50 < share[f"c{number}"] < 150 for number in range(4))


def test_hash_topic_depends_on_the_topic_only() -> None:
    """All its publishers go the same way."""
    group, _ = group_of(HashTopic())
    chosen = [group.pick("p", b"t%d" % number, anyone) for number in range(100)]
    assert [group.pick("q", b"t%d" % number, anyone) for number in range(100)] == chosen
    assert len(set(chosen)) == 4


def test_hashing_moves_only_what_it_must() -> None:
    """A member that is away or leaves moves its own keys, one that joins takes only keys for itself."""
    group, clients = group_of(HashClient(), 6)
    keys = [f"p{number}" for number in range(200)]
    home = {key: group.pick(key, b"t", anyone) for key in keys}
    away = {key: group.pick(key, b"t", but(clients[2])) for key in keys}
    assert all(away[key] is home[key] for key in keys if home[key] is not clients[2])
    assert {key: group.pick(key, b"t", anyone) for key in keys} == home
    group.leave(clients[2])
    assert {key: group.pick(key, b"t", anyone) for key in keys} == away
    group.join(Route(clients[2], Subscription("$share/g/a/#")))
    assert {key: group.pick(key, b"t", anyone) for key in keys} == home


def test_hashing_does_not_depend_on_the_process() -> None:
    """Nodes must agree, so the choice is the same as it ever was."""
    group, _ = group_of(HashClient())
    chosen = [group.pick(f"p{number}", b"t", anyone) for number in range(8)]
    assert [client.client_id for client in chosen if client] == ["c0", "c0", "c1", "c3", "c3", "c0", "c1", "c2"]


def test_hashing_finds_a_member_beyond_the_remembered_ones() -> None:
    """The best few are only a short cut."""
    group, clients = group_of(HashTopic(), 9)
    for client in clients:
        assert group.pick("p", b"t", but(*[other for other in clients if other is not client])) is client


def test_least_inflight_prefers_the_idle_and_takes_turns_among_equals() -> None:
    """QoS 0 leaves no trace in flight, so equals are the common case."""
    group, clients = group_of(LeastInflight(), 3)
    assert [group.pick("p", b"t", anyone) for _ in range(4)] == [*clients, clients[0]]
    clients[0].inflight_count = clients[2].inflight_count = 5
    assert [group.pick("p", b"t", anyone) for _ in range(3)] == [clients[1]] * 3


def test_least_inflight_levels_a_run() -> None:
    """The emptiest are filled first, and all end within one of each other if the run is long enough."""
    group, clients = group_of(LeastInflight(), 4)
    for client, load in zip(clients, (10, 0, 3, 50), strict=True):
        client.inflight_count = load
    assert totals(group.pick_many(2, "p", b"t", anyone)) == {"c1": 2}
    assert totals(group.pick_many(5, "p", b"t", anyone)) == {"c1": 4, "c2": 1}
    shares = totals(group.pick_many(30, "p", b"t", anyone))
    assert shares.total() == 30
    ends = [shares[client.client_id] + client.inflight_count for client in clients[:3]]
    assert max(ends) - min(ends) <= 1
    assert shares["c3"] == 0
