"""ACL files of mosquitto: after ``iot-mqtt acl import`` they mean what mosquitto makes of them. It is asked itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from systemkit import wire
from systemkit.mosquitto import mosquitto, needed
from systemkit.plain import Plain

from iot_mqtt.auth.acl import parse_rules
from iot_mqtt.auth.mosquitto_acl import import_acl
from iot_mqtt.auth.rule_index import RuleList
from iot_mqtt.auth.rules import decide
from iot_mqtt.ports.access import Action, Principal

pytestmark = needed

FILE = """# a comment
topic read open/#
topic deny open/shut
topic write drop/box
topic a/+/c

user feeder
topic #
topic $x/#

user ann
topic readwrite plant/#
topic deny plant/+/locked
topic read  shared/topic
topic readwrite with space/x
topic deny late/#
topic read late/x
topic plant/x/locked
topic $x/ann
topic home/%u/literal

user bob
topic write plant/bob
topic deny up/c3/#

user ann
topic write second/part

pattern readwrite up/%c/#
pattern read home/%u/+
pattern write state/%c/%u
pattern deny home/+/shut
pattern deny home/%u/no
pattern read home/all
pattern readwrite $x/%c
pattern read public/news
pattern deny public/+/inner
pattern read public/#
"""
NAMES = """
open open/a open/shut open/shut/x drop/box drop a/b/c a/b/d plant plant/1 plant/1/locked plant/x/locked plant/bob
shared/topic late/x late/y second/part up/c1 up/c1/x up/c2/x up/c3/x up/plus/x up/%c/x home/ann/x home/bob/x
home/ann/shut home/ann/no home/bob/no home/all home//x home/%u/literal state/c1/ann state/c1/bob state/c1 $x/ann $x/c1
$x/other other public/news public/a/inner public/a/b %c
"""
TOPICS = ["with space/x", *NAMES.split()]
#: What ann cannot be given here: %u would be her name.
NARROWER = {"home/%u/literal"}


class Who(NamedTuple):
    """A client; a user that mosquitto takes at its word."""

    user: str | None
    client_id: str


CLIENTS = [
    *(Who("ann", "c1"), Who("ann", "c2"), Who("bob", "c3"), Who("nobody", "c1"), Who(None, "c1"), Who(None, "all")),
    *(Who("ann", "c+"), Who("nobody", "c#"), Who(None, "#"), Who("ann", "%c"), Who("carl", "c 1"), Who("%u", "%c")),
]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """One mosquitto with this file."""
    folder = tmp_path_factory.mktemp("mosquitto")
    (folder / "acl").write_text(FILE)
    (folder / "acl").chmod(0o644)
    with mosquitto(folder, f"acl_file {folder / 'acl'}") as number:
        yield number


def enter(port: int, who: Who) -> Plain:
    """Connected, as MQTT 5."""
    client = Plain(port, version=5)
    password = None if who.user is None else b"x"
    client.send(wire.connect(who.client_id, version=5, user=who.user, password=password))
    assert client.expect(wire.CONNACK).reason() == 0
    return client


def allowed(answer: wire.Received) -> bool:
    return answer.reason() != 0x87


def rules_for(who: Who, text: str) -> tuple[Principal, RuleList]:
    principal = Principal(who.client_id, who.user, who.user is None, address="127.0.0.1")
    return principal, parse_rules(text, "imported").of(principal)


@pytest.mark.parametrize("who", CLIENTS, ids=[f"{who.user}-{who.client_id}" for who in CLIENTS])
def test_mosquitto_and_the_imported_file_give_the_same_rights(port: int, who: Who) -> None:
    """Who may publish what, and who receives what."""
    imported = import_acl(FILE, "mosquitto.acl")
    principal, rules = rules_for(who, imported.text)
    with enter(port, who) as client:
        client.subscribe(("#", 0), ("$x/#", 0))
        publishes = set()
        for topic in TOPICS:
            client.publish(topic, b"own", qos=1, packet_id=1)
            while (packet := client.receive()) is not None and packet.kind == wire.PUBLISH:
                pass
            assert packet is not None and packet.kind == wire.PUBACK
            if allowed(packet):
                publishes.add(topic)
        with enter(port, Who("feeder", "feeder")) as feeder:
            for topic in TOPICS:
                feeder.publish(topic, b"fed", qos=1, packet_id=1)
                feeder.expect(wire.PUBACK)
        client.send(b"\xc0\x00")
        receives = set()
        while (packet := client.receive()) is not None and packet.kind == wire.PUBLISH:
            publication = wire.publication(packet, 5)
            if publication.payload == b"fed":
                receives.add(publication.topic)
    narrower = NARROWER if who.user == "ann" else set()
    ours = {
        action: {topic for topic in TOPICS if decide(rules, principal, action, topic)}
        for action in (Action.PUBLISH, Action.READ)
    }
    assert ours[Action.PUBLISH] == publishes - narrower
    assert ours[Action.READ] == receives - narrower
