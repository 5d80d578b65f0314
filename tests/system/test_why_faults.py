"""Seeded faults, one row each: ``why`` names the cause, with the topic, the user, the address or the rule that it is.

One broker has them all. What needs a second node or a full disk stands in ``tests/unit/admin/test_why.py``, and in the
tests of the cluster.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unicodedata import normalize
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from systemkit import wire
from systemkit.access import ANONYMOUS, attempt, enter, password_of
from systemkit.certificates import Authority
from systemkit.cross import set_rules
from systemkit.dashboard import CHROMIUM, browse, buildable, person
from systemkit.gateways import Gateway
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, ServerTls
from systemkit.starting import brokers
from systemkit.users import call, put_user
from systemkit.waiting import wait_until

from iot_mqtt.app.ctl.cli import ctl
from tests.ports import free_port

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="ctl why is ours")

#: Seconds in which what has happened is known.
PATIENCE = 10.0
PASSWORD = b"not-to-be-remembered"
RULES = """\
[all]
deny publish secret/#
deny subscribe hidden/#
deny client forbidden-*
allow all #
allow gateway *
"""

Provoke = Callable[[BrokerProcess], list[Any]]


class Fault(NamedTuple):
    """What is done to a client, and what is to be found: the code, and what the sentence has."""

    client: str
    code: str
    words: tuple[str, ...]
    provoke: Callable[[BrokerProcess, str], object]
    topic: str | None = None

    def __str__(self) -> str:
        return self.client


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with users, rules, limits, TLS and gateways, whose Kafka is not there."""
    folder = tmp_path_factory.mktemp("why")
    cert, key = Authority(folder).server()
    settings = {
        "auth.chain": "[grid, anonymous]",
        "auth.acl_grid": "true",
        "mqtt.max_qos": 1,
        "mqtt.sys_interval": 0,
        "uplink.kind": "kafka",
        "uplink.kafka.bootstrap_servers": f"127.0.0.1:{free_port()}",
        "uplink.rules": "[{filter: 'up/#', to: readings}]",
        "node.drain_seconds": 1,
    }
    with brokers(folder) as start:
        broker = start(settings=settings, tls=ServerTls(cert, key))
        for user in ("alice", "carol"):
            put_user(broker, user, new=True, password=password_of(user))
        put_user(
            broker, "bob", new=True, password=password_of("bob"), client_ids=["bob-*", "alices-own", "forbidden-*"]
        )
        for user, limits in (
            ("lone", {"connections": 1}),
            ("few", {"retained_messages": 1, "message_rate": 1, "message_burst": 4}),
        ):
            put_user(broker, user, new=True, password=password_of(user), limits=limits)
        set_rules(broker, "base", RULES)
        yield broker


@pytest.fixture(scope="module", autouse=True)
def clients() -> Iterator[list[Plain]]:
    """Those that stay connected."""
    found: list[Plain] = []
    _stay.append(found)
    yield found
    _stay.clear()
    for one in found:
        one.sock.close()


_stay: list[list[Plain]] = []


def _keep(client: Plain) -> Plain:
    _stay[-1].append(client)
    return client


def _client(broker: BrokerProcess, client_id: str, **options: Any) -> Plain:
    client = Plain(broker.ports["mqtt"], version=5)
    client.connect(client_id, clean=not options.get("expiry"), **options)
    return client


def _publish(broker: BrokerProcess, topic: str, *payloads: bytes, properties: bytes = b"", qos: int = 1) -> None:
    """By somebody else, and wait until the broker has it."""
    with _client(broker, f"writer-{time.monotonic_ns()}") as writer:
        for number, payload in enumerate(payloads, 1):
            writer.send(wire.publish(topic, payload, qos=qos, packet_id=number, version=5, properties=properties))
            if qos:
                writer.expect(wire.PUBACK)
        writer.ping()


def _refused(broker: BrokerProcess, user: str, client_id: str, **options: Any) -> None:
    client, answer = attempt(broker, user, client_id, version=options.pop("version", 5), **options)
    with client:
        assert answer.reason() >= 1
        client.until_closed()


# What is done.


def _wrong_password(broker: BrokerProcess, client_id: str) -> None:
    _refused(broker, "alice", client_id, password=PASSWORD)


def _unknown_user(broker: BrokerProcess, client_id: str) -> None:
    _refused(broker, "mallory", client_id, password=PASSWORD)


def _banned(**whom: str) -> Callable[[BrokerProcess, str], None]:
    def ban(broker: BrokerProcess, client_id: str) -> None:
        said = {name: value.format(client=client_id) for name, value in whom.items()}
        status, answer = call(broker, "POST", "bans", {**said, "reason": "left the company"})
        assert status == 200, answer
        if "address" in whom:
            # The listener closes before anything is said; he was here before.
            with contextlib.suppress(AssertionError, OSError):
                _from(broker, said["address"]).connect(client_id)
        else:
            _refused(broker, whom.get("user", "alice"), client_id)

    return ban


def _banned_address(broker: BrokerProcess, client_id: str) -> None:
    _from(broker, "127.0.0.9").connect(client_id)
    _banned(address="127.0.0.9")(broker, client_id)


def _from(broker: BrokerProcess, address: str) -> Plain:
    sock = socket.create_connection(("127.0.0.1", broker.ports["mqtt"]), 5, source_address=(address, 0))
    return Plain(broker.ports["mqtt"], version=5, sock=sock)


def _denied_publish(broker: BrokerProcess, client_id: str) -> None:
    client = _keep(enter(broker, "alice", client_id))
    client.publish("secret/plans", b"x", qos=1, packet_id=1)
    assert client.expect(wire.PUBACK).reason() == 0x87


def _refused_publisher(broker: BrokerProcess, client_id: str) -> None:
    """What it has subscribed to is refused to another one."""
    _subscribed("secret/news")(broker, client_id)
    with enter(broker, "alice", "mute") as publisher:
        publisher.publish("secret/news", b"x", qos=1, packet_id=1)
        assert publisher.expect(wire.PUBACK).reason() == 0x87


def _unretained(filter: str, options: int) -> Callable[[BrokerProcess, str], None]:
    """What is retained meanwhile does not come to a session that comes back and subscribes again."""

    def subscribe(broker: BrokerProcess, client_id: str) -> None:
        client = _client(broker, client_id, expiry=600)
        client.subscribe((filter, options))
        client.disconnect()
        with _client(broker, f"keeper-{client_id}") as keeper:
            keeper.publish(f"board/{client_id}", b"x", retain=True)
            keeper.ping()
        _subscribed(filter, options, expiry=600)(broker, client_id)

    return subscribe


def _denied_subscribe(broker: BrokerProcess, client_id: str) -> None:
    client = _keep(enter(broker, "alice", client_id))
    client.send(wire.subscribe(1, [("hidden/door", 0)], version=5))
    assert client.expect(wire.SUBACK).body[-1] == 0x87


def _denied_delivery(broker: BrokerProcess, client_id: str) -> None:
    """The right is taken back while the message waits."""
    client = enter(broker, "alice", client_id, kept=True)
    client.subscribe(("late/#", 1))
    client.disconnect()
    _publish(broker, "late/order", b"x")
    set_rules(broker, "base", RULES.replace("allow all #", "deny subscribe late/order\nallow all #"))
    try:
        wait_until(lambda: not _may(broker, client_id))
        client = _keep(enter(broker, "alice", client_id, kept=True))
        client.ping()
        wait_until(lambda: "denied_delivery" in _codes(broker, client_id))
    finally:
        pass


def _may(broker: BrokerProcess, client_id: str) -> bool:
    question = {"action": "receive", "asked": "late/order", "client_id": client_id, "user": "alice"}
    return bool(call(broker, "POST", "auth/may", question)[1]["allowed"])


def _will_refused(broker: BrokerProcess, client_id: str) -> None:
    _refused(broker, "alice", client_id, will=("secret/last", b"x", 0, False))


def _taken_over(broker: BrokerProcess, client_id: str) -> None:
    first = _client(broker, client_id)
    _keep(_from(broker, "127.0.0.3")).connect(client_id)
    first.until_closed()


def _wanted_by_another(broker: BrokerProcess, client_id: str) -> None:
    _keep(enter(broker, "alice", client_id))
    _refused(broker, "bob", client_id)


def _other_session(broker: BrokerProcess, client_id: str) -> None:
    _wanted_by_another(broker, client_id)


def _not_his_name(broker: BrokerProcess, client_id: str) -> None:
    _refused(broker, "bob", client_id)


def _empty_id(broker: BrokerProcess, client_id: str) -> None:
    client = Plain(broker.ports["mqtt"], sock=_from(broker, "127.0.0.4").sock)
    client.send(wire.connect("", clean=False))
    client.until_closed()


def _window_full(broker: BrokerProcess, client_id: str) -> None:
    client = _keep(_client(broker, client_id, receive_maximum=2))
    client.subscribe(("window/x", 1))
    _publish(broker, "window/x", *[b"x"] * 5)
    client.expect(wire.PUBLISH)


def _passed_by(broker: BrokerProcess, client_id: str) -> None:
    """It acknowledges nothing; the other member of its group gets the rest."""
    members = [(client_id, 1), ("eager", 60)]
    for name, window in members:
        _keep(_client(broker, name, receive_maximum=window)).subscribe(("$share/team/work/x", 1))
    _publish(broker, "work/x", *[b"x"] * 12)


def _slow_reader(broker: BrokerProcess, client_id: str) -> None:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", broker.ports["mqtt"]))
    client = _keep(Plain(broker.ports["mqtt"], version=5, sock=sock))
    client.connect(client_id)
    client.subscribe(("slow/x", 0))
    for _ in range(8):
        _publish(broker, "slow/x", *[b"x" * 200_000] * 20, qos=0)
        if "outbox_full" in _codes(broker, client_id):
            return


def _expired(broker: BrokerProcess, client_id: str) -> None:
    _client(broker, client_id, expiry=1).disconnect()


def _purged(broker: BrokerProcess, client_id: str) -> None:
    _client(broker, client_id, expiry=600).disconnect()
    assert call(broker, "DELETE", f"sessions/{client_id}")[0] == 204


def _subscribed(filter: str, options: int = 1, **more: Any) -> Callable[[BrokerProcess, str], None]:
    def subscribe(broker: BrokerProcess, client_id: str) -> None:
        client = _keep(_client(broker, client_id, **more))
        client.subscribe((filter, options))

    return subscribe


def _near(filter: str, topic: str) -> Callable[[BrokerProcess, str], None]:
    """Somebody publishes, and nobody gets it."""

    def miss(broker: BrokerProcess, client_id: str) -> None:
        _subscribed(filter)(broker, client_id)
        _publish(broker, topic, b"x")

    return miss


def _too_large(broker: BrokerProcess, client_id: str) -> None:
    client = _keep(Plain(broker.ports["mqtt"], version=5))
    client.send(wire.connect(client_id, version=5, properties=b"\x27\x00\x00\x00\x64"))
    client.expect(wire.CONNACK)
    client.subscribe(("large/x", 1))
    _publish(broker, "large/x", b"x" * 200)


def _decomposed(broker: BrokerProcess, client_id: str) -> None:
    """Its letters are taken apart where it connects."""
    _keep(_client(broker, normalize("NFD", client_id)))


def _before(topic: str) -> Callable[[BrokerProcess, str], None]:
    """Somebody publishes, and another one subscribes when that is over."""

    def miss(broker: BrokerProcess, client_id: str) -> None:
        _publish(broker, topic, b"x")
        _subscribed(topic)(broker, client_id)

    return miss


def _retained_limit(broker: BrokerProcess, client_id: str) -> None:
    with enter(broker, "few", client_id) as client:
        for number in (1, 2):
            client.publish(f"kept/{number}", b"x", qos=1, packet_id=number, retain=True)
            client.expect(wire.PUBACK)


def _queue_full(broker: BrokerProcess, client_id: str) -> None:
    status, answer = call(broker, "POST", "limits/short", {"client": client_id, "queue_messages": 2})
    assert status == 200, answer
    time.sleep(0.2)
    client = _keep(_client(broker, client_id, receive_maximum=1))
    client.subscribe(("queue/x", 1))
    _publish(broker, "queue/x", *[b"x"] * 6)


def _bad_frame(broker: BrokerProcess, client_id: str) -> None:
    with Gateway(broker, client_id, "alice") as gateway:
        gateway.let_in()
        gateway.socket.sendall(b"\x00" * 64)
        while gateway.receive() is not None:
            pass


def _command_expired(broker: BrokerProcess, client_id: str) -> None:
    client = _client(broker, client_id, expiry=600)
    client.subscribe((f"down/{client_id}", 1))
    client.disconnect()
    status, answer = call(broker, "POST", "commands", {"target": client_id, "body": "x", "expires_in": 0.2})
    assert status == 200, answer


def _keep_alive(broker: BrokerProcess, client_id: str) -> None:
    client = _client(broker, client_id, keep_alive=1, expiry=600)
    client.until_closed()


def _old_protocol(broker: BrokerProcess, client_id: str) -> None:
    client = _from(broker, client_id)
    client.send(wire.packet(0x10, wire.text(b"MQTT") + b"\x09\x02\x00\x00" + wire.text("x")))
    client.until_closed()


def _no_tls(broker: BrokerProcess, client_id: str) -> None:
    sock = socket.create_connection(("127.0.0.1", broker.ports["mqtts"]), 5, source_address=(client_id, 0))
    with sock:
        sock.sendall(wire.connect("plain-text"))
        with contextlib.suppress(ConnectionError):
            while sock.recv(4096):
                pass


def _rate(broker: BrokerProcess, client_id: str) -> None:
    client = _keep(enter(broker, "few", client_id))
    for _ in range(8):
        client.publish("fast/x", b"x")


def _hurried(broker: BrokerProcess, client_id: str) -> None:
    """Who publishes what it gets is faster than it may."""
    _subscribed("paced/x")(broker, client_id)
    drummer = _keep(enter(broker, "few", "drummer"))
    for _ in range(60):
        drummer.publish("paced/x", b"x")


def _connections(broker: BrokerProcess, client_id: str) -> None:
    with enter(broker, "lone", "lone-first"):
        _refused(broker, "lone", client_id)


def _lowered(broker: BrokerProcess, client_id: str) -> None:
    _keep(_client(broker, client_id)).subscribe(("low/x", 2))


def _message_expired(broker: BrokerProcess, client_id: str) -> None:
    client = _client(broker, client_id, expiry=600)
    client.subscribe(("stale/x", 1))
    client.disconnect()
    _publish(broker, "stale/x", b"x", properties=b"\x02\x00\x00\x00\x01")
    time.sleep(1.3)
    client = _keep(_client(broker, client_id, expiry=600))
    client.ping()


def _offline(broker: BrokerProcess, client_id: str) -> None:
    client = _client(broker, client_id, expiry=600)
    client.subscribe(("away/x", 0))
    client.disconnect()
    _publish(broker, "away/x", b"x", qos=0)


def _rejected(broker: BrokerProcess, client_id: str) -> None:
    client = _keep(_client(broker, client_id, expiry=600))
    client.subscribe(("no/x", 1))
    _publish(broker, "no/x", b"x")
    packet_id = client.expect_publication().packet_id
    client.send(wire.packet(0x40, packet_id.to_bytes(2, "big") + b"\x83"))
    client.ping()


def _nothing(broker: BrokerProcess, client_id: str) -> None:
    """It was never here."""


FAULTS = [
    Fault("bad-password", "wrong_password", ("'alice'", "127.0.0.1:"), _wrong_password),
    Fault("no-such-user", "unknown_user", ("'mallory'", "127.0.0.1:"), _unknown_user),
    Fault("banned-id", "banned", ("client id 'banned-id'", "left the company"), _banned(client="{client}")),
    Fault("carols", "banned", ("user 'carol'", "left the company"), _banned(user="carol")),
    Fault("banned-address", "banned", ("address '127.0.0.9'", "left the company"), _banned_address),
    Fault("speaker", "denied_publish", ("'secret/plans'", "'alice'", "deny publish secret/#"), _denied_publish),
    Fault("reader", "denied_publish", ("'mute'", "'secret/news'"), _refused_publisher, "secret/news"),
    Fault("deaf", "retained_not_sent", ("'board/deaf'", "Handling 2"), _unretained("board/deaf", 0x21), "board/deaf"),
    Fault(
        "again", "retained_not_sent", ("'board/again'", "Handling 1"), _unretained("board/again", 0x11), "board/again"
    ),
    Fault("sharer", "retained_not_sent", ("is shared",), _unretained("$share/g/board/sharer", 1), "board/sharer"),
    Fault("listener", "denied_subscribe", ("'hidden/door'", "'alice'", "deny subscribe hidden/#"), _denied_subscribe),
    Fault("willful", "will_denied", ("'secret/last'", "'alice'", "deny publish secret/#"), _will_refused),
    Fault("taken", "taken_over", ("127.0.0.3:", "127.0.0.1:"), _taken_over),
    Fault("alices-own", "session_of_another_user", ("'alice'", "'bob'", "127.0.0.1:"), _wanted_by_another),
    Fault("forbidden-name", "client_id_not_allowed", ("'bob'", "'forbidden-name'", "deny client"), _not_his_name),
    Fault("127.0.0.4", "client_id_missing", ("client id is needed", "127.0.0.4:"), _empty_id),
    Fault("window", "window_full", ("2 messages were sent", "3 and 0"), _window_full),
    Fault("starved", "group_passes_by", ("its window is full", "'team'", "goes to 'eager'"), _passed_by),
    Fault("slow", "outbox_full", ("'slow/x'",), _slow_reader),
    Fault("expired", "session_expired", ("expired",), _expired),
    Fault("purged", "session_purged", ("an operator",), _purged),
    Fault(
        "case",
        "near_miss",
        ("'Plant/1/temp'", "'plant/1/temp'", "upper and lower"),
        _near("Plant/1/temp", "plant/1/temp"),
    ),
    Fault("too-late", "published_before", ("'early/x'", "before it subscribed"), _before("early/x"), "early/x"),
    Fault("form", "near_miss", ("'ofen/ku\\u0308hl'", "'ofen/k\\xfchl'"), _near("ofen/ku\u0308hl", "ofen/k\xfchl")),
    Fault("k\xfche", "looks_alike", ("'ku\\u0308he'", "'k\\xfche'"), _decomposed),
    Fault("slash", "near_miss", ("'/tank/+'", "'tank/1'", "slash"), _near("/tank/+", "tank/1")),
    Fault(
        "level",
        "no_matching_subscription",
        ("'line/+'", "'line/1/temp'", "one level more"),
        _subscribed("line/+"),
        "line/1/temp",
    ),
    Fault("echo", "no_local", ("'own/x'",), _subscribed("own/x", 0x05), "own/x"),
    Fault("small", "packet_too_large", ("'large/x'", "Maximum Packet Size"), _too_large),
    Fault("keeper", "retained_limit", ("'kept/2'", "'few'"), _retained_limit),
    Fault("queue", "queue_full", ("'queue/x'", "3 times"), _queue_full),
    Fault("gw-bad", "codec_refused", ("magic",), _bad_frame),
    Fault("robot", "command_expired", ("'robot'", "deadline"), _command_expired),
    Fault("quiet", "keep_alive", ("keep-alive", "127.0.0.1:"), _keep_alive),
    Fault("127.0.0.5", "protocol_version", ("127.0.0.5:",), _old_protocol),
    Fault("127.0.0.6", "tls_failed", ("127.0.0.6:", "mqtts"), _no_tls),
    Fault("hasty", "rate_limited", ("message_rate", "1 a second"), _rate),
    Fault("hurried", "publisher_limited", ("'drummer'", "'paced/x'", "message_rate of 1"), _hurried, "paced/x"),
    Fault("lone-second", "too_many_connections", ("'lone'", "1 connections"), _connections),
    Fault("lowered", "qos_lowered", ("'low/x'", "2 to 1"), _lowered),
    Fault("stale", "message_expired", ("'stale/x'",), _message_expired),
    Fault("away", "offline_qos0", ("'away/x'",), _offline),
    Fault("refuser", "rejected_by_client", ("refused messages",), _rejected),
    Fault("late", "denied_delivery", ("'late/order'", "deny subscribe late/order"), _denied_delivery),
    Fault("never", "never_seen", ("'never'",), _nothing),
    Fault("uplinked", "kafka_down", ("kafka", "messages wait"), _subscribed("uplinked/x")),
]

#: Of these the page of the client is opened, too.
ON_THE_PAGE = {
    *("bad-password", "banned-id", "listener", "alices-own", "window"),
    *("case", "level", "queue", "robot", "late"),
}


def _why(broker: BrokerProcess, client_id: str, topic: str | None = None) -> Any:
    asked = f"?topic={quote(topic, safe='')}" if topic else ""
    status, found = call(broker, "GET", f"clients/{quote(client_id, safe='')}/why{asked}")
    assert status == 200, found
    return found


def _codes(broker: BrokerProcess, client_id: str, topic: str | None = None) -> list[str]:
    return [one["code"] for one in _why(broker, client_id, topic)["findings"]]


def _until_said(broker: BrokerProcess, fault: Fault) -> None:
    wait_until(lambda: fault.code in _codes(broker, fault.client, fault.topic))


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_why_names_the_cause(broker: BrokerProcess, fault: Fault) -> None:
    """By its code and with what it is about; and never a password or a payload."""
    fault.provoke(broker, fault.client)
    with contextlib.suppress(AssertionError):
        wait_until(lambda: fault.code in _codes(broker, fault.client, fault.topic), PATIENCE)
    found = _why(broker, fault.client, fault.topic)
    named = [one for one in found["findings"] if one["code"] == fault.code]
    assert named, found["findings"]
    for word in fault.words:
        assert word in named[0]["text"], named
    assert PASSWORD.decode() not in str(found)
    stops = [one["code"] for one in found["findings"] if one["weight"] >= 100]
    assert not stops or fault.code in stops[:1] or named[0]["weight"] < 100, f"something else is named first: {stops}"


@pytest.mark.skipif(CHROMIUM is None or not buildable(), reason="needs Chromium, Node.js and scripts/setup.sh web")
def test_the_dashboard_says_why(broker: BrokerProcess) -> None:
    """In a real Chromium, of ten of them: the page of the client has the cause, and what it is about."""
    seen = [fault for fault in FAULTS if fault.client in ON_THE_PAGE]
    assert len(seen) == len(ON_THE_PAGE) == 10
    for fault in seen:
        if fault.code not in _codes(broker, fault.client, fault.topic):
            fault.provoke(broker, fault.client)
        _until_said(broker, fault)
    told = [{"client": one.client, "code": one.code, "words": one.words, "topic": one.topic or ""} for one in seen]
    browse("why", {**person(broker, "page-reader"), "faults": told})


def test_why_of_a_topic_names_who_gets_it_and_who_does_not(broker: BrokerProcess) -> None:
    """Subscribers, a group, who may not publish, who did, what is retained, and where the uplink takes it."""
    topic = "up/who/1"
    with _client(broker, "who-reads") as reader, _client(broker, "who-shares") as member:
        reader.subscribe(("up/who/+", 1))
        member.subscribe(("$share/team/up/#", 1))
        kept = _client(broker, "who-is-away", expiry=600)
        kept.subscribe((topic, 1))
        kept.disconnect()
        with _client(broker, "who-writes") as writer:
            writer.publish(topic, PASSWORD, qos=1, packet_id=1, retain=True)
            writer.expect(wire.PUBACK)
        wait_until(lambda: not call(broker, "GET", "clients?prefix=who-is-away")[1]["items"])
        status, found = call(broker, "GET", f"topics/{quote(topic, safe='')}/why")
        assert status == 200, found
        said = {one["client_id"]: (one["filter"], one["group"], one["connected"]) for one in found["subscribers"]}
        assert said == {
            "who-reads": ("up/who/+", None, True),
            "who-shares": ("$share/team/up/#", "team", True),
            "who-is-away": (topic, None, False),
        }
        assert found["subscriptions"] == 3
        assert [(one["client_id"], one["connected"]) for one in found["publishers"]] == [("who-writes", False)]
        assert (found["retained"]["size"], found["retained"]["publisher"]) == (len(PASSWORD), "who-writes")
        assert (found["recorded"], [one["to"] for one in found["rules"]]) == ([0, 1, 2], ["readings"])
        codes = {one["code"] for one in found["findings"]}
        assert {"uplink_rule", "kafka_down", "subscriber_away", "shared_group"} <= codes, found["findings"]
        assert "no_subscriber" not in codes
        done = CliRunner().invoke(ctl, ["--data-dir", str(broker.data_dir), "why", "--topic", topic])
        assert done.exit_code == 0, done.output
        assert "who-is-away: up/who/1 (QoS 1), not connected" in done.output
        assert PASSWORD.decode() not in done.output + str(found)


@pytest.mark.parametrize(
    ("topic", "code", "words"),
    [
        ("Hall/1", "no_subscriber", ("'hall/#'", "upper and lower")),
        ("secret/topic", "denied_publish", ("'topic-thief'", "'secret/topic'")),
        ("hidden/topic", "denied_subscribe", ("'topic-thief'", "'hidden/topic'")),
    ],
)
def test_why_of_a_topic_that_nobody_gets(broker: BrokerProcess, topic: str, code: str, words: tuple[str, ...]) -> None:
    """The nearest filter, and whoever was refused."""
    with enter(broker, "alice", "topic-thief") as client:
        client.subscribe(("hall/#", 1))
        if code == "denied_publish":
            client.publish(topic, b"x", qos=1, packet_id=1)
            client.expect(wire.PUBACK)
        elif code == "denied_subscribe":
            client.send(wire.subscribe(1, [(topic, 0)], version=5))
            client.expect(wire.SUBACK)
        status, found = call(broker, "GET", f"topics/{quote(topic, safe='')}/why")
    assert status == 200, found
    named = [one for one in found["findings"] if one["code"] == code]
    assert named and all(word in named[0]["text"] for word in words), found["findings"]
    assert call(broker, "GET", "topics/a%2F%23/why")[0] == 400


def test_why_of_a_node_that_is_drained(broker: BrokerProcess) -> None:
    """A newcomer is refused, and it is said how to go on; the last one, for all clients are sent away."""
    assert call(broker, "POST", "node/drain", {})[0] == 200
    try:
        _refused(broker, ANONYMOUS, "newcomer")
        found = _why(broker, "newcomer")["findings"]
        assert found[0]["code"] == "node_drained"
        assert "ctl node resume" in found[0]["helps"]
    finally:
        call(broker, "DELETE", "node/drain")
    done = CliRunner().invoke(ctl, ["--data-dir", str(broker.data_dir), "why", "bad-password"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("1. refused: the password is not that of user 'alice'")
    packets = done.output.partition("last packets")[2]
    assert "CONNECT" in packets
    assert PASSWORD.decode() not in done.output
