"""Rights that are taken back while clients are in: what they have of them ends within a second.

The broker looks at its files more often than by default, so that the tests wait less; each writes alice's rights anew.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from systemkit import wire
from systemkit.access import attempt, denied, enter, password_of
from systemkit.cross import unique
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import brokers

from iot_mqtt.admin.token import read_token
from iot_mqtt.auth.passwd import set_disabled, set_password

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="rules and users are configured differently there")

NOT_AUTHORIZED, BAD_USER_NAME_OR_PASSWORD = 0x87, 0x86
USERS = ("alice", "bob", "feeder")
RELOAD_SECONDS = 0.1
#: What is promised, and air for a machine that does other things as well.
PROMISED, AIR = 1.0, 3.0
BASE = "[user feeder]\nallow all #\nallow all $edge/#\n[user bob]\nallow all #\n"


class Site:
    """A broker whose files the tests change."""

    def __init__(self, broker: BrokerProcess, users: Path, acl: Path) -> None:
        self.broker = broker
        self.users = users
        self.acl = acl

    def allow(self, *rules: str, wait: bool = True) -> None:
        """From now on these are alice's rights; returns when the broker knows them."""
        mark = unique("mark")
        lines = [f"[user alice]\nallow publish {mark}\n", *(f"{rule}\n" for rule in rules)]
        new = self.acl.with_suffix(".new")
        new.write_text(BASE + "".join(lines))
        new.replace(self.acl)
        if wait:
            with enter(self.broker, "alice", unique("probe")) as probe:
                eventually(lambda: _may_publish(probe, mark))

    def command(self, *arguments: str) -> str:
        """Run ``iot-mqtt``; what it says."""
        done = subprocess.run(
            [*our_command(), *arguments],
            env=clean_environment(),
            check=True,
            capture_output=True,
            text=True,
            timeout=50,
        )
        return done.stdout

    def api(self, path: str) -> Any:
        """What ``/api/v1`` says."""
        return json.loads(self.broker.http(f"/api/v1/{path}", token=read_token(str(self.broker.data_dir))))

    def filters(self, client_id: str) -> list[str]:
        """What a client is subscribed to."""
        return [one["filter"] for one in self.api(f"subscriptions?client_id={client_id}")["items"]]

    def feed(self, topic: str, *payloads: bytes, qos: int = 1) -> None:
        """Publish as somebody who may."""
        with enter(self.broker, "feeder", unique("feeder")) as feeder:
            for packet_id, payload in enumerate(payloads, 1):
                feeder.publish(topic, payload, qos=qos, packet_id=packet_id)
                if qos == 2:
                    feeder.expect(wire.PUBREC)
                    feeder.send(wire.ack(wire.PUBREL, packet_id))
                    feeder.expect(wire.PUBCOMP)
                else:
                    feeder.expect(wire.PUBACK)


def eventually(true: Callable[[], bool], seconds: float = PROMISED + AIR) -> None:
    """It comes true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "nothing has changed"
        time.sleep(0.02)


def _may_publish(client: Plain, topic: str) -> bool:
    client.publish(topic, b"", qos=1, packet_id=1)
    return client.expect(wire.PUBACK).reason() != NOT_AUTHORIZED


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One broker for all tests."""
    folder = tmp_path_factory.mktemp("rights")
    users, acl = folder / "users", folder / "acl"
    for user in USERS:
        set_password(str(users), user, password_of(user).encode())
    acl.write_text(BASE)
    with brokers(folder) as start:
        yield Site(
            start(settings={"auth.users_file": users, "auth.acl_file": acl, "auth.reload_seconds": RELOAD_SECONDS}),
            users,
            acl,
        )


def back(site: Site, client_id: str, *, user: str = "alice", version: int = 5) -> Plain:
    """The client again, whose session was there."""
    client, answer = attempt(site.broker, user, client_id, version=version, clean=False, expiry=60)
    assert (answer.reason(), answer.body[0]) == (0, 1)
    return client


# --- subscriptions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "kept"), [(4, False), (5, True)], ids=["v3.1.1-for-the-connection", "v5-kept"])
def test_a_live_subscription_is_withdrawn(site: Site, kept: bool, version: int) -> None:
    """Nothing more comes for it; others of the same client go on. It is counted, logged, and seen in `ctl why`."""
    client_id, topic = unique("alice"), unique("t")
    site.allow(f"allow all secret/{topic}/#", f"allow all open/{topic}")
    before = denied(site.broker, "withdrawn")
    with enter(site.broker, "alice", client_id, version=version, kept=kept) as alice:
        alice.subscribe((f"secret/{topic}/#", 1), (f"open/{topic}", 1))
        began = time.monotonic()
        site.allow(f"allow all open/{topic}", wait=False)
        eventually(lambda: site.filters(client_id) == [f"open/{topic}"])
        assert time.monotonic() - began < PROMISED + 1, "too late"
        for payload in (b"0", b"1"):
            site.feed(f"secret/{topic}/x", payload)
        site.feed(f"open/{topic}", b"open")
        message = alice.expect_publication()
        assert (message.topic, message.payload) == (f"open/{topic}", b"open")
        assert denied(site.broker, "withdrawn") == before + 1
        assert site.api(f"sessions/{client_id}")["denied"] == {"withdrawn": 1}
        if version == 5:
            assert "withdrawn" in site.command("ctl", "why", client_id, "--data-dir", str(site.broker.data_dir))
    lines = [line for line in site.broker.log_text().splitlines() if client_id in line and "withdrawn" in line]
    assert len(lines) == 1
    assert "alice" in lines[0]
    assert f"secret/{topic}/#" in lines[0]


@pytest.mark.parametrize(("version", "qos"), [(4, 1), (5, 2)], ids=["v3.1.1-qos1", "v5-qos2"])
def test_what_is_inherited_is_asked_again(site: Site, version: int, qos: int) -> None:
    """At resume: neither the subscription nor what waits for it, queued before or after the change, is there."""
    client_id, topic = unique("alice"), unique("t")
    site.allow(f"allow all secret/{topic}", f"allow all open/{topic}")
    with enter(site.broker, "alice", client_id, version=version, kept=True) as alice:
        alice.subscribe((f"secret/{topic}", qos), (f"open/{topic}", qos))
    site.feed(f"secret/{topic}", b"1", b"2", qos=qos)
    site.feed(f"open/{topic}", b"a", qos=qos)
    site.allow(f"allow all open/{topic}")
    site.feed(f"secret/{topic}", b"3", qos=qos)
    site.feed(f"open/{topic}", b"b", qos=qos)
    with back(site, client_id, version=version) as alice:
        assert [alice.expect_publication().payload for _ in "ab"] == [b"a", b"b"]
        alice.ping()
        assert site.filters(client_id) == [f"open/{topic}"]
        session = site.api(f"sessions/{client_id}")
        assert session["dropped"] == {"not_authorized": 3}
        assert session["denied"] == {"withdrawn": 1}


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_sent_and_not_confirmed_is_not_sent_again(site: Site, qos: int) -> None:
    """The right to it is gone; the packet id of QoS 2 is freed by PUBREL."""
    client_id, topic = unique("alice"), f"secret/{unique('t')}"
    site.allow(f"allow all {topic}")
    with enter(site.broker, "alice", client_id, kept=True) as alice:
        alice.subscribe((topic, qos))
        site.feed(topic, b"once", qos=qos)
        message = alice.expect_publication()
    site.allow()
    with back(site, client_id) as alice:
        if qos == 2:
            assert alice.expect(wire.PUBREL).packet_id == message.packet_id
            alice.send(wire.ack(wire.PUBCOMP, message.packet_id))
        alice.ping()
        session = site.api(f"sessions/{client_id}")
        assert (session["inflight"], session["dropped"]) == (0, {"not_authorized": 1})


def test_retained_messages_that_were_not_confirmed_are_not_sent_again(site: Site) -> None:
    """They are kept with the session by value, and asked for like all others."""
    client_id, topic = unique("alice"), unique("t")
    site.allow(f"allow all secret/{topic}/#")
    with enter(site.broker, "feeder", unique("feeder")) as feeder:
        for number in range(5):
            feeder.publish(f"secret/{topic}/{number}", b"kept", qos=1, packet_id=1, retain=True)
            feeder.expect(wire.PUBACK)
    alice, answer = attempt(site.broker, "alice", client_id, version=5, clean=False, expiry=60)
    with alice:
        assert answer.reason() == 0
        alice.send(wire.subscribe(1, [(f"secret/{topic}/#", 1)], version=5))
        kinds = [packet.kind for packet in (alice.receive() for _ in range(6)) if packet is not None]
        assert sorted(kinds) == sorted([wire.SUBACK, *[wire.PUBLISH] * 5])
    site.allow()
    with back(site, client_id) as alice:
        alice.ping()
        session = site.api(f"sessions/{client_id}")
        assert (session["queued"], session["inflight"], session["dropped"]) == (0, 0, {"not_authorized": 5})


def test_a_right_to_the_past_is_taken_back_alone(site: Site) -> None:
    """A replay needs its own right; the plain subscription stays."""
    client_id, topic = unique("alice"), unique("t")
    site.allow(f"allow all t/{topic}")
    with enter(site.broker, "alice", client_id, kept=True) as alice:
        alice.subscribe((f"t/{topic}", 1), (f"$replay/1h/t/{topic}", 1))
        site.allow(f"allow subscribe t/{topic}", wait=False)
        eventually(lambda: site.filters(client_id) == [f"t/{topic}"])
        site.feed(f"t/{topic}", b"now")
        assert alice.expect_publication().payload == b"now"
        alice.ping()


def test_a_member_that_may_not_any_more_leaves_its_share_to_the_others(site: Site) -> None:
    """It is disconnected, so that what it had and did not confirm goes to members that may have it."""
    topic, group = f"secret/{unique('t')}", unique("g")
    site.allow(f"allow all {topic}")
    with (
        enter(site.broker, "bob", unique("bob"), kept=True) as bob,
        enter(site.broker, "alice", unique("alice"), kept=True) as alice,
    ):
        for member in (bob, alice):
            member.subscribe((f"$share/{group}/{topic}", 1))
        site.feed(topic, *(b"%d" % number for number in range(6)))
        held = [alice.expect_publication().payload]
        site.allow()
        while (packet := alice.receive()) is not None and packet.kind == wire.PUBLISH:
            held.append(wire.publication(packet, 5).payload)
        assert packet is not None
        assert (packet.kind, packet.reason()) == (wire.DISCONNECT, NOT_AUTHORIZED)
        got: set[bytes] = set()
        while len(got) < 6:
            message = bob.expect_publication()
            bob.send(wire.ack(wire.PUBACK, message.packet_id))
            got.add(message.payload)
        assert set(held) < got


def test_a_narrower_right_keeps_what_it_covers(site: Site) -> None:
    """The wildcard goes as a whole, but of what waits for it only what is denied now."""
    client_id, topic = unique("alice"), unique("t")
    site.allow(f"allow all {topic}/#")
    with enter(site.broker, "alice", client_id, kept=True) as alice:
        alice.subscribe((f"{topic}/#", 1))
    site.feed(f"{topic}/open", b"open")
    site.feed(f"{topic}/shut", b"shut")
    site.allow(f"deny all {topic}/shut", f"allow all {topic}/#")
    with back(site, client_id) as alice:
        assert alice.expect_publication().payload == b"open"
        alice.ping()
        assert site.filters(client_id) == []
        assert site.api(f"sessions/{client_id}")["dropped"] == {"not_authorized": 1}


# --- wills --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 1])
def test_a_will_needs_its_right_when_it_is_published(site: Site, delay: int) -> None:
    """It was allowed at CONNECT, and is not when it is due."""
    client_id, topic = unique("alice"), f"will/{unique('t')}"
    site.allow(f"allow publish {topic}")
    before = denied(site.broker, "will")
    with enter(site.broker, "feeder", unique("watcher")) as watcher:
        watcher.subscribe((topic, 1))
        alice = enter(
            site.broker, "alice", client_id, will=(topic, b"command", 1, False), will_delay=delay, kept=bool(delay)
        )
        if delay:
            alice.sock.close()
        site.allow()
        alice.sock.close()
        eventually(lambda: denied(site.broker, "will") == before + 1)
        watcher.ping()


# --- users --------------------------------------------------------------------------------------------------


def gets_in(site: Site, user: str) -> bool:
    client, answer = attempt(site.broker, user, unique("asks"), version=5)
    with client:
        assert answer.reason() in (0, BAD_USER_NAME_OR_PASSWORD)
        return answer.reason() == 0


@pytest.mark.parametrize(("version", "how"), [(4, "--delete"), (5, "--disable")], ids=["v3.1.1-deleted", "v5-disabled"])
def test_a_user_who_is_gone_is_disconnected(site: Site, version: int, how: str) -> None:
    """0x87, and not let in again; bob stays. Enabled again, the user has the same session."""
    user = unique("user")
    set_password(str(site.users), user, password_of(user).encode())
    eventually(lambda: gets_in(site, user))
    client_id = unique("c")
    with (
        enter(site.broker, "bob", unique("bob")) as bob,
        enter(site.broker, user, client_id, version=version, kept=True) as client,
    ):
        began = time.monotonic()
        site.command("passwd", str(site.users), how, "--", user)
        farewell = client.until_closed()
        assert time.monotonic() - began < PROMISED + AIR
        assert [one.reason() for one in farewell] == ([NOT_AUTHORIZED] if version == 5 else [])
        assert not gets_in(site, user)
        bob.ping()
        assert any(user in line and "disconnected" in line for line in site.broker.log_text().splitlines())
    if how == "--disable":
        assert f"{user}:!$argon2id$" in site.users.read_text()
        site.command("passwd", str(site.users), "--enable", "--", user)
        eventually(lambda: gets_in(site, user))
        back(site, client_id, user=user, version=version).disconnect()


def test_the_will_of_a_user_who_is_gone_is_not_published(site: Site) -> None:
    """Disabled: whatever it left behind has no right any more."""
    user, topic = unique("user"), f"will/{unique('t')}"
    set_password(str(site.users), user, password_of(user).encode())
    before = denied(site.broker, "will")
    site.allow(f"[user {user}]", f"allow publish {topic}")
    eventually(lambda: gets_in(site, user))
    with enter(site.broker, "feeder", unique("watcher")) as watcher:
        watcher.subscribe((topic, 1))
        with enter(site.broker, user, unique("c"), will=(topic, b"command", 1, False)) as client:
            set_disabled(str(site.users), user, disabled=True)
            client.until_closed()
        eventually(lambda: denied(site.broker, "will") == before + 1)
        watcher.ping()


@pytest.mark.parametrize("how", ["disabled", "deleted"])
def test_a_command_of_a_user_who_is_gone_is_not_sent(site: Site, how: str) -> None:
    """It waits for a device that is away; somebody else's to the same device is sent."""
    user, device = unique("user"), unique("device")
    set_password(str(site.users), user, password_of(user).encode())
    site.allow(f"[user {user}]", f"allow publish down/{device}")
    eventually(lambda: gets_in(site, user))
    with enter(site.broker, "bob", device, kept=True) as away:
        away.subscribe((f"down/{device}", 1))
    with enter(site.broker, user, unique("c")) as client:
        client.publish(f"down/{device}", b"his", qos=1, packet_id=1)
        client.expect(wire.PUBACK)
        if how == "disabled":
            set_disabled(str(site.users), user, disabled=True)
        else:
            site.command("passwd", str(site.users), user, "--delete")
        client.until_closed()
    site.feed(f"down/{device}", b"feeder's")
    with enter(site.broker, "bob", device, kept=True) as back_again:
        assert back_again.expect_publication().payload == b"feeder's"
    failed = [one["detail"] for one in site.api(f"commands?target={device}")["items"] if one["state"] == "failed"]
    assert failed == ["its sender was deleted or disabled"]


def test_a_new_password_leaves_those_who_are_in(site: Site) -> None:
    """They came with the old one; the next time it takes the new one."""
    user = unique("user")
    set_password(str(site.users), user, password_of(user).encode())
    eventually(lambda: gets_in(site, user))
    with enter(site.broker, user, unique("c")) as client:
        set_password(str(site.users), user, b"another")
        eventually(lambda: not gets_in(site, user))
        client.ping()


# --- after a restart ----------------------------------------------------------------------------------------


def test_a_session_from_the_store_is_asked_again(site: Site) -> None:
    """Killed, the rules changed while it was away, started: nothing of what is denied now comes to alice."""
    client_id, topic = unique("alice"), unique("t")
    site.allow(f"allow all secret/{topic}", f"allow all open/{topic}", f"allow publish will/{topic}")
    with enter(site.broker, "feeder", unique("watcher"), kept=True) as watcher:
        watcher.subscribe((f"will/{topic}", 1))
    alice = enter(site.broker, "alice", client_id, will=(f"will/{topic}", b"command", 1, False), kept=True)
    alice.subscribe((f"secret/{topic}", 1), (f"open/{topic}", 1))
    site.feed(f"secret/{topic}", b"1")
    alice.expect_publication()
    site.broker.kill()
    alice.sock.close()
    site.allow(f"allow all open/{topic}", wait=False)
    site.broker.start()
    eventually(lambda: denied(site.broker, "will") == 1)
    site.feed(f"secret/{topic}", b"2")
    site.feed(f"open/{topic}", b"open")
    with back(site, client_id) as alice:
        assert alice.expect_publication().payload == b"open"
        alice.ping()
        assert site.filters(client_id) == [f"open/{topic}"]
