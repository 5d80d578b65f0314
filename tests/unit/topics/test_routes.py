"""The routing table: who gets a topic, once each, and what a change of subscriptions does to what was found."""

from __future__ import annotations

import pytest

from iot_mqtt.topics import Match, Routes, Sticky, merged
from iot_mqtt.values import Subscription
from tests.unit.topics.receivers import Client


def subscribed(*pairs: tuple[Client, Subscription]) -> Routes[Client]:
    routes: Routes[Client] = Routes()
    for client, subscription in pairs:
        assert routes.subscribe(client, subscription)
    return routes


def ids(match: Match[Client]) -> list[str]:
    return sorted(route.receiver.client_id for route in match.plain)


ANN, BEN = Client("ann"), Client("ben")


def test_a_receiver_gets_what_it_subscribed_to_with_its_options() -> None:
    """One subscription: one route, and no parts to merge."""
    routes = subscribed((ANN, Subscription("a/+", 1, retain_as_published=True, identifier=7)), (BEN, Subscription("b")))
    (route,) = routes.match(b"a/x").plain
    assert (route.receiver, route.qos, route.retain_as_published, route.no_local) == (ANN, 1, True, False)
    assert (route.identifiers, route.parts) == ((7,), ())
    assert ids(routes.match(b"b")) == ["ben"]
    assert ids(routes.match(b"c")) == []


def test_overlapping_filters_of_one_receiver_are_one_route() -> None:
    """[MQTT-3.3.4-2] highest QoS; [MQTT-3.3.4-4] every identifier, here in the order of subscribing."""
    wide = Subscription("a/#", 2, identifier=9)
    exact = Subscription("a/b", 0, retain_as_published=True, identifier=3)
    other = Subscription("+/b", 1)
    routes = subscribed((ANN, wide), (BEN, wide), (ANN, exact), (ANN, other))
    match = routes.match(b"a/b")
    assert ids(match) == ["ann", "ben"]
    ann = next(route for route in match.plain if route.receiver is ANN)
    assert (ann.qos, ann.retain_as_published, ann.no_local) == (2, True, False)
    assert ann.identifiers == (9, 3)
    assert ann.parts == (wide, exact, other)
    assert next(route for route in match.plain if route.receiver is BEN).parts == ()


def test_the_same_identifier_on_two_filters_is_sent_twice() -> None:
    """Section 3.3.2.3.8: the packet carries multiple identical identifiers."""
    routes = subscribed((ANN, Subscription("a", identifier=5)), (ANN, Subscription("#", identifier=5)))
    assert routes.match(b"a").plain[0].identifiers == (5, 5)


def test_a_publisher_is_left_out_of_its_no_local_subscriptions_only() -> None:
    """[MQTT-3.8.3-3]: the other overlapping ones still deliver, with what they ask for."""
    mute = Subscription("a/#", 2, no_local=True, identifier=1)
    loud = Subscription("a/b", 1, identifier=2)
    routes = subscribed((ANN, mute), (ANN, loud))
    both = routes.match(b"a/b").plain[0]
    own = merged(both.parts, exclude_no_local=True, receiver=ANN)
    assert own is not None
    assert (own.qos, own.identifiers, own.no_local) == (1, (2,), False)
    only = routes.match(b"a/c").plain[0]
    assert (only.parts, only.no_local) == ((mute,), True)
    assert merged(only.parts, exclude_no_local=True, receiver=ANN) is None
    everything = merged(both.parts, receiver=ANN)
    assert everything is not None
    assert (everything.qos, everything.identifiers) == (both.qos, both.identifiers)


def test_subscribing_again_replaces_the_options_and_keeps_the_place() -> None:
    """[MQTT-3.8.4-3]: it is the same subscription, also in a match found before."""
    routes = subscribed((ANN, Subscription("a", 0, identifier=1)), (ANN, Subscription("#", 0, identifier=2)))
    assert routes.match(b"a").plain[0].qos == 0
    assert not routes.subscribe(ANN, Subscription("a", 2, identifier=3))
    route = routes.match(b"a").plain[0]
    assert (route.qos, route.identifiers) == (2, (3, 2))
    assert not routes.subscribe(ANN, Subscription("#", 1, identifier=4))
    assert routes.match(b"zzz").plain[0].identifiers == (4,)
    assert routes.subscription_count == 2


def test_subscribing_again_with_the_same_options_changes_nothing() -> None:
    """Clients subscribe anew at every reconnect; matches stay."""
    routes = subscribed((ANN, Subscription("a/+", 1)))
    before, version = routes.match(b"a/b"), routes.version
    assert not routes.subscribe(ANN, Subscription("a/+", 1))
    assert (routes.match(b"a/b"), routes.version) == (before, version)


@pytest.mark.parametrize("filter", ["a/b", "a/+", "#", "$share/g/a/b", "$share/g/#"])
def test_a_change_shows_in_a_topic_that_was_asked_for_before(filter: str) -> None:
    """Subscribing and unsubscribing must reach the memo, whatever the kind of filter."""
    routes: Routes[Client] = Routes()
    assert routes.match(b"a/b").weight == 1
    routes.subscribe(ANN, Subscription(filter))
    match = routes.match(b"a/b")
    assert len(match.plain) + len(match.shared) == 1
    assert routes.unsubscribe(ANN, filter)
    assert routes.match(b"a/b").weight == 1
    assert not routes.unsubscribe(ANN, filter)
    assert (routes.subscription_count, list(routes.filters())) == (0, [])


def test_a_match_survives_changes_of_other_filters() -> None:
    """Subscription churn elsewhere must not cost the busy topics their memo."""
    routes = subscribed((ANN, Subscription("busy/topic")))
    before = routes.match(b"busy/topic")
    routes.subscribe(BEN, Subscription("other"))
    routes.subscribe(BEN, Subscription("elsewhere/+"))
    routes.subscribe(BEN, Subscription("$share/g/elsewhere/x"))
    routes.drop(BEN, ["other", "elsewhere/+", "$share/g/elsewhere/x"])
    assert routes.match(b"busy/topic") is before


def test_dropping_a_receiver_removes_all_of_its_filters_and_nobody_elses() -> None:
    """Filters that it does not have are passed over."""
    filters = ["a/b", "a/+", "$share/g/a/b"]
    routes = subscribed(*[(client, Subscription(filter)) for client in (ANN, BEN) for filter in filters])
    assert ids(routes.match(b"a/b")) == ["ann", "ben"]
    routes.drop(ANN, [*filters, "never/had", "$share/h/a/b", "$share/g/never"])
    match = routes.match(b"a/b")
    assert ids(match) == ["ben"]
    assert list(match.shared[0].group.members) == [BEN]
    assert routes.subscription_count == 3
    version = routes.version
    routes.drop(ANN, filters)
    assert routes.version == version


def test_filters_are_listed_once_however_many_receivers_they_have() -> None:
    """Shared ones by group, as they are written."""
    filters = ["a", "a/+", "$share/g/a", "$share/h/a", "$share/g/x/#"]
    routes = subscribed(*[(client, Subscription(filter)) for filter in filters for client in (ANN, BEN)])
    assert sorted(routes.filters()) == sorted(filters)
    assert routes.subscription_count == 10
    assert sorted(group.name for group in routes.groups("a")) == ["g", "h"]
    assert routes.groups("a/+") == routes.groups("nobody") == ()


def test_shared_and_plain_subscriptions_of_one_receiver_are_separate() -> None:
    """[MQTT-4.8.2-4]: the group's copy is one more copy; each group and filter picks for itself."""
    routes = subscribed(
        (ANN, Subscription("a")),
        (ANN, Subscription("$share/g/a", 1)),
        (BEN, Subscription("$share/g/a", 2)),
        (BEN, Subscription("$share/h/a")),
        (BEN, Subscription("$share/g/+")),
    )
    match = routes.match(b"a")
    assert ids(match) == ["ann"]
    groups = [shared.group for shared in match.shared]
    assert sorted((group.name, group.filter) for group in groups) == [("g", "+"), ("g", "a"), ("h", "a")]
    pair = next(group for group in groups if group.full_filter == "$share/g/a")
    assert (pair.route(ANN).qos, pair.route(BEN).qos) == (1, 2)


def test_a_found_group_is_live() -> None:
    """Members come and go without touching the memo: a match names the group, not its members."""
    routes = subscribed((ANN, Subscription("$share/g/a")))
    before = routes.match(b"a")
    routes.subscribe(BEN, Subscription("$share/g/a"))
    routes.unsubscribe(ANN, "$share/g/a")
    assert routes.match(b"a") is before
    assert before.shared[0].group.pick("p", b"a", lambda _: True) is BEN


def test_new_groups_use_the_policy_that_was_asked_for() -> None:
    """The factory is called once per group."""
    made: list[Sticky[Client]] = []

    def make() -> Sticky[Client]:
        made.append(Sticky())
        return made[-1]

    routes: Routes[Client] = Routes(pick=make)
    for client in (ANN, BEN):
        routes.subscribe(client, Subscription("$share/g/a"))
        routes.subscribe(client, Subscription("$share/h/a"))
    assert len(made) == 2
    group = routes.groups("a")[0]
    assert {group.pick("p", b"a", lambda _: True) for _ in range(5)} == {ANN}


def test_a_receiver_that_is_going_is_left_out_of_whatever_matches() -> None:
    """At once, however long its subscriptions stay; what others have in the same places adds up as before."""
    filters = ("a/+", "a/#", "a/b")
    routes = subscribed(*((client, Subscription(filter)) for filter in filters for client in (ANN, BEN)))
    routes.subscribe(ANN, Subscription("only"))
    assert ids(routes.match(b"a/b")) == ["ann", "ben"]
    assert ids(routes.match(b"only")) == ["ann"]
    routes.leave(ANN)
    (route,) = routes.match(b"a/b").plain
    assert (route.receiver, len(route.parts)) == (BEN, 3)
    assert not routes.match(b"only").plain
    for filter in (*filters, "only", "never/had"):
        routes.remove_of(ANN, filter)
        assert ids(routes.match(b"a/b")) == ["ben"]
    routes.left(ANN)
    assert routes.subscription_count == 3
    assert routes.subscribe(ANN, Subscription("only"))
    assert ids(routes.match(b"only")) == ["ann"]


def test_a_group_of_one_that_is_going_is_gone_when_it_is_removed() -> None:
    """Who joins it later is found."""
    routes = subscribed((ANN, Subscription("$share/g/a")))
    assert routes.match(b"a").shared
    routes.leave(ANN)
    routes.remove_of(ANN, "$share/g/a")
    assert not routes.match(b"a").shared
    routes.subscribe(BEN, Subscription("$share/g/a"))
    (shared,) = routes.match(b"a").shared
    assert list(shared.group.members) == [BEN]


def test_sizes_follow_counts() -> None:
    """Of whatever form, and of other nodes apart."""
    routes: Routes[Client] = Routes()
    here, there = ANN, BEN
    routes.subscribe(here, Subscription("a/+"))
    routes.subscribe(here, Subscription("a/+", qos=1))
    routes.subscribe(here, Subscription("$share/group/b"))
    routes.subscribe_foreign(there, Subscription("$share/group/b"))
    routes.subscribe_foreign(there, Subscription("cc"))
    assert (routes.subscription_count, routes.subscription_size) == (4, 3 + 14 + 14 + 2)
    assert (routes.foreign_count, routes.foreign_size) == (2, 14 + 2)
    routes.unsubscribe_foreign(there, "cc")
    routes.unsubscribe_foreign(there, "nothing")
    routes.unsubscribe_foreign(there, "$share/group/b")
    assert (routes.foreign_count, routes.foreign_size) == (0, 0)
    routes.drop(here, ["a/+", "$share/group/b"])
    assert (routes.subscription_count, routes.subscription_size) == (0, 0)
