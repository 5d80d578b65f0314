"""Retained messages on their way from another broker to this one.

::

    list: subscribe to filters at QoS 0 ──▶ names only       brokers queue few messages of QoS 1 and 2 for a client, and
    take: subscribe to 50 names at QoS 2 ──▶ the messages     drop the rest; so they are asked for in small portions
    give: publish what is not there as it is here, wait for PUBACK, subscribe to the same names and compare

Brokers do not say that all retained messages were sent: a list is over when none has come for a while. Memory holds
the names, and the messages of one portion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from iot_mqtt.app.client import words
from iot_mqtt.app.client.client import Client
from iot_mqtt.app.client.errors import ClientError, NotTaken
from iot_mqtt.app.client.options import Link
from iot_mqtt.app.client.protocol import Settled
from iot_mqtt.codec import NO_PROPERTIES, Properties, Publish, Request
from iot_mqtt.values import ProtocolVersion

#: Names of a portion, and bytes of them.
PORTION: Final = 50
PORTION_BYTES: Final = 64 * 1024
#: Names of a list, at most.
MOST: Final = 1_000_000
#: How often a slow broker is asked.
ROUNDS: Final = 5
#: Topics that are named, of those with which something was not right.
NAMED: Final = 20
_REFUSED: Final = 0x80

Note = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """What became of the messages."""

    #: Named by the list, or found in the file.
    found: int = 0
    #: At the new broker now, as they are here.
    stored: int = 0
    #: Of these, those that were so before: they were not published, so that no session gets them once more.
    same: int = 0
    #: The new broker has one for the topic already, and nobody wanted it replaced.
    kept: int = 0
    #: They were in the list and did not come when they were asked for: deleted meanwhile, or expired.
    gone: int = 0
    #: The new broker does not take them.
    refused: int = 0
    #: They were acknowledged, and what is there is not what was sent: somebody else publishes there, too.
    differ: int = 0
    #: Topics with which something was not right, and what; the first of them.
    notes: list[str] = field(default_factory=list)

    def note(self, topic: bytes, text: str) -> None:
        if len(self.notes) < NAMED:
            self.notes.append(f"{topic.decode(errors='replace')}: {text}")


class Source:
    """A broker that has retained messages, or is to have them."""

    def __init__(self, link: Link, patience: float, quiet: float) -> None:
        """``patience``: seconds for an answer. ``quiet``: seconds without a retained message that end a list."""
        self.client = link.client
        self._patience = patience
        self._quiet = quiet

    def names(self, filters: tuple[str, ...], progress: Note = lambda _: None) -> list[bytes]:
        """The topics below these filters that have a retained message."""
        found: dict[bytes, None] = {}
        for message in self._retained([Request(one, 0) for one in filters], lambda: True):
            found[message.topic] = None
            if len(found) > MOST:
                raise ClientError(f"there are more than {MOST} retained messages: take them in parts, with --topic")
            progress(f"{len(found)} retained messages found")
        return list(found)

    def take(self, topics: list[bytes]) -> list[Publish]:
        """The retained messages of these topics, as many of them as come."""
        wanted = set(topics)
        found: list[Publish] = []
        for message in self._retained([Request(one.decode(), 2) for one in topics], lambda: bool(wanted)):
            if message.topic in wanted:
                wanted.discard(message.topic)
                found.append(message)
        return found

    def portions(self, topics: Iterable[bytes], outcome: Outcome) -> Iterator[list[Publish]]:
        """The messages of a list."""
        for some in portions(topics):
            found = self.take(some)
            outcome.gone += len(some) - len(found)
            yield found

    def _retained(self, requests: list[Request], more: Callable[[], bool]) -> Iterator[Publish]:
        """What is retained for these filters, until no more is wanted or none has come for a while. If one comes after
        that while and before UNSUBACK, the broker is slow, and is asked again.
        """
        client, filters = self.client, tuple(request.filter for request in requests)
        for _ in range(ROUNDS):
            self._subscribe(requests)
            until = time.monotonic() + self._quiet
            while more() and time.monotonic() < until:
                for message in self._come():
                    yield message
                    until = time.monotonic() + self._quiet
                if more():
                    client.step(until)
            client.unsubscribe(filters, self._patience)
            late = list(self._come())
            yield from late
            if not late or not more():
                return

    def _come(self) -> Iterator[Publish]:
        """The retained messages that have come. All are acknowledged."""
        arrived = self.client.arrived
        while arrived:
            message = arrived.popleft()
            self.client.protocol.accept(message)
            if message.retain and message.payload:
                yield message

    def _subscribe(self, requests: list[Request]) -> None:
        answer = self.client.subscribe(tuple(requests), NO_PROPERTIES, self._patience)
        for request, reason in zip(requests, answer.reasons, strict=False):
            if reason >= _REFUSED:
                five, said = self.client.protocol.five, answer.properties.reason_string
                text = words.refused_filter(reason, five, said)
                raise NotTaken(f"no subscription to {request.filter}: {text}")


class Target:
    """The broker that gets them. It is asked, too: what it acknowledged is there."""

    def __init__(self, link: Link, patience: float, quiet: float) -> None:
        self._client: Client = link.client
        self._source = Source(link, patience, quiet)
        self._patience = patience
        self._most_qos = 2 if (most := link.connack.properties.maximum_qos) is None else most
        #: Topics that have a retained message already.
        self._there: frozenset[bytes] = frozenset()
        self._keep = False

    def look(self, filters: tuple[str, ...], outcome: Outcome, *, keep: bool) -> None:
        """See what is there already; with ``keep`` it is not replaced."""
        self._keep = keep
        try:
            self._there = frozenset(self._source.names(filters))
        except NotTaken as error:
            if keep:
                raise
            outcome.notes.append(f"everything is published, because what is here already cannot be seen: {error}")

    def give(self, messages: list[Publish], outcome: Outcome) -> None:
        """Publish them, and see that they are there. Raises ``ClientError`` if it is not known what became of them."""
        known = [message for message in messages if message.topic in self._there]
        fresh = [message for message in messages if message.topic not in self._there]
        if self._keep:
            outcome.kept += len(known)
        else:
            others = self._others(known)
            outcome.stored += len(known) - len(others)
            outcome.same += len(known) - len(others)
            fresh += others
        sent: dict[bytes, bytes] = {}
        by_id: dict[int, bytes] = {}
        for message in fresh:
            try:
                number = self._client.publish(self._ours(message))
            except NotTaken as error:
                outcome.refused += 1
                outcome.note(message.topic, str(error))
                continue
            sent[message.topic] = message.payload
            if number:
                by_id[number] = message.topic
        self._client.settle(self._patience)
        for answer in self._settled():
            topic = by_id.get(answer.packet_id)
            if topic is not None and answer.reason >= _REFUSED:
                del sent[topic]
                outcome.refused += 1
                outcome.note(topic, words.sentence(answer.reason, answer.said))
        self._see(sent, outcome)

    def _others(self, messages: list[Publish]) -> list[Publish]:
        """Those that are there otherwise, or not any more."""
        if not messages:
            return []
        there = {one.topic: self._ours(one) for one in self._source.take([one.topic for one in messages])}
        return [one for one in messages if one.topic not in there or not _same(self._ours(one), there[one.topic])]

    def _see(self, sent: dict[bytes, bytes], outcome: Outcome) -> None:
        """Whether what was sent is there."""
        there = {message.topic: message.payload for message in self._source.take(list(sent))} if sent else {}
        for topic, payload in sent.items():
            if topic not in there:
                outcome.refused += 1
                outcome.note(topic, "was published, and is not there: a limit or a right is against it")
            elif there[topic] != payload:
                outcome.differ += 1
                outcome.note(topic, "is there with another payload: somebody else publishes to it")
            else:
                outcome.stored += 1

    def _ours(self, message: Publish) -> Publish:
        """As a new message of a client."""
        properties = NO_PROPERTIES
        if self._client.protocol.version is ProtocolVersion.V5:
            properties = replace(message.properties, subscription_identifiers=(), topic_alias=None)
        qos = min(message.qos, self._most_qos)
        return Publish(message.topic, message.payload, qos, retain=True, properties=properties)

    def _settled(self) -> Iterator[Settled]:
        settled = self._client.settled
        while settled:
            yield settled.popleft()


def _same(one: Publish, other: Publish) -> bool:
    """But for the time that is left of them."""
    return _timeless(one) == _timeless(other)


def _timeless(message: Publish) -> tuple[bytes, int, Properties]:
    properties = message.properties
    if properties.message_expiry_interval is not None:
        properties = replace(properties, message_expiry_interval=0)
    return message.payload, message.qos, properties


def portions(topics: Iterable[bytes]) -> Iterator[list[bytes]]:
    """So few that a broker has room for their messages in a client's queue, and their names in one packet."""
    rest = iter(topics)
    while some := list(islice(rest, PORTION)):
        size, begin = 0, 0
        for at, topic in enumerate(some):
            size += len(topic) + 3
            if size > PORTION_BYTES and at > begin:
                yield some[begin:at]
                size, begin = len(topic) + 3, at
        yield some[begin:]
