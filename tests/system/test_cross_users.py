"""The table of what one user gains of another's: nothing. One node for all rows; a cluster takes the same sessions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from systemkit import wire
from systemkit.access import attempt, enter, password_of
from systemkit.cross import NOT_AUTHORIZED, taken
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers
from systemkit.users import call, put_user

from tests.cases.cross_users import FORGED, NAMES, READS, RULES, TAKES, WRITES, Name, Take, Write

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="rules and users are configured differently there")

PROMISED, AIR = 1.0, 2.0
_serial = itertools.count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for the whole table, with users and rules of the grid."""
    with brokers(tmp_path_factory.mktemp("cross")) as start:
        node = start(settings={"auth.chain": "[grid]", "auth.acl_grid": "true"})
        for user in ("alice", "bob", "feeder"):
            put_user(node, user, new=True, password=password_of(user))
        set_rules(node, "base", RULES)
        yield node


def set_rules(broker: BrokerProcess, name: str, text: str) -> None:
    status, answer = call(broker, "POST", f"auth/rules/{name}", {"text": text})
    assert status == 200, answer


def delete_rules(broker: BrokerProcess, name: str) -> None:
    assert call(broker, "DELETE", f"auth/rules/{name}")[0] == 204


def unique(name: str) -> str:
    return f"{name}-{next(_serial)}"


@pytest.mark.parametrize("take", TAKES, ids=str)
def test_a_session_is_its_users(broker: BrokerProcess, take: Take) -> None:
    """Connected, away, with messages, with a will that waits."""
    taken(take, (broker, broker, broker), unique("same"), f"both/{unique('t')}")


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name.client_id}-{name.filter}")
def test_a_name_with_signs_reaches_no_further(broker: BrokerProcess, name: Name) -> None:
    """Whatever a client calls itself."""
    with enter(broker, "bob", name.client_id) as bob:
        bob.send(wire.subscribe(1, [(name.filter, 1)], version=5))
        assert _granted(bob) >= 0x80


def _granted(client: Plain) -> int:
    """Of one filter. A SUBSCRIBE that cannot be right is answered by closing."""
    packet = client.receive()
    if packet is None or packet.kind == wire.DISCONNECT:
        return 0x80
    assert packet.kind == wire.SUBACK
    return packet.body[-1]


@pytest.mark.parametrize("way", ["published", "retained", "as a will"])
@pytest.mark.parametrize("topic", FORGED)
def test_nobody_speaks_for_the_broker(broker: BrokerProcess, topic: str, way: str) -> None:
    """Not even who may publish everywhere."""
    if way == "as a will":
        client, answer = attempt(broker, "feeder", unique("f"), version=5, will=(topic, b"forged", 1, False))
        with client:
            assert answer.reason() == NOT_AUTHORIZED
        return
    with enter(broker, "feeder", unique("f")) as client:
        client.publish(topic, b"forged", qos=1, packet_id=1, retain=way == "retained")
        assert client.expect(wire.PUBACK).reason() == NOT_AUTHORIZED


@pytest.mark.parametrize("filter", READS)
def test_bob_subscribes_to_nothing_of_hers(broker: BrokerProcess, filter: str) -> None:
    """By wildcard, by group, from the past."""
    with enter(broker, "bob", unique("bob")) as bob:
        bob.send(wire.subscribe(1, [(filter, 1)], version=5))
        assert _granted(bob) == NOT_AUTHORIZED


@pytest.mark.parametrize("write", WRITES, ids=lambda write: f"{write.topic}-qos{write.qos}{'-retained' * write.retain}")
def test_bob_publishes_nothing_to_what_is_hers(broker: BrokerProcess, write: Write) -> None:
    """Nobody gets it, now or when subscribing later."""
    with enter(broker, "feeder", unique("f")) as feeder, enter(broker, "bob", unique("bob")) as bob:
        feeder.subscribe((write.topic, 1))
        bob.publish(write.topic, b"not his", qos=write.qos, packet_id=1 if write.qos else 0, retain=write.retain)
        if write.qos:
            answer = bob.expect(wire.PUBREC if write.qos == 2 else wire.PUBACK)
            assert answer.reason() == NOT_AUTHORIZED
        else:
            bob.ping()
        feeder.ping()
        feeder.subscribe((write.topic, 0))
        feeder.ping()


def test_rights_within_the_limits_are_there(broker: BrokerProcess) -> None:
    """The rows above do not fail for another reason: what bob may do, he can."""
    with enter(broker, "bob", unique("bob")) as bob:
        bob.subscribe(("bob/#", 1), ("both/#", 1))
        for topic, qos in (("limited/bob", 1), ("bob/x", 2), ("both/x", 1)):
            bob.publish(topic, b"his", qos=qos, packet_id=3)
            kind = wire.PUBREC if qos == 2 else wire.PUBACK
            while (packet := bob.receive()) is not None and packet.kind == wire.PUBLISH:
                pass
            assert packet is not None and (packet.kind, packet.reason() < 0x80) == (kind, True)


# --- rights that are taken back: within a second, at each place -------------------------------------------------


@pytest.fixture
def lent(broker: BrokerProcess) -> Iterator[str]:
    """A topic that bob may have, until the document is taken away."""
    topic = f"lent/{unique('t')}"
    set_rules(broker, "lent", f"[user bob]\nallow all {topic}/#\nallow all {topic}\n")
    yield topic
    call(broker, "DELETE", "auth/rules/lent")


def soon(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PROMISED + AIR
    while not true():
        assert time.monotonic() < deadline, "nothing has changed"
        time.sleep(0.02)


def filters_of(broker: BrokerProcess, client_id: str) -> list[str]:
    return [one["filter"] for one in call(broker, "GET", f"subscriptions?client_id={client_id}")[1]["items"]]


def feed(broker: BrokerProcess, topic: str, payload: bytes, *, retain: bool = False) -> None:
    with enter(broker, "feeder", unique("f")) as feeder:
        feeder.publish(topic, payload, qos=1, packet_id=1, retain=retain)
        feeder.expect(wire.PUBACK)


@pytest.mark.parametrize("form", ["{}/#", "$replay/1h/{}/#"], ids=["plain", "replay"])
def test_a_subscription_is_withdrawn(broker: BrokerProcess, lent: str, form: str) -> None:
    """And nothing more comes."""
    client_id = unique("bob")
    with enter(broker, "bob", client_id) as bob:
        bob.subscribe((form.format(lent), 1))
        delete_rules(broker, "lent")
        soon(lambda: not filters_of(broker, client_id))
        feed(broker, f"{lent}/x", b"late")
        bob.ping()


def test_a_member_of_a_group_is_sent_away(broker: BrokerProcess, lent: str) -> None:
    """What it had goes to others."""
    with enter(broker, "bob", unique("bob"), kept=True) as bob:
        bob.subscribe((f"$share/g/{lent}", 1))
        delete_rules(broker, "lent")
        assert bob.until_closed()[-1].reason() == NOT_AUTHORIZED


@pytest.mark.parametrize("version", [4, 5])
def test_what_waits_is_not_sent(broker: BrokerProcess, lent: str, version: int) -> None:
    """The session waits in the grid; its subscription and its messages are asked for again."""
    client_id = unique("bob")
    with enter(broker, "bob", client_id, version=version, kept=True) as bob:
        bob.subscribe((lent, 1), ("both/open", 1))
    feed(broker, lent, b"secret")
    feed(broker, "both/open", b"open")
    delete_rules(broker, "lent")
    back, answer = attempt(broker, "bob", client_id, version=version, clean=False, expiry=60)
    with back:
        assert answer.body[0] == 1
        assert back.expect_publication().payload == b"open"
        back.ping()
        assert filters_of(broker, client_id) == ["both/open"]


def test_a_publisher_is_refused(broker: BrokerProcess, lent: str) -> None:
    """On the connection that could a second ago."""
    with enter(broker, "bob", unique("bob")) as bob:
        bob.publish(lent, b"1", qos=1, packet_id=1)
        assert bob.expect(wire.PUBACK).reason() != NOT_AUTHORIZED
        delete_rules(broker, "lent")

        def refused() -> bool:
            bob.publish(lent, b"2", qos=1, packet_id=2)
            return bob.expect(wire.PUBACK).reason() == NOT_AUTHORIZED

        soon(refused)


@pytest.mark.parametrize("delay", [0, 1])
def test_a_will_is_not_published(broker: BrokerProcess, lent: str, delay: int) -> None:
    """At once, or after its delay."""
    with enter(broker, "feeder", unique("f")) as feeder:
        feeder.subscribe((lent, 1))
        bob = enter(broker, "bob", unique("bob"), will=(lent, b"gone", 1, False), will_delay=delay, kept=bool(delay))
        if delay:
            bob.sock.close()
        delete_rules(broker, "lent")
        bob.sock.close()
        time.sleep(delay + 0.3)
        feeder.ping()


def test_retained_messages_are_not_read(broker: BrokerProcess, lent: str) -> None:
    """By a subscription that is asked for again."""
    feed(broker, lent, b"kept", retain=True)
    with enter(broker, "bob", unique("bob")) as bob:
        bob.subscribe((lent, 1))
        assert bob.expect_publication().payload == b"kept"
        delete_rules(broker, "lent")
        bob.send(wire.subscribe(2, [(lent, 1)], version=5))
        assert _granted(bob) == NOT_AUTHORIZED


@pytest.mark.parametrize("how", ["group", "client", "address"])
def test_a_right_of_any_kind_is_taken_back(broker: BrokerProcess, how: str) -> None:
    """Taken out of a group; a rule about the client id or the address that is there no more."""
    topic, client_id = f"kind/{unique('t')}", unique("bob")
    header = {"group": "group crew", "client": f"client {client_id}", "address": "address 127.0.0.0/8"}[how]
    set_rules(broker, "kind", f"[{header}]\nallow all {topic}\n")
    put_user(broker, "bob", groups=["crew"] if how == "group" else [])
    with enter(broker, "bob", client_id) as bob:
        bob.subscribe((topic, 1))
        if how == "group":
            put_user(broker, "bob", groups=[])
        else:
            set_rules(broker, "kind", "[all]\n")
        soon(lambda: not filters_of(broker, client_id))
    delete_rules(broker, "kind")


def test_a_name_that_is_given_to_another_is_left(broker: BrokerProcess) -> None:
    """Its client is disconnected."""
    client_id = unique("lentname")
    set_rules(broker, "also", f"[user bob]\nallow client {client_id}\n")
    with enter(broker, "bob", client_id) as bob:
        delete_rules(broker, "also")
        assert bob.until_closed()[-1].reason() == NOT_AUTHORIZED


def test_a_user_who_is_disabled_is_out(broker: BrokerProcess) -> None:
    """With everything."""
    put_user(broker, "carl", new=True, password=password_of("carl"))
    with enter(broker, "carl", "carl") as carl:
        put_user(broker, "carl", enabled=False)
        assert carl.until_closed()[-1].reason() == NOT_AUTHORIZED
    client, answer = attempt(broker, "carl", "carl", version=5)
    with client:
        assert answer.reason() != 0


def test_the_table_has_its_rows() -> None:
    """What is promised."""
    assert len(TAKES) + len(NAMES) + 3 * len(FORGED) + len(READS) + len(WRITES) >= 60
