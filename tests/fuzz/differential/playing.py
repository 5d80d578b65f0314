"""Plays a script on one broker and notes what each client gets, step by step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from tests.fuzz.differential.script import WRONG, Connect, Leave, Publish, Step, Subscribe, Unsubscribe, Will, Wrong
from tests.wire import notation, packets
from tests.wire.client import Client, Mismatch, Transport
from tests.wire.packets import (
    CONNACK,
    DISCONNECT,
    NAMES,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    V5,
    Packet,
)

#: What a client got: a name, and what is in it.
Event = tuple[Any, ...]
#: By client, in order.
Note = dict[str, list[Event]]
#: Round trips after which nothing new may come any more.
QUIET = 2
PATIENCE = 8.0


class Player:
    """One broker, one script."""

    def __init__(self, host: str, port: int, prefix: str, pause: float) -> None:
        self._address = host, port
        self._prefix = prefix
        self._pause = pause
        self._open: dict[str, Client] = {}
        self._acks: dict[str, bool] = {}
        #: Answers to what a client has published that did not come yet.
        self._owed: dict[str, set[int]] = {}
        self._note: Note = {}
        self._seen: set[str] = set()

    def play(self, script: Sequence[Step]) -> list[Note]:
        notes = []
        try:
            for number, step in enumerate(script):
                self._note = {}
                self._do(step, number)
                self._settle()
                notes.append(self._note)
            return notes
        finally:
            self._clean()

    # steps

    def _do(self, step: Step, number: int) -> None:
        if isinstance(step, Connect):
            self._connect(step, number)
            return
        client = self._open.get(step.who)
        if client is None:
            return
        if isinstance(step, Subscribe):
            five = client.version == V5
            pairs = [(self._filter(name), bits if five else bits & 3) for name, bits in step.requests]
            found = {"subscription_identifier": step.identifier} if five and step.identifier else {}
            client.send(packets.subscribe(client.version, client.next_id(), pairs, **found))
        elif isinstance(step, Unsubscribe):
            names = [self._filter(name) for name in step.filters]
            client.send(packets.unsubscribe(client.version, client.next_id(), names))
        elif isinstance(step, Publish):
            self._publish(client, step, number)
        elif isinstance(step, Leave):
            self._leave(client, step)
        else:
            self._wrong(client, step)

    def _connect(self, step: Connect, number: int) -> None:
        before = self._open.pop(step.who, None)
        self._seen.add(step.who)
        found: dict[str, Any] = {"keep_alive": 0}
        if step.version == V5:
            found["session_expiry_interval"] = step.expiry or None
        client = Client(Transport(*self._address, PATIENCE), step.version, PATIENCE, f"{self._prefix}{step.who}")
        will = None if step.will is None else self._will(step.will, number, five=step.version == V5)
        client.send(packets.connect(step.version, client.client_id, clean=step.clean, will=will, **found))
        self._open[step.who] = client
        self._acks[step.who] = step.acks
        self._owed[step.who] = set()
        packet = self._read(client, time.monotonic() + PATIENCE)
        if packet is not None:
            self._heard(step.who, client, packet)
        if before is not None:
            self._ended(step.who, before, "OLD ")

    def _will(self, will: Will, number: int, *, five: bool) -> packets.Will:
        return packets.Will(f"{self._prefix}/{will.topic}", b"will %d" % number, will.qos, will.retain)

    def _publish(self, client: Client, step: Publish, number: int) -> None:
        found: dict[str, Any] = {}
        topic = f"{self._prefix}/{step.topic}"
        if client.version == V5:
            match step.extra:
                case "expiry":
                    found = {"message_expiry_interval": 100}
                case "alias":
                    found = {"topic_alias": 3}
                case "named":
                    # Only right if a message before it has given the alias its name.
                    found, topic = {"topic_alias": 3}, ""
                case "user":
                    found = {
                        "user_property": [("k", "v"), ("k", "w")],
                        "response_topic": "r",
                        "correlation_data": b"\1",
                    }
                case "text":
                    found = {"payload_format_indicator": 1, "content_type": "t"}
        payload = b"" if step.empty else b"m %d" % number
        packet_id = client.next_id() if step.qos else 0
        if packet_id:
            self._owed[step.who].add(packet_id)
        client.send(
            packets.publish(
                client.version, topic, payload, qos=step.qos, retain=step.retain, packet_id=packet_id, **found
            )
        )

    def _leave(self, client: Client, step: Leave) -> None:
        del self._open[step.who]
        if step.how == "drop":
            client.drop()
            return
        client.send(packets.disconnect(client.version, 4 if step.how == "will" and client.version == V5 else 0))
        self._ended(step.who, client, "")

    def _wrong(self, client: Client, step: Wrong) -> None:
        line = WRONG[step.what].replace("'", '"')
        nodes = notation.read(line, client.version, lambda name: f"{self._prefix}/a")
        client.send(notation.build(nodes))

    def _filter(self, name: str) -> str:
        group, colon, filter = name.rpartition(":")
        return f"$share/{group}/{self._prefix}/{filter}" if colon else f"{self._prefix}/{filter}"

    # what comes

    def _settle(self) -> None:
        """Ask everybody whether there is anything more until nothing has come for some rounds."""
        quiet, end = 0, time.monotonic() + PATIENCE
        while quiet < QUIET and time.monotonic() < end:
            if self._pause:
                time.sleep(self._pause)
            came = False
            for who, client in list(self._open.items()):
                client.send(packets.frame(PINGREQ, 0, b""))
                came = self._to_pingresp(who, client) or came
            waiting = any(self._owed[who] for who in self._open)
            quiet = 0 if came or waiting else quiet + 1

    def _to_pingresp(self, who: str, client: Client) -> bool:
        end = time.monotonic() + PATIENCE
        came = False
        while (packet := self._read(client, end)) is not None:
            if packet.kind == PINGRESP:
                return came
            came = True
            self._heard(who, client, packet)
        self._say(who, ("CLOSED",))
        client.drop()
        self._open.pop(who, None)
        return True

    @staticmethod
    def _read(client: Client, end: float) -> Packet | None:
        try:
            return client.receive(max(0.0, end - time.monotonic()))
        except Mismatch:
            return None

    def _ended(self, who: str, client: Client, word: str) -> None:
        """Everything that comes on a connection that the broker has to close."""
        end = time.monotonic() + PATIENCE
        while (packet := self._read(client, end)) is not None:
            if packet.kind in (PUBLISH, DISCONNECT):
                self._say(who, (word + NAMES[packet.kind], *self._seen_in(packet)))
        if time.monotonic() >= end:
            self._say(who, (word + "STAYS OPEN",))
        client.drop()

    def _heard(self, who: str, client: Client, packet: Packet) -> None:
        kind = packet.kind
        if kind == PUBREL:
            client.ack(PUBCOMP, packet.packet_id)
            return
        if kind == PUBREC and packet.packet_id in self._owed[who]:
            if packet.reason < 0x80:
                client.ack(PUBREL, packet.packet_id)
            else:
                self._owed[who].discard(packet.packet_id)
        elif kind in (PUBACK, PUBCOMP):
            self._owed[who].discard(packet.packet_id)
        elif kind == PUBLISH and packet.qos and self._acks[who]:
            client.ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id)
        self._say(who, (NAMES[kind], *self._seen_in(packet)))

    def _seen_in(self, packet: Packet) -> Event:
        if packet.kind == CONNACK:
            return packet.session_present, packet.reason
        if packet.kind in (SUBACK, UNSUBACK):
            return packet.reasons
        if packet.kind != PUBLISH:
            return (packet.reason,)
        about = {
            name: value
            for name, value in packet.properties.items()
            if name not in ("topic_alias", "subscription_identifier", "message_expiry_interval")
        }
        if "message_expiry_interval" in packet.properties:
            # Some of it may be over.
            about["expires"] = packet.properties["message_expiry_interval"] > 90
        topic = packet.topic.removeprefix(f"{self._prefix}/")
        flags = packet.qos, packet.retain, packet.dup
        return topic, packet.payload.decode(), *flags, tuple(packet.identifiers), tuple(sorted(about.items(), key=str))

    def _say(self, who: str, event: Event) -> None:
        self._note.setdefault(who, []).append(event)

    def _clean(self) -> None:
        """Leave nothing: no connection, no session."""
        for client in self._open.values():
            client.drop()
        for who in self._seen:
            with contextlib.suppress(OSError, AssertionError):
                client = Client(Transport(*self._address, PATIENCE), 4, PATIENCE, f"{self._prefix}{who}")
                client.connect(clean=True, keep_alive=0)
                client.disconnect()
