"""Packets that a client may send, for streams that get a broker into states before they go wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from iot_mqtt.codec import (
    Ack,
    Connect,
    ConnectWill,
    Disconnect,
    Packet,
    PacketType,
    Pingreq,
    Properties,
    Publish,
    Request,
    Role,
    Subscribe,
    Unsubscribe,
    encode,
)
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion
from tests.cases.packets import CASES
from tests.fuzz.mutation import Mutator

V5 = ProtocolVersion.V5
LEVELS = ("a", "b", "c", "up", "\u00e4", "", "$x", "x" * 40)
CLIENTS = tuple(f"storm-{number}" for number in range(24))


class Making:
    """Random packets of a version, and streams of them."""

    def __init__(self, dice: random.Random, version: ProtocolVersion) -> None:
        self.dice = dice
        self.version = version
        self.five = version is V5
        self._kinds: tuple[tuple[float, Callable[[], Packet]], ...] = (
            (50, self.publish),
            (12, self.subscribe),
            (5, self.unsubscribe),
            (8, self.ack),
            (5, Pingreq),
            (0.05, self.disconnect),
        )

    def topic(self) -> str:
        """Spread over many first levels, so that few clients get each message."""
        return f"t{self.dice.randrange(60)}/" + "/".join(
            self.dice.choices(LEVELS, (9, 9, 6, 3, 1, 1, 1, 1), k=self.dice.choice((1, 2, 2, 3)))
        )

    def filter(self) -> str:
        first, *levels = self.topic().split("/")
        levels = ["+" if self.dice.random() < 0.01 else first, *(self.dice.choice((one, "+")) for one in levels)]
        if self.dice.random() < 0.3:
            levels[-1] = "#"
        prefix = self.dice.choice(("", "", "", "$share/g/", "$share/h/")) if self.five else ""
        return prefix + "/".join(levels)

    def connect(self) -> Connect:
        dice, will, found = self.dice, None, Properties()
        if dice.random() < 0.3:
            about: dict[str, Any] = {"will_delay_interval": dice.choice((0, 1, 5))} if self.five else {}
            will = ConnectWill(
                self.topic().encode(), b"gone", dice.randrange(3), dice.random() < 0.3, Properties(**about)
            )
        if self.five:
            found = Properties(
                session_expiry_interval=dice.choice((None, None, 0, 1, 2, 60)),
                receive_maximum=dice.choice((None, 1, 3, 65535)),
                topic_alias_maximum=dice.choice((None, 0, 5)),
                maximum_packet_size=dice.choice((None, None, 30, 200)),
                request_problem_information=dice.choice((None, True, False)),
            )
        name = dice.choice((*CLIENTS, ""))
        clean = not name or dice.random() < 0.75
        return Connect(self.version, name, clean, dice.choice((0, 1, 60)), None, None, will, found)

    def publish(self) -> Publish:
        dice = self.dice
        qos, found, topic = dice.choice((0, 0, 1, 2)), Properties(), self.topic().encode()
        if self.five and dice.random() < 0.4:
            alias = dice.choice((None, None, 1, 2, 3))
            found = Properties(
                topic_alias=alias,
                message_expiry_interval=dice.choice((None, 0, 1, 100)),
                payload_format_indicator=dice.choice((None, 0)),
                response_topic=dice.choice((None, "r/t")),
                correlation_data=dice.choice((None, b"\0\1")),
                user_properties=dice.choice(((), (("k", "v"), ("k", "w")))),
            )
            if alias and dice.random() < 0.5:
                topic = b""
        payload = dice.randbytes(dice.choice((0, 1, 5, 5, 40, 200)))
        return Publish(
            topic, payload, qos, dice.random() < 0.15, qos > 0 and dice.random() < 0.1, self._id() if qos else 0, found
        )

    def subscribe(self) -> Subscribe:
        dice = self.dice
        requests = []
        for _ in range(dice.choice((1, 1, 2, 4))):
            name = self.filter()
            if self.five:
                local = not name.startswith("$share/") and dice.random() < 0.2
                requests.append(Request(name, dice.randrange(3), local, dice.random() < 0.3, dice.randrange(3)))
            else:
                requests.append(Request(name, dice.randrange(3)))
        found = Properties()
        if self.five and dice.random() < 0.3:
            found = Properties(subscription_identifiers=(dice.choice((1, 7, 300)),))
        return Subscribe(self._id(), tuple(requests), found)

    def unsubscribe(self) -> Unsubscribe:
        return Unsubscribe(self._id(), tuple(self.filter() for _ in range(self.dice.choice((1, 2)))))

    def ack(self) -> Ack:
        return Ack(PacketType.PUBREL, self._id())

    def disconnect(self) -> Disconnect:
        reasons = (ReasonCode.SUCCESS, ReasonCode.DISCONNECT_WITH_WILL)
        return Disconnect(self.dice.choice(reasons)) if self.five else Disconnect()

    def _id(self) -> int:
        return self.dice.choice((1, 2, 3, 4, 5, 9, 65535))

    def wire(self) -> bytes:
        """Any packet but CONNECT."""
        weights = [weight for weight, _ in self._kinds]
        ((_, make),) = self.dice.choices(self._kinds, weights)
        return encode(make(), self.version)


class Streams:
    """Streams of packets, cheap to make: a pool of packets that are right, and one of those that are nearly right."""

    def __init__(self, dice: random.Random, version: ProtocolVersion, size: int = 4000) -> None:
        self._dice = dice
        self.version = version
        self._making = Making(dice, version)
        self.right = [self._making.wire() for _ in range(size)]
        cases = [case.wire for case in CASES if case.version is version and case.role is Role.SERVER and not case.first]
        mutator = Mutator(dice, [*self.right[:500], *(wire for wire in cases if len(wire) < 300)], longest=400)
        self.wrong = [*cases, *(mutator.next() for _ in range(size))]
        self._named: list[bytes] = []
        if version is V5:
            topics = (Publish(b"a/%d" % alias, b"", properties=Properties(topic_alias=alias)) for alias in (1, 2, 3))
            self._named = [encode(packet, version) for packet in topics]
        self._connects = Mutator(dice, [encode(self._making.connect(), version) for _ in range(50)], longest=300)

    def connect(self, wrong: float) -> bytes:
        if self._dice.random() < wrong:
            return self._connects.next()
        return encode(self._making.connect(), self._making.version)

    def packets(self, count: int, wrong: float) -> list[bytes]:
        """So many, a share of which are wrong; behind what gives the aliases topics."""
        found = self._dice.choices(self.right, k=count)
        found[:0] = self._named
        for place in range(len(found)):
            if self._dice.random() < wrong:
                found[place] = self._dice.choice(self.wrong)
        return found


def streams_of(dice: random.Random) -> Sequence[Streams]:
    """Of all versions."""
    return [Streams(dice, version) for version in (ProtocolVersion.V31, ProtocolVersion.V311, V5, V5)]
