"""Users and rules at a real broker: who gets in, who may publish, subscribe and leave a will, and live changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.access import ANONYMOUS, Watcher, attempt, denied, enter, password_of, remove_user, set_password
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker, brokers

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="rules and users are configured differently there")

NOT_AUTHORIZED, BAD_USER_NAME_OR_PASSWORD = 0x87, 0x86
#: What CONNACK and SUBACK of 3.1.1 have for it.
REFUSED_3X = {NOT_AUTHORIZED: 5, BAD_USER_NAME_OR_PASSWORD: 4}
FAILURE_3X = 0x80
VERSIONS = pytest.mark.parametrize("version", [4, 5], ids=["v3.1.1", "v5"])
USERS = ("alice", "bob", "watcher", "+")
RELOAD_SECONDS = 0.1

RULES = """\
[user watcher]
allow all       #
allow all       $edge/#

[all]
deny  publish   plant/+/locked/#
allow publish   plant/#
deny  publish   plant/3/#
allow subscribe plant/+/state
deny  subscribe tank/+/level
allow subscribe tank/#
allow publish   room/open/#
deny  publish   room/#
allow publish   room/#
allow all       devices/%c/#
allow all       inbox/%c
deny  publish   box/%c/sealed
allow publish   box/#

[user alice]
allow all       up/%u/#
allow subscribe news/#
allow subscribe $edge/news
allow subscribe $SYS/broker/uptime
allow subscribe tank/1/level

[user +]
allow all       up/%u/#

[anonymous]
allow read      public/#
allow write     guestbook
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What somebody asks for, and whether it is allowed."""

    says: str
    asks: str
    allowed: bool
    user: str = "alice"
    client_id: str = "dev-1"
    #: A topic that the filter asked for matches.
    probe: str = ""

    def __str__(self) -> str:
        return self.says.replace(" ", "-")


YES, NO = True, False
PUBLISHING = [
    Case("below an allowed filter", "plant/1/heat", YES),
    Case("the level above /# itself", "plant", YES),
    Case("a name with another case is another name", "Plant/1/heat", NO),
    Case("a deny before the allow", "plant/1/locked/door", NO),
    Case("a deny behind the allow comes too late", "plant/3/heat", YES),
    Case("an exception stands before its deny", "room/open/door", YES),
    Case("what is no exception is denied", "room/shut/door", NO),
    Case("no rule means no", "nowhere", NO),
    Case("leave to subscribe is no leave to publish", "news/today", NO),
    Case("%c is the client id", "devices/dev-1/log", YES),
    Case("%c is no other client id", "devices/dev-2/log", NO),
    Case("%c as the last level", "inbox/dev-1", YES),
    Case("%c may be an anonymous client's", "devices/dev-1/log", YES, ANONYMOUS),
    Case("%u is the user", "up/alice/log", YES),
    Case("%u is no other user", "up/bob/log", NO),
    Case("%u is not the client id", "up/alice/log", NO, "bob", "alice"),
    Case("the rules of another user", "up/bob/log", NO, "bob"),
    Case("the rules of all are everybody's", "plant/1/heat", YES, "bob"),
    Case("client id + is no wildcard", "devices/dev-2/log", NO, client_id="+"),
    Case("client id # is no wildcard", "inbox/dev-2", NO, client_id="#"),
    Case("client id with a slash is not one level", "devices/dev-2/log", NO, client_id="dev-2/log"),
    Case("user + is no wildcard", "up/alice/log", NO, "+"),
    Case("a deny with %c is for that client", "box/dev-1/sealed", NO),
    Case("a deny with %c is not for others", "box/dev-2/sealed", YES),
    Case("a deny with %c covers all for client id +", "box/any/thing", NO, client_id="+"),
    Case("a topic with $ must be named", "$other/x", NO, "watcher"),
    Case("$SYS is not among #", "$SYS/broker/uptime", NO, "watcher"),
    Case("anonymous section", "guestbook", YES, ANONYMOUS),
    Case("anonymous section allows no more than it says", "public/x", NO, ANONYMOUS),
    Case("anonymous section is not for users", "guestbook", NO),
]
SUBSCRIBING = [
    Case("the filter of the rule", "plant/+/state", YES, probe="plant/1/state"),
    Case("narrower than the rule", "plant/1/state", YES, probe="plant/1/state"),
    Case("wider than the rule by #", "plant/#", NO, probe="plant/1/state"),
    Case("wider than the rule by + behind", "plant/+/+", NO, probe="plant/1/state"),
    Case("wider than the rule by + before", "+/1/state", NO, probe="plant/1/state"),
    Case("everything", "#", NO, probe="plant/1/state"),
    Case("everything by who may", "#", YES, "watcher", probe="plant/1/state"),
    Case("no rule means no", "nowhere", NO, probe="nowhere"),
    Case("leave to publish is no leave to subscribe", "box/x", NO, probe="box/x"),
    Case("beside a deny", "tank/1/colour", YES, probe="tank/1/colour"),
    Case("what a deny forbids", "tank/1/level", NO, probe="tank/1/level"),
    Case("a wildcard that meets a deny", "tank/#", NO, probe="tank/1/colour"),
    Case("a wildcard that misses the deny", "tank/+", YES, probe="tank/1"),
    Case("below what a deny forbids", "tank/1/level/raw", YES, probe="tank/1/level/raw"),
    Case("the level above /# itself", "news", YES, probe="news"),
    Case("the rules of another user", "news/#", NO, "bob", probe="news/today"),
    Case("%c is the client id", "devices/dev-1/#", YES, probe="devices/dev-1/do"),
    Case("%c is no other client id", "devices/dev-2/#", NO, probe="devices/dev-2/do"),
    Case("%c is no + for who asks", "devices/+/#", NO, probe="devices/dev-1/do"),
    Case("client id + is no wildcard", "devices/+/#", NO, client_id="+", probe="devices/dev-1/do"),
    Case("client id # is no wildcard", "inbox/#", NO, client_id="#", probe="inbox/dev-1"),
    Case("client id with a slash is not one level", "inbox/a/b", NO, client_id="a/b", probe="inbox/a/b"),
    Case("%u is the user", "up/alice/#", YES, probe="up/alice/do"),
    Case("user + is no wildcard", "up/+/#", NO, "+", probe="up/alice/do"),
    Case("shared as the filter behind it", "$share/g/plant/1/state", YES, probe="plant/1/state"),
    Case("shared and wider", "$share/g/plant/#", NO, probe="plant/1/state"),
    Case("shared and everything", "$share/g/#", NO, probe="plant/1/state"),
    Case("shared by a group named like an allowed topic", "$share/news/box/x", NO, probe="box/x"),
    Case("a topic with $ that is named", "$edge/news", YES, probe="$edge/news"),
    Case("a topic with $ that is not named", "$edge/#", NO, probe="$edge/news"),
    Case("shared and a topic with $ that is not named", "$share/g/$edge/#", NO, probe="$edge/news"),
    Case("$SYS is not among #", "$SYS/#", NO, "watcher"),
    Case("$SYS as far as it is named", "$SYS/broker/uptime", YES),
    Case("$SYS beyond what is named", "$SYS/broker/+", NO),
    Case("anonymous section", "public/#", YES, ANONYMOUS, probe="public/x"),
    Case("anonymous section allows no more than it says", "news/#", NO, ANONYMOUS, probe="news/today"),
    Case("anonymous section is not for users", "public/#", NO, probe="public/x"),
]
WILLS = [
    Case("an allowed topic", "plant/1/gone", YES),
    Case("a denied topic", "plant/1/locked/gone", NO),
    Case("no rule means no", "nowhere", NO),
    Case("%u is the user", "up/alice/gone", YES),
    Case("%c is no other client id", "devices/dev-2/gone", NO),
    Case("anonymous section", "guestbook", YES, ANONYMOUS),
    Case("anonymous section allows no more than it says", "public/gone", NO, ANONYMOUS),
]
#: User, password (None: the right one, empty: none at all), and the v5 reason or 0.
CONNECTING = {
    "the right password": ("alice", None, 0),
    "a wrong password": ("alice", b"guess", BAD_USER_NAME_OR_PASSWORD),
    "the password of somebody else": ("alice", password_of("bob").encode(), BAD_USER_NAME_OR_PASSWORD),
    "no password": ("alice", b"", BAD_USER_NAME_OR_PASSWORD),
    "an unknown user": ("mallory", b"guess", BAD_USER_NAME_OR_PASSWORD),
    "a user in another case": ("Alice", password_of("alice").encode(), BAD_USER_NAME_OR_PASSWORD),
    "no user where anonymous clients may": (ANONYMOUS, None, 0),
}


@pytest.fixture(scope="module")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The users of this module, made once: hashing is slow on purpose."""
    file = tmp_path_factory.mktemp("users") / "users"
    for user in USERS:
        set_password(file, user, password_of(user))
    return file


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, users_file: Path) -> Iterator[BrokerProcess]:
    """A broker with users and rules, for all tests that leave both alone."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "acl").write_text(RULES)
    settings = {"auth.users_file": users_file, "auth.acl_file": folder / "acl", "auth.allow_anonymous": "true"}
    with brokers(folder) as start:
        yield start(settings=settings)


@pytest.fixture(scope="module")
def watcher(guarded: BrokerProcess) -> Watcher:
    """Sees what gets through."""
    return Watcher(guarded, "watcher")


# --- getting in -------------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize("name", CONNECTING)
def test_who_gets_in(guarded: BrokerProcess, name: str, version: int) -> None:
    """The right password and nobody's; wrong ones and unknown users get the same answer and a close."""
    user, password, reason = CONNECTING[name]
    client, answer = attempt(guarded, user, "dev-1", version=version, password=password)
    with client:
        assert answer.reason() == (reason if version == 5 else REFUSED_3X.get(reason, 0))
        if reason:
            assert client.until_closed() == []
        else:
            client.ping()


@VERSIONS
def test_nobody_gets_in_without_a_name_where_anonymous_clients_may_not(
    start_broker: StartBroker, users_file: Path, version: int
) -> None:
    """With a users file and nothing said about anonymous clients, they are refused as not authorised."""
    broker = start_broker(settings={"auth.users_file": users_file})
    client, answer = attempt(broker, ANONYMOUS, "dev-1", version=version)
    with client:
        assert answer.reason() == (NOT_AUTHORIZED if version == 5 else REFUSED_3X[NOT_AUTHORIZED])
        assert client.until_closed() == []
    enter(broker, "alice", "dev-1", version=version).disconnect()


# --- publishing ---------------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2], ids=["qos0", "qos1", "qos2"])
@pytest.mark.parametrize("case", PUBLISHING, ids=str)
def test_who_may_publish_where(guarded: BrokerProcess, watcher: Watcher, case: Case, qos: int, version: int) -> None:
    """Allowed: acknowledged and delivered. Denied: delivered to nobody, counted, told as the version can tell it."""
    before = denied(guarded, "publish")
    with enter(guarded, case.user, case.client_id, version=version) as client:
        client.publish(case.asks, b"x", qos=qos, packet_id=7)
        if case.allowed or qos == 0:
            _acknowledged(client, qos)
        elif version == 5:
            answer = client.expect(wire.PUBACK if qos == 1 else wire.PUBREC)
            assert (answer.packet_id, answer.reason()) == (7, NOT_AUTHORIZED)
            client.ping()
        else:  # a positive answer would be a lie, and there is no negative one
            assert client.until_closed() == []
    seen = [(message.topic, message.payload) for message in watcher.seen()]
    assert seen == ([(case.asks, b"x")] if case.allowed else [])
    assert denied(guarded, "publish") - before == (0 if case.allowed else 1)


def _acknowledged(client: Plain, qos: int) -> None:
    """The exchange takes its course; the connection lives on."""
    if qos == 1:
        answer = client.expect(wire.PUBACK)
        assert (answer.packet_id, answer.reason()) == (7, 0)
    elif qos == 2:
        answer = client.expect(wire.PUBREC)
        assert (answer.packet_id, answer.reason()) == (7, 0)
        client.send(wire.ack(wire.PUBREL, 7))
        assert client.expect(wire.PUBCOMP).packet_id == 7
    client.ping()


def test_an_id_refused_at_qos_2_is_free_for_a_new_message(guarded: BrokerProcess, watcher: Watcher) -> None:
    """[MQTT-4.3.3-9] After PUBREC 0x87 there is no PUBREL; the same id without DUP is another message."""
    with enter(guarded, "alice", "dev-1") as client:
        client.publish("nowhere", b"refused", qos=2, packet_id=7)
        assert client.expect(wire.PUBREC).reason() == NOT_AUTHORIZED
        client.publish("plant/1/heat", b"new", qos=2, packet_id=7)
        _acknowledged(client, 2)
    assert [message.payload for message in watcher.seen()] == [b"new"]


def test_a_burst_is_judged_topic_by_topic(guarded: BrokerProcess, watcher: Watcher) -> None:
    """Allowed and denied messages in one write: each its own answer, in order, and only the allowed ones arrive."""
    topics = ["plant/1/heat", "nowhere", "plant/1/heat", "plant/1/locked/door", "plant/2/heat"] * 10
    with enter(guarded, "alice", "dev-1") as client:
        frames = [
            wire.publish(topic, b"%d" % at, qos=1, packet_id=at, version=5) for at, topic in enumerate(topics, start=1)
        ]
        client.send(b"".join(frames))
        answers = [client.expect(wire.PUBACK) for _ in topics]
    good = [at for at, topic in enumerate(topics, start=1) if topic.endswith("heat")]
    assert [answer.packet_id for answer in answers] == list(range(1, len(topics) + 1))
    assert [answer.packet_id for answer in answers if answer.reason() == 0] == good
    assert {answer.reason() for answer in answers} == {0, NOT_AUTHORIZED}
    assert [message.payload for message in watcher.seen()] == [b"%d" % at for at in good]


@VERSIONS
def test_a_denied_retained_message_neither_stays_nor_removes(
    guarded: BrokerProcess, watcher: Watcher, version: int
) -> None:
    """Not retained, and an empty one leaves what is retained there alone."""
    watcher.client.publish("news/kept", b"kept", retain=True)
    with enter(guarded, "bob", "dev-1", version=version) as client:
        client.publish("news/kept", b"", retain=True)
        client.publish("news/planted", b"planted", retain=True)
        client.ping()
    with enter(guarded, "alice", "dev-2", version=version) as reader:
        reader.subscribe(("news/#", 0))
        message = reader.expect_publication()
        assert (message.topic, message.payload, message.retain) == ("news/kept", b"kept", True)
        reader.ping()
    watcher.client.publish("news/kept", b"", retain=True)
    watcher.seen()


def test_an_alias_leads_to_no_denied_topic(guarded: BrokerProcess, watcher: Watcher) -> None:
    """The verdict is about the topic that the alias stands for at that moment, not about the alias."""
    steps = [
        ("plant/1/heat", 0, b"allowed"),
        ("", 0, b"allowed again"),
        ("plant/1/locked/door", NOT_AUTHORIZED, b"denied"),
        ("", NOT_AUTHORIZED, b"denied again"),
        ("plant/2/heat", 0, b"allowed once more"),
        ("", 0, b"and more"),
    ]
    with enter(guarded, "alice", "dev-1") as client:
        for at, (topic, reason, payload) in enumerate(steps, start=1):
            alias = b"\x23\x00\x01"
            client.send(wire.publish(topic, payload, qos=1, packet_id=at, version=5, properties=alias))
            assert client.expect(wire.PUBACK).reason() == reason, payload
    seen = [(message.topic, message.payload) for message in watcher.seen()]
    assert seen == [
        ("plant/1/heat", b"allowed"),
        ("plant/1/heat", b"allowed again"),
        ("plant/2/heat", b"allowed once more"),
        ("plant/2/heat", b"and more"),
    ]


# --- subscribing --------------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize("case", SUBSCRIBING, ids=str)
def test_who_may_subscribe_to_what(guarded: BrokerProcess, watcher: Watcher, case: Case, version: int) -> None:
    """Granted: messages come. Denied: 0x87 (0x80 in 3.1.1), counted, no message comes, the connection lives on."""
    before = denied(guarded, "subscribe")
    with enter(guarded, case.user, case.client_id, version=version) as client:
        assert _subscribed(client, case.asks) == [1 if case.allowed else _refusal(version)]
        assert denied(guarded, "subscribe") - before == (0 if case.allowed else 1)
        if case.probe:
            watcher.client.publish(case.probe, b"probe")
            watcher.seen()
            if case.allowed:
                message = client.expect_publication()
                assert (message.topic, message.payload) == (case.probe, b"probe")
            client.ping()


@VERSIONS
def test_each_filter_of_a_subscribe_is_judged_alone(guarded: BrokerProcess, watcher: Watcher, version: int) -> None:
    """Denied filters neither spoil their neighbours nor change the order of the answers."""
    with enter(guarded, "alice", "dev-1", version=version) as client:
        no = _refusal(version)
        assert _subscribed(client, "news/#", "#", "plant/1/state", "tank/1/level") == [1, no, 1, no]
        for topic in ("news/today", "elsewhere", "plant/1/state", "tank/1/level"):
            watcher.client.publish(topic, b"probe")
        watcher.seen()
        assert [client.expect_publication().topic for _ in range(2)] == ["news/today", "plant/1/state"]
        client.ping()


def _subscribed(client: Plain, *filters: str) -> list[int]:
    """The reasons of SUBACK."""
    client.send(wire.subscribe(1, [(name, 1) for name in filters], version=client.version))
    return list(client.expect(wire.SUBACK).body[-len(filters) :])


def _refusal(version: int) -> int:
    return NOT_AUTHORIZED if version == 5 else FAILURE_3X


# --- wills --------------------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize("case", WILLS, ids=str)
def test_who_may_leave_which_will(guarded: BrokerProcess, watcher: Watcher, case: Case, version: int) -> None:
    """Allowed: published when the connection breaks. Denied: CONNACK 0x87 (5 in 3.1.1), closed, never published."""
    before = denied(guarded, "will")
    will = (case.asks, b"will", 0, False)
    client, answer = attempt(guarded, case.user, case.client_id, version=version, will=will)
    with client:
        if case.allowed:
            assert answer.reason() == 0
        else:
            assert answer.reason() == (NOT_AUTHORIZED if version == 5 else REFUSED_3X[NOT_AUTHORIZED])
            assert client.until_closed() == []
    if case.allowed:
        message = watcher.client.expect_publication()
        assert (message.topic, message.payload) == (case.asks, b"will")
    assert watcher.seen() == []
    assert denied(guarded, "will") - before == (0 if case.allowed else 1)


# --- changes while it runs ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    """A broker whose files a test may change."""

    broker: BrokerProcess
    users: Path
    acl: Path


@pytest.fixture
def site(tmp_path: Path, start_broker: StartBroker, users_file: Path) -> Site:
    """A broker of one's own that looks at its files every 0.1 s."""
    users, acl = tmp_path / "users", tmp_path / "acl"
    users.write_bytes(users_file.read_bytes())
    acl.write_text("[all]\nallow publish old/#\n")
    settings = {"auth.users_file": users, "auth.acl_file": acl, "auth.reload_seconds": RELOAD_SECONDS}
    return Site(start_broker(settings=settings), users, acl)


def _soon(condition: Callable[[], bool]) -> bool:
    """Whether it comes true within a few rounds of ``auth.reload_seconds``; the air is for a busy machine."""
    deadline = time.monotonic() + RELOAD_SECONDS + 3
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(RELOAD_SECONDS / 10)
    return met


def _verdict(client: Plain, topic: str) -> int:
    client.publish(topic, b"x", qos=1, packet_id=1)
    reason = client.expect(wire.PUBACK).reason()
    return 0 if reason == 0x10 else reason  # nobody has subscribed


def test_new_rules_hold_for_clients_that_are_in(site: Site) -> None:
    """Within auth.reload_seconds, on the same connection: what was denied is allowed and the other way round."""
    with enter(site.broker, "alice", "dev-1") as client:
        assert [_verdict(client, topic) for topic in ("old/x", "new/x")] == [0, NOT_AUTHORIZED]
        assert _subscribed(client, "new/x") == [NOT_AUTHORIZED]
        site.acl.write_text("[all]\nallow all new/#\n")
        assert _soon(lambda: _verdict(client, "new/x") == 0)
        assert _verdict(client, "old/x") == NOT_AUTHORIZED
        assert _subscribed(client, "new/x") == [1]


def test_a_wrong_file_keeps_the_old_rules(site: Site) -> None:
    """The log names the file and the line; a right file after it counts again."""
    with enter(site.broker, "alice", "dev-1") as client:
        site.acl.write_text("[all]\nallow publish new/#\nallow nonsense\n")
        assert _soon(lambda: f"{site.acl}:3:" in site.broker.log_text())
        assert [_verdict(client, topic) for topic in ("old/x", "new/x")] == [0, NOT_AUTHORIZED]
        site.acl.unlink()
        assert _soon(lambda: "cannot be read" in site.broker.log_text())
        assert [_verdict(client, topic) for topic in ("old/x", "new/x")] == [0, NOT_AUTHORIZED]
        site.acl.write_text("[all]\nallow publish new/#\n")
        assert _soon(lambda: _verdict(client, "new/x") == 0)


def test_users_come_and_go_while_it_runs(site: Site) -> None:
    """A user that `iot-mqtt passwd` adds gets in, one that it removes does not get in again."""

    def gets_in(user: str) -> bool:
        client, answer = attempt(site.broker, user, f"as-{user}", version=5)
        with client:
            assert answer.reason() in (0, BAD_USER_NAME_OR_PASSWORD)
            return answer.reason() == 0

    assert (gets_in("bob"), gets_in("carol")) == (True, False)
    set_password(site.users, "carol", password_of("carol"))
    assert _soon(lambda: gets_in("carol"))
    remove_user(site.users, "bob")
    assert _soon(lambda: not gets_in("bob"))
