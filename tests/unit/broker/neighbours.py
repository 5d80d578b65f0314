"""Another node of the cluster as this one sees it: a log in the same grid, and a link that may lose things."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from iot_mqtt.broker.publication import Publication
from iot_mqtt.codec import Decoder, Publish, PublishRun, encode
from iot_mqtt.grid.log import GridLog
from iot_mqtt.grid.store import GridStore
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.log import Followed, LogRun
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import Node, run


class Sent(NamedTuple):
    """Under way over the link; ``whole`` is False for the first thing behind a hole."""

    run: LogRun
    whole: bool


class Neighbour:
    """A node that publishes. What it records is forwarded with ``deliver``, in order."""

    def __init__(self, node: Node, number: int = 2, *, known: bool = True) -> None:
        self.node = node
        self.number = number
        self.store = GridStore(node.grid, node.clock, Counters())
        self.log = GridLog(node.grid, self.store, node.clock, node.log_settings, number)
        self.link: deque[Sent] = deque()
        #: Who has sent what it records.
        self.publisher = "elsewhere"
        #: Seconds by which its clock is wrong.
        self.skew = 0.0
        self._whole = True
        run(self.log.open())
        if known:
            node.follows = (*node.follows, number)
            node.follow(number)
            node.turn()

    @property
    def reader(self) -> Followed:
        """How the node reads its log."""
        return self.node.broker.readers.logs.others[self.number]

    def record(self, *payloads: bytes, topic: str = "t", qos: int = 1) -> None:
        """Publish in one piece; it is committed, and nobody has been told."""
        packets = [Publish(topic.encode(), payload, qos, packet_id=qos and 1) for payload in payloads]
        (items) = Decoder(version=ProtocolVersion.V5).feed(
            b"".join(encode(packet, ProtocolVersion.V5) for packet in packets)
        )
        for item in items:
            assert isinstance(item, PublishRun)
            logged = self.log.append(item, topic.encode(), self.publisher, self.node.clock.wall() + self.skew)
            self.link.append(Sent(logged, self._whole))
            self._whole = True
        self.store.flush()
        assert self.log.committed_end == self.log.end

    def publish(self, *payloads: bytes, topic: str = "t", qos: int = 1) -> None:
        """Publish, and the link brings it at once."""
        self.record(*payloads, topic=topic, qos=qos)
        self.deliver()

    def deliver(self, count: int | None = None) -> None:
        """The link brings what it has; at the end of it comes how far the log is."""
        broker = self.node.broker
        count = len(self.link) if count is None else min(count, len(self.link))
        for _ in range(count):
            sent = self.link.popleft()
            if not sent.whole:
                broker.readers.elsewhere.stream_broken(self.number)
            self.reader.announce(sent.run.end)
            forward(self.node, sent.run)
        if not self.link:
            if not self._whole:
                broker.readers.elsewhere.stream_broken(self.number)
                self._whole = True
            self.reader.announce(self.log.committed_end)
        self.node.turn()

    def record_unforwarded(self, *payloads: bytes, topic: str = "t", qos: int = 1) -> None:
        """Publish what nobody wants now, because the sessions that want it are away: how far the log is, is all that is
        said of it.
        """
        self.record(*payloads, topic=topic, qos=qos)
        self.link.clear()
        self.reader.announce(self.log.committed_end)

    def lose(self) -> None:
        """What is under way is lost."""
        if self.link:
            self.link.clear()
            self._whole = False

    def restarted(self) -> None:
        """The node has begun a new life, and the link with it."""
        self.link.clear()
        self._whole = False

    def refresh(self) -> None:
        """The node looks for what nobody has announced."""
        run(self.reader.refresh())
        self.node.broker.readers.elsewhere.grew(self.number)
        self.node.turn()


def forward(node: Node, logged: LogRun) -> None:
    """What the link does with a message that is in its sender's log."""
    publication = Publication(logged.run, logged.topic, logged.publisher, logged.arrived)
    publication.remote = True
    publication.logged = logged
    node.broker.publishing.path.fan_out.fan_out(publication, node.broker.routing.routes.match(logged.topic), None)
    node.broker.turn.plan()
