"""What was published on another node, and comes here over the link with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from iot_mqtt.broker.cluster.links import Links
from iot_mqtt.broker.cluster.other_logs import OtherLogs
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.path import Publishing
from iot_mqtt.broker.publishing.retained_news import RetainedNews
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.turn import Turn
from iot_mqtt.codec import PublishRun, named
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Forwarded
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import LogRun, Reference


class Arrivals:
    """From all peers."""

    def __init__(
        self,
        publishing: Publishing,
        sessions: Sessions,
        groups: SharedGroups,
        logs: OtherLogs,
        links: Links,
        news: RetainedNews,
        turn: Turn,
        clock: Clock,
    ) -> None:
        self._publishing = publishing
        self._sessions = sessions
        self._groups = groups
        self._logs = logs
        self._links = links
        self._news = news
        self._turn = turn
        self._clock = clock

    def received(self, peer: int, items: Sequence[Forwarded], end: int) -> None:
        """See ``ports.cluster.Node``."""
        wall = self._clock.wall()
        for item in items:
            publication = _publication(item, item.run, item.topic, wall)
            reference = item.reference
            if reference is not None:
                publication.logged = LogRun(
                    reference, publication.run, item.topic, item.publisher, item.arrived, item.origin
                )
                if reference.writer == peer:
                    self._logs.announce(peer, publication.logged.end)
            if item.context:
                deliver = partial(self._deliver, peer, publication, item)
                self._publishing.fan_out.follow(publication, item.context, deliver)
            else:
                self._deliver(peer, publication, item)
            for run in item.more:
                self._deliver(peer, _publication(item, run, run.topic, wall), item)
        self._logs.announce(peer, end)
        self._groups.grew(peer)
        self._links.grew(peer)
        self._turn.plan()

    def _deliver(self, peer: int, publication: Publication, item: Forwarded) -> None:
        fan_out, counters = self._publishing.fan_out, self._publishing.fan_out.counters
        counters.messages_from_peers += publication.count
        if publication.run.retain:
            self._news.came((publication.topic,))
        if item.plain:
            match = self._publishing.routes.match(publication.topic)
            if match.plain:
                fan_out.fan_out(publication, match, None)
        for group, client_id in item.members:
            if group.startswith("\0"):
                if item.reference is not None:
                    self._groups.take(peer, publication, group, client_id, item.reference)
            elif not fan_out.deliver_to_member(publication, group, self._sessions.get(client_id)):
                counters.messages_matched += publication.count
                counters.messages_borrowed += publication.count
                counters.dropped[Drop.NO_SHARED_MEMBER] += publication.count

    def group_told(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        """See ``ports.cluster.Node``."""
        self._groups.told(peer, kind, name, client_id, references, question)
        self._turn.plan()


def _publication(item: Forwarded, run: PublishRun, topic: bytes, wall: float) -> Publication:
    # Earlier releases forward aliases.
    arrived = min(item.arrived, wall)
    publication = Publication(named(run, topic), topic, item.publisher, arrived, item.origin)
    publication.remote, publication.again = True, item.again
    # It has waited on its way, maybe for longer than it is meant to live.
    publication.late = publication.expired(wall)
    publication.wait(wall)
    return publication
