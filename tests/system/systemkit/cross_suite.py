"""The table of what one user gains of another's: nothing. Whoever has nodes for it says which ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from systemkit import scram, wire
from systemkit.access import attempt, enter, password_of
from systemkit.cross import (
    NOT_AUTHORIZED,
    Place,
    delete_rules,
    feed,
    filters_of,
    granted,
    set_rules,
    soon,
    taken,
    taken_by_gateway,
    unique,
)
from systemkit.cross_revoked import Revoked
from systemkit.gateways import Gateway
from systemkit.plain import Plain
from systemkit.process import BrokerProcess
from systemkit.users import call, delete_user, put_user
from systemkit.wire import Received
from tests.cases.cross_users import (
    FORGED,
    GATEWAY_NAMES,
    GATEWAY_TAKES,
    KINDS,
    NAMES,
    PLACES,
    READS,
    TAKES,
    WRITES,
    GatewayTake,
    Name,
    Take,
    Write,
)
from tests.doubles.gateway import LoginAnswer


class CrossUserSuite:
    """Subclass where there is a fixture ``place`` of the module: nodes that ``cross.prepare`` was called for."""

    # What is somebody's.

    @pytest.mark.parametrize("take", TAKES, ids=str)
    def test_a_session_is_its_users(self, place: Place, take: Take) -> None:
        """Connected, away, with messages, with a will that waits."""
        taken(take, place, unique("same"), f"both/{unique('t')}")

    @pytest.mark.parametrize("take", GATEWAY_TAKES, ids=str)
    def test_a_gateway_is_its_users(self, place: Place, take: GatewayTake) -> None:
        """By the port of gateways and by MQTT, and so is a session that a gateway asks for."""
        taken_by_gateway(take, place, unique("same"), f"both/{unique('t')}")

    @pytest.mark.parametrize("name", GATEWAY_NAMES)
    def test_a_gateways_name_is_a_right(self, place: Place, name: str) -> None:
        """Also while nobody has it."""
        with Gateway(place.his, name, "bert") as bert:
            answer = bert.receive()
            assert not isinstance(answer, LoginAnswer) or answer.code, answer

    @pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name.client_id}-{name.filter}")
    def test_a_name_with_signs_reaches_no_further(self, place: Place, name: Name) -> None:
        """Whatever a client calls itself."""
        with enter(place.his, "bert", name.client_id) as bert:
            bert.send(wire.subscribe(1, [(name.filter, 1)], version=5))
            assert granted(bert) >= 0x80

    @pytest.mark.parametrize("clean", [True, False])
    def test_nobody_becomes_another_by_authenticating_again(self, place: Place, clean: bool) -> None:
        """Right password and all; the connection ends, and the session stays hers."""
        client_id = unique("anna")
        with Plain(place.hers.ports["mqtt"], version=5) as client:
            assert scram.log_in(client, client_id, "anna").reason() == 0
            if not clean:
                assert scram.authenticate_again(client, "anna").body[0] == 0
            answer = scram.authenticate_again(client, "bert")
            assert (answer.kind, answer.body[0]) == (wire.DISCONNECT, NOT_AUTHORIZED)

    # What is the broker's, and what is a codec's.

    @pytest.mark.parametrize("way", ["published", "retained", "as a will"])
    @pytest.mark.parametrize("topic", FORGED)
    def test_nobody_speaks_for_the_broker(self, place: Place, topic: str, way: str) -> None:
        """Not even who may publish everywhere."""
        if way == "as a will":
            client, answer = attempt(place.his, "feeder", unique("f"), version=5, will=(topic, b"forged", 1, False))
            with client:
                assert answer.reason() == NOT_AUTHORIZED
            return
        with enter(place.his, "feeder", unique("f")) as client:
            client.publish(topic, b"forged", qos=1, packet_id=1, retain=way == "retained")
            assert client.expect(wire.PUBACK).reason() == NOT_AUTHORIZED

    @pytest.mark.parametrize("forger", ["anna", "feeder"])
    def test_a_reading_is_what_a_codec_made(self, place: Place, forger: str) -> None:
        """Who has the right, the look and the gateway's very name makes a message, and no reading."""
        name = unique("same")
        with Gateway(place.hers, name, "anna").let_in() as real:
            real.post(1)
            wanted = {"temp": 1}
            soon(lambda: _reported(place, f"{name}/press") == wanted)
        client_id = name if forger == "anna" else unique("f")
        with enter(place.his, forger, client_id, kept=True) as client:
            body = {"gateway": name, "device": "press", "seq": 2, "values": {"temp": 999}, "codec": "gateway/1"}
            client.publish(f"up/{name}/press", json.dumps(body).encode(), qos=1, packet_id=1)
            assert client.expect(wire.PUBACK).reason() < 0x80
        time.sleep(0.3)
        assert _reported(place, f"{name}/press") == wanted

    def test_a_shadow_is_its_users(self, place: Place) -> None:
        """Its device has gone, its name is free, and the rules give him what is its name's: the shadow stays hers."""
        name = unique("same")
        with enter(place.hers, "anna", name) as anna:
            _report(anna, name, 1)
            soon(lambda: _reported(place, name) == {"temp": 1})
            anna.disconnect()
        with enter(place.his, "bert", name) as bert:
            bert.subscribe((f"shadow/{name}/refused", 1))
            told = _report(bert, name, 999) or [bert.expect(wire.PUBLISH)]
            assert [wire.publication(packet, 5).topic for packet in told] == [f"shadow/{name}/refused"]
            bert.disconnect()
        assert _reported(place, name) == {"temp": 1}
        with enter(place.hers, "anna", name) as anna:
            _report(anna, name, 2)
            soon(lambda: _reported(place, name) == {"temp": 2})

    def test_the_api_sends_in_a_users_name_what_he_may_send(self, place: Place) -> None:
        """Commands, shadows and messages, by a token that is for him, or where the order names him."""
        name = unique("same")
        scope = ["commands", "shadows", "publish", "as:bert"]
        made = call(place.third, "POST", "tokens", {"name": "of bert", "role": "operator", "scope": scope})[1]
        soon(lambda: call(place.his, "GET", "tokens?limit=1000")[1]["items"] != [])

        def asks(method: str, path: str, body: object = None) -> int:
            return call(place.his, method, path, body, token=made["token"])[0]

        with enter(place.hers, "anna", name, kept=True) as anna:
            anna.subscribe((f"down/{name}", 1), ("both/api", 1))
            order = {"target": name, "body": "x"}
            soon(lambda: asks("POST", "publish", {"topic": "both/api", "payload": "his"}) == 200)
            assert anna.expect_publication().payload == b"his"
            for path, body in (
                ("commands", order),
                ("commands", {**order, "user": "anna"}),
                ("shadows/anna-1", {"desired": {"mode": "his"}}),
                ("publish", {"topic": "anna/x", "payload": "his"}),
            ):
                assert asks("POST", path, body) == 403, path
            assert asks("DELETE", "clients/anna-1") == 403
            assert asks("GET", f"commands?target={name}") == asks("GET", f"shadows/{name}") == 403
            assert call(place.his, "POST", "commands", {**order, "user": "bert"})[0] == 403
            status, sent = call(place.his, "POST", "commands", order)
            assert status == 200, sent
            assert asks("GET", f"commands/{sent['id']}") == asks("DELETE", f"commands/{sent['id']}") == 404
            assert anna.expect_publication().payload == b"x"
        with Gateway(place.hers, "bert-gw", "bert").let_in():
            order = {"target": "bert-gw/press", "body": "x"}
            assert asks("POST", "commands", order) == 200
            # Its states are told nowhere where he may not publish himself.
            message = {"topic": "down/bert-gw/press", "payload": "x", "qos": 1}
            assert asks("POST", "publish", message) == 200
            assert asks("POST", "publish", {**message, "properties": {"response_topic": "anna/x"}}) == 403
            assert asks("POST", "commands", {**order, "response_topic": "anna/x"}) == 403

    # What the rules give.

    @pytest.mark.parametrize("filter", READS)
    def test_bert_subscribes_to_nothing_of_hers(self, place: Place, filter: str) -> None:
        """By wildcard, by group, from the past."""
        with enter(place.his, "bert", unique("bert")) as bert:
            bert.send(wire.subscribe(1, [(filter, 1)], version=5))
            assert granted(bert) == NOT_AUTHORIZED

    @pytest.mark.parametrize(
        "write", WRITES, ids=lambda write: f"{write.topic}-qos{write.qos}{'-retained' * write.retain}"
    )
    def test_bert_publishes_nothing_to_what_is_hers(self, place: Place, write: Write) -> None:
        """Nobody gets it, now or when subscribing later."""
        with enter(place.his, "feeder", unique("f")) as feeder, enter(place.his, "bert", unique("bert")) as bert:
            feeder.subscribe((write.topic, 1))
            bert.publish(write.topic, b"not his", qos=write.qos, packet_id=1 if write.qos else 0, retain=write.retain)
            if write.qos:
                answer = bert.expect(wire.PUBREC if write.qos == 2 else wire.PUBACK)
                assert answer.reason() == NOT_AUTHORIZED
            else:
                bert.ping()
            feeder.ping()
            feeder.subscribe((write.topic, 0))
            feeder.ping()

    def test_rights_within_the_limits_are_there(self, place: Place) -> None:
        """The rows above do not fail for another reason: what bert may do, he can."""
        with enter(place.his, "bert", unique("bert")) as bert:
            bert.subscribe(("bert/#", 1), ("both/#", 1))
            for topic, qos in (("limited/bert", 1), ("bert/x", 2), ("both/x", 1)):
                bert.publish(topic, b"his", qos=qos, packet_id=3)
                kind = wire.PUBREC if qos == 2 else wire.PUBACK
                while (packet := bert.receive()) is not None and packet.kind == wire.PUBLISH:
                    pass
                assert packet is not None and (packet.kind, packet.reason() < 0x80) == (kind, True)
        with Gateway(place.his, "bert-gw", "bert").let_in():
            pass

    # What is taken back: within a second, at each place.

    @pytest.fixture(scope="class")
    @classmethod
    def revoked(cls, place: Place) -> Iterator[Revoked]:
        """Somebody of each kind has something at each place, and all of it was taken back."""
        with Revoked(place) as all_of_it:
            yield all_of_it

    @pytest.mark.parametrize("where", PLACES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_what_is_taken_back_is_gone(self, revoked: Revoked, kind: str, where: str) -> None:
        """User disabled or deleted, out of a group, a rule gone, a token over."""
        revoked.check(kind, where)

    @pytest.fixture
    def lent(self, place: Place) -> Iterator[str]:
        """A topic that bert may have, until the document is taken away."""
        topic = f"lent/{unique('t')}"
        set_rules(place.third, "lent", f"[user bert]\nallow all {topic}/#\nallow all {topic}\n")
        soon(lambda: _may(place.his, topic))
        yield topic
        call(place.third, "DELETE", "auth/rules/lent")

    def test_a_replay_is_withdrawn(self, place: Place, lent: str) -> None:
        """And nothing more comes."""
        client_id = unique("bert")
        with enter(place.his, "bert", client_id, kept=True) as bert:
            bert.subscribe((f"{lent}/#", 1), (f"$replay/1h/{lent}/#", 1))
            delete_rules(place.third, "lent")
            soon(lambda: not filters_of(place.his, client_id))
            feed(place.his, f"{lent}/x", b"late")
            bert.ping()

    @pytest.mark.parametrize("version", [4, 5])
    def test_what_waits_is_not_sent(self, place: Place, lent: str, version: int) -> None:
        """The session waits in the grid; its subscription and its messages are asked for again."""
        client_id = unique("bert")
        with enter(place.his, "bert", client_id, version=version, kept=True) as bert:
            bert.subscribe((lent, 1), ("both/open", 1))
        feed(place.third, lent, b"secret")
        feed(place.third, "both/open", b"open")
        delete_rules(place.third, "lent")
        soon(lambda: not _may(place.hers, lent))
        back, answer = attempt(place.hers, "bert", client_id, version=version, clean=False, expiry=60)
        with back:
            assert answer.body[0] == 1
            assert back.expect_publication().payload == b"open"
            back.ping()
            assert filters_of(place.hers, client_id) == ["both/open"]

    @pytest.mark.parametrize("delay", [0, 1])
    def test_a_will_is_not_published(self, place: Place, lent: str, delay: int) -> None:
        """At once, or after its delay."""
        with enter(place.third, "feeder", unique("f")) as feeder:
            feeder.subscribe((lent, 1))
            will = (lent, b"gone", 1, False)
            bert = enter(place.his, "bert", unique("bert"), will=will, will_delay=delay, kept=bool(delay))
            if delay:
                bert.sock.close()
            delete_rules(place.third, "lent")
            soon(lambda: not _may(place.his, lent))
            bert.sock.close()
            time.sleep(delay + 0.3)
            feeder.ping()

    def test_retained_messages_are_not_read(self, place: Place, lent: str) -> None:
        """By a subscription that is asked for again."""
        feed(place.hers, lent, b"kept", retain=True)
        with enter(place.his, "bert", unique("bert")) as bert:
            bert.subscribe((lent, 1))
            assert bert.expect_publication().payload == b"kept"
            delete_rules(place.third, "lent")
            soon(lambda: not _may(place.his, lent))
            bert.send(wire.subscribe(2, [(lent, 1)], version=5))
            assert granted(bert) == NOT_AUTHORIZED

    @pytest.mark.parametrize("how", ["client", "address"])
    def test_a_right_of_any_kind_is_taken_back(self, place: Place, how: str) -> None:
        """A rule about the client id or the address that is there no more."""
        topic, client_id = f"kind/{unique('t')}", unique("bert")
        header = {"client": f"client {client_id}", "address": "address 127.0.0.0/8"}[how]
        set_rules(place.third, "kind", f"[{header}]\nallow all {topic}\n")
        soon(lambda: _may(place.his, topic, client_id))
        with enter(place.his, "bert", client_id) as bert:
            bert.subscribe((topic, 1))
            set_rules(place.third, "kind", "[all]\n")
            soon(lambda: not filters_of(place.his, client_id))
        delete_rules(place.third, "kind")

    def test_a_name_that_is_given_to_another_is_left(self, place: Place) -> None:
        """Its client is disconnected, and so is its gateway."""
        name = unique("lentname")
        set_rules(place.third, "also", f"[user bert]\nallow client {name}\nallow gateway gw-{name}\n")
        soon(lambda: _may(place.his, name, action="client"))
        with enter(place.his, "bert", name) as bert, Gateway(place.his, f"gw-{name}", "bert").let_in() as gateway:
            delete_rules(place.third, "also")
            assert bert.until_closed()[-1].reason() == NOT_AUTHORIZED
            while gateway.receive() is not None:
                pass

    def test_a_new_user_is_not_the_old_one_of_his_name(self, place: Place) -> None:
        """Deleted and added again: what was kept for the old one is nobody's, and his client ids are free."""
        name, client_id = unique("kurt"), unique("kurt-id")
        put_user(place.third, name, new=True, password=password_of(name))
        soon(lambda: _enters(place.hers, name))
        topic = f"lent/{name}"
        set_rules(place.third, "kurt", f"[user {name}]\nallow all {topic}\n")
        soon(lambda: _may(place.hers, topic, client_id, user=name))
        with enter(place.third, "feeder", unique("f")) as feeder:
            feeder.subscribe((f"{topic}/will", 1))
            kurt = enter(place.hers, name, client_id, kept=True)
            kurt.subscribe((topic, 1))
            kurt.sock.close()
            feed(place.third, topic, b"the old one's")
            delete_user(place.third, name)
            # Another password, by which it is known that a node has heard of both.
            put_user(place.third, name, new=True, password="the new one's")
            soon(lambda: _enters(place.his, name, b"the new one's"))
            back, answer = attempt(
                place.his, name, client_id, version=5, clean=False, expiry=60, password=b"the new one's"
            )
            with back:
                assert (answer.reason(), answer.body[0]) == (0, 0)
                back.ping()
                assert filters_of(place.his, client_id) == []
        delete_rules(place.third, "kurt")


def test_the_table_has_its_rows() -> None:
    """What is promised, at one node, at three, and by gateway."""
    assert len(TAKES) + len(NAMES) + 3 * len(FORGED) + len(READS) + len(WRITES) + len(KINDS) * len(PLACES) >= 60


def _may(
    node: BrokerProcess, asked: str, client_id: str = "bert-asks", *, user: str = "bert", action: str = "subscribe"
) -> bool:
    """Whether a node says that he may."""
    body = {"action": action, "asked": asked, "client_id": client_id, "user": user, "address": "127.0.0.1"}
    status, answer = call(node, "POST", "auth/may", body)
    assert status == 200, answer
    return bool(answer["allowed"])


def _enters(node: BrokerProcess, user: str, password: bytes | None = None) -> bool:
    client, answer = attempt(node, user, unique("probe"), version=5, password=password)
    with client:
        return answer.reason() == 0


def _report(client: Plain, target: str, value: int) -> list[Received]:
    """What came before it was acknowledged."""
    came = []
    client.publish(f"shadow/{target}/reported", json.dumps({"temp": value}).encode(), qos=1, packet_id=7)
    while (packet := client.receive()) is not None and packet.kind != wire.PUBACK:
        came.append(packet)
    assert packet is not None and packet.reason() < 0x80
    return came


def _reported(place: Place, target: str) -> dict[str, object]:
    """What a shadow says, at the node that is nobody's."""
    found = call(place.third, "GET", f"shadows/{target.replace('/', '%2F')}")[1]
    return dict(found["reported"]["values"])
