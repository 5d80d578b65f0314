"""A run of publishes on its way to its receivers: each form it takes is written once.

A QoS 0 run leaves as the bytes it came in wherever nothing differs. Where something does (other protocol
family, other QoS, subscription identifiers) the whole run is written in that form once, however many
receivers want it. Only a receiver that must queue or store gets single messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from struct import pack
from typing import ClassVar

from iot_mqtt.codec import PublishRun, encode_publish, encode_run, run_of_message
from iot_mqtt.codec.wire import varint
from iot_mqtt.ports.log import LogRun
from iot_mqtt.values import NOBODY, Message, Origin, seconds_left

#: Bytes by which a packet may grow in another form, but for subscription identifiers: id, and the two lengths.
GROWTH = 2 + 2 + 2
#: Bytes of one subscription identifier.
IDENTIFIER = 5
#: What makes a part of a second a whole one, but not what a sum of floats is beside it.
ALMOST_A_SECOND = 0.999
#: User properties of a replayed message: when it came, and where a replay goes on behind it.
REPLAY_TIME, REPLAY_NEXT = "replay-time", "replay-next"


def hop_properties(
    passed_on: bytes, *, expiry: int | None = None, identifiers: tuple[int, ...] = (), alias: int = 0
) -> bytes:
    """The property block of one hop: what is passed on, and what belongs to this hop only.

    >>> hop_properties(b"", expiry=60, identifiers=(5,)).hex()
    '020000003c0b05'
    """
    if expiry is None and not identifiers and not alias:
        return passed_on
    parts = []
    if expiry is not None:
        parts.append(pack(">BI", 0x02, expiry))
    if identifiers:
        parts.append(_written(identifiers))
    if alias:
        parts.append(pack(">BH", 0x23, alias))
    parts.append(passed_on)
    return b"".join(parts)


@lru_cache(maxsize=256)
def _written(identifiers: tuple[int, ...]) -> bytes:
    """Subscription identifiers as properties: the same for each message that a route has, and thousands, perhaps."""
    return b"".join([b"\x0b" + varint(identifier) for identifier in identifiers])


class Publication:
    """One run, its topic and the forms it was written in so far."""

    __slots__ = (
        "run",
        "topic",
        "qos",
        "count",
        "publisher",
        "origin",
        "plain",
        "remote",
        "late",
        "logged",
        "_forms",
        "_messages",
        "wall",
        "waited_until",
        "again",
    )

    #: Whether its way is told, and ``forwarded`` has a context.
    traced: ClassVar[bool] = False

    def __init__(self, run: PublishRun, topic: bytes, publisher: str, wall: float, origin: Origin = NOBODY) -> None:
        self.run = run
        self.topic = topic
        self.qos = run.qos
        self.count = run.count
        self.publisher = publisher
        self.origin = origin
        #: When it came; 0 where nothing counts from it.
        self.wall = wall
        #: When it is passed on, where it has waited until then; None: at once, or that is known when it is sent.
        self.waited_until: float | None = None
        #: It may have been sent to its receiver before: it goes with DUP [MQTT-3.3.1-1].
        self.again = False
        #: It was published at another node.
        self.remote = False
        #: Its time was over when it came from there: nobody gets it who would get it now [MQTT-3.3.2-5].
        self.late = False
        #: 3 or 5: receivers of that family may get ``run.wire`` as it is; 0: nobody may.
        self.plain = 0
        if run.head == 0x30:
            self.plain = 5 if run.five else 3
        #: Where it is in the log, once some receiver needed that.
        self.logged: LogRun | None = None
        self._forms: dict[tuple[bool, bool, tuple[int, ...]], bytes] | None = None
        self._messages: list[Message] | None = None

    def at_qos0(self, five: bool, retain: bool, identifiers: tuple[int, ...]) -> bytes:
        """The run at QoS 0 in the given form, written at most once."""
        key = (five, retain, identifiers)
        if self._forms is None:
            self._forms = {}
        form = self._forms.get(key)
        if form is None:
            form = encode_run(
                self.run,
                five=five,
                qos=0,
                retain=retain,
                properties=self._hop(five, identifiers),
                topic=self.topic,
            )
            self._forms[key] = form
        return form

    def with_ids(
        self,
        five: bool,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        ids: Sequence[int],
        start: int = 0,
        *,
        dup: bool = False,
        wall: float | None = None,
    ) -> bytes:
        """Packets ``start`` and on, as many as there are ids, for one receiver.

        ``wall``: it is sent at that time, and may have waited until then [MQTT-3.3.2-6].
        """
        run = self.run
        if start or len(ids) != self.count:
            run = run.part(start, start + len(ids))
        return encode_run(
            run,
            five=five,
            qos=qos,
            retain=retain,
            dup=dup,
            ids=ids,
            properties=self._hop(five, identifiers, wall),
            topic=self.topic,
        )

    @property
    def expires_at(self) -> float | None:
        """When the time of its messages is over, by the wall clock."""
        if not self.run.raw_properties:
            return None
        interval = self.run.properties.message_expiry_interval
        return None if interval is None else self.wall + interval

    def wait(self, until: float) -> None:
        """It has waited until then: nobody gets all the time of its messages [MQTT-3.3.2-6]."""
        if self.expires_at is not None:
            self.waited_until, self.plain = until, 0

    def expired(self, wall: float) -> bool:
        """True when the time of its messages is over."""
        expires_at = self.expires_at
        return expires_at is not None and expires_at <= wall

    def _hop(self, five: bool, identifiers: tuple[int, ...], wall: float | None = None) -> bytes:
        if not five:
            return b""
        if wall is None:
            wall = self.waited_until
        expires_at = None if wall is None else self.expires_at
        if wall is not None and expires_at is not None:
            left = seconds_left(expires_at, wall)
            return hop_properties(self.run.forwardable, expiry=left, identifiers=identifiers)
        return hop_properties(self.run.raw_properties, identifiers=identifiers)

    @property
    def messages(self) -> list[Message]:
        """The run as single messages, split at most once and shared by all who keep them."""
        if self._messages is None:
            run = self.run
            expires_at = self.expires_at
            topic, qos, retain, publisher = self.topic, self.qos, run.retain, self.publisher
            passed_on = run.forwardable
            self._messages = [
                Message(
                    topic,
                    payload,
                    qos,
                    retain=retain,
                    properties=passed_on,
                    expires_at=expires_at,
                    publisher=publisher,
                )
                for payload in run.payloads()
            ]
        return self._messages

    def forwarded(self, peer: int) -> str:
        """It leaves for another node; the context that goes with it, if there is one."""
        return ""

    def part(self, start: int, stop: int) -> Publication:
        """Packets ``start`` to ``stop`` as a publication of their own."""
        if start == 0 and stop == self.count:
            return self
        part = Publication(self.run.part(start, stop), self.topic, self.publisher, self.wall, self.origin)
        part.remote, part.late, part.waited_until = self.remote, self.late, self.waited_until
        part.again = self.again
        if self._messages is not None:
            part._messages = self._messages[start:stop]
        return part


class Replayed(Publication):
    """Messages of the log for a client of MQTT 5, each of which says when it came and where a replay goes on behind it.

    ``limit`` is the client's Maximum Packet Size, or 0: what does not fit with that goes without.
    """

    __slots__ = ("_position", "_writer", "_limit", "_came")

    def __init__(self, run: LogRun, limit: int, waited_until: float | None = None) -> None:
        super().__init__(run.run, run.topic, run.publisher, run.arrived, run.origin)
        self.waited_until = waited_until
        self.plain = 0
        self._position = run.reference.position
        self._writer = run.reference.writer
        self._limit = limit
        self._came = b""

    def at_qos0(self, five: bool, retain: bool, identifiers: tuple[int, ...]) -> bytes:
        if not five:
            return super().at_qos0(five, retain, identifiers)
        return self._one_by_one(0, range(self.count), (), identifiers, retain=retain, dup=False, wall=None)

    def with_ids(
        self,
        five: bool,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        ids: Sequence[int],
        start: int = 0,
        *,
        dup: bool = False,
        wall: float | None = None,
    ) -> bytes:
        if not five:
            return super().with_ids(five, qos, retain, identifiers, ids, start, dup=dup, wall=wall)
        numbers = range(start, start + len(ids))
        return self._one_by_one(qos, numbers, ids, identifiers, retain=retain, dup=dup, wall=wall)

    def _one_by_one(
        self,
        qos: int,
        numbers: range,
        ids: Sequence[int],
        identifiers: tuple[int, ...],
        *,
        retain: bool,
        dup: bool,
        wall: float | None,
    ) -> bytes:
        hop, payloads, topic = self._hop(True, identifiers, wall), self.run.payloads(), self.topic  # noqa: FBT003
        return b"".join([
            encode_publish(
                topic,
                payloads[number],
                five=True,
                qos=qos,
                retain=retain,
                dup=dup,
                packet_id=ids[at] if qos else 0,
                properties=hop + self._said(number),
            )
            for at, number in enumerate(numbers)
        ])  # fmt: skip

    def _said(self, number: int) -> bytes:
        """The user properties of one message."""
        came = self._came
        if not came:
            when = datetime.fromtimestamp(self.wall, UTC).isoformat(timespec="milliseconds")
            came = self._came = _user_property(REPLAY_TIME, when.replace("+00:00", "Z"))
        return came + _user_property(REPLAY_NEXT, place_in(self._writer, self._position + number + 1))

    @property
    def messages(self) -> list[Message]:
        """For clients that take no packet of any size, or topic aliases."""
        if self._messages is None:
            self._messages = [self._with_place(number, message) for number, message in enumerate(super().messages)]
        return self._messages

    def _with_place(self, number: int, message: Message) -> Message:
        properties = message.properties + self._said(number)
        # Room for the head, an alias, the expiry and a few identifiers.
        size = len(message.topic) + len(message.payload) + len(properties) + 4 * IDENTIFIER + 12
        if self._limit and size > self._limit:
            return message
        return Message(
            message.topic,
            message.payload,
            message.qos,
            retain=message.retain,
            properties=properties,
            expires_at=message.expires_at,
            publisher=message.publisher,
        )


def _user_property(name: str, value: str) -> bytes:
    return b"".join((b"\x26", pack(">H", len(name)), name.encode(), pack(">H", len(value)), value.encode()))


def place_in(writer: int, position: int) -> str:
    """A position as clients have it: ``3355443200``, or ``2.3355443200`` in the log of node number 2."""
    return f"{writer}.{position}" if writer else str(position)


def logged_publication(run: LogRun, waited_until: float | None = None) -> Publication:
    """Messages that come back from the log."""
    publication = Publication(run.run, run.topic, run.publisher, run.arrived, run.origin)
    publication.waited_until = waited_until
    return publication


def publication_of(message: Message, wall: float, origin: Origin = NOBODY) -> Publication:
    """A message that did not come over a connection (a will, the API, ``$SYS``), on the same path as all."""
    expiry = None
    if message.expires_at is not None:
        # An interval has whole seconds. A part of one counts as one, from when it began: the end stays where it is.
        expiry = max(0, int(message.expires_at - wall + ALMOST_A_SECOND))
        wall = message.expires_at - expiry
    properties = hop_properties(message.properties, expiry=expiry)
    run = run_of_message(message.topic, message.payload, message.qos, retain=message.retain, raw_properties=properties)
    return Publication(run, message.topic, message.publisher, wall, origin)
