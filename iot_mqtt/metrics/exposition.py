"""Counters as Prometheus text: read when they are scraped, so that counting stays an integer addition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from iot_mqtt.metrics.facts import ListenerFacts
from iot_mqtt.metrics.families import FactsCollector, Family, counters, gauge, gauges, histogram, labelled, samples
from iot_mqtt.metrics.loop_lag import LoopLag
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.status import BrokerInfo, LogInfo

__all__ = ["Collector", "Metrics"]

#: Attribute of ``Counters``, name after ``iot_mqtt_``, help.
_PLAIN = (
    ("connections_opened", "connections_opened", "Connections accepted."),
    ("connections_closed", "connections_closed", "Connections that ended."),
    ("connects_accepted", "connects_accepted", "CONNECT packets answered with success."),
    ("sheddings", "sheddings", "Times that newcomers were refused because the event loop was late."),
    ("bytes_received", "received_bytes", "Bytes read from clients."),
    ("bytes_sent", "sent_bytes", "Bytes written to clients."),
    ("messages_received", "messages_received", "PUBLISH accepted from clients, wills and the API."),
    ("messages_matched", "messages_matched", "Receivers found for messages, summed."),
    ("messages_restored", "messages_restored", "Messages that waited at the start, or came from another node."),
    (
        "messages_handed_over",
        "messages_handed_over",
        "Messages that went to another node, with a session or for a group.",
    ),
    ("messages_passed_on", "messages_passed_on", "Of those handed over: with sessions whose records say how many."),
    ("messages_taken_over", "messages_taken_over", "Of those restored: what the records of sessions said."),
    ("messages_lent", "messages_lent", "Of those handed over: by links, for members of groups."),
    ("messages_borrowed", "messages_borrowed", "Messages that came by links, for members of groups."),
    ("messages_found", "messages_found", "Of those restored: nobody had said how many there are."),
    ("readers_uncounted", "log_readers_uncounted", "Readers of the log that ended before their messages were counted."),
    ("readers_hurried", "log_readers_hurried", "Times that a reader of a log waited for others no longer."),
    ("messages_unmatched", "messages_unmatched", "Messages that nobody had subscribed to."),
    ("disk_merges", "disk_merges", "Times that the full disk was to give back what removed entries took."),
    ("disk_given_back_bytes", "disk_given_back_bytes", "Bytes that it gave back."),
    ("messages_delivered", "messages_delivered", "Messages handed over (QoS 0) or acknowledged (QoS 1 and 2)."),
    ("messages_resent", "messages_resent", "Messages sent again on a new connection."),
    ("messages_forwarded", "messages_forwarded", "Messages handed to other nodes, once for each node."),
    ("messages_from_peers", "messages_from_peers", "Messages that were published at other nodes."),
    ("commits", "grid_commits", "Batches committed to the grid."),
    ("commit_operations", "grid_commit_operations", "Writes in those batches."),
    ("commit_seconds", "grid_commit_seconds", "Time spent waiting for commits, in seconds."),
    ("commit_failures", "grid_commit_failures", "Batches that the grid did not take."),
)

#: Attribute of ``Counters``, name, label, help.
_LABELLED = (
    (
        "connects_refused",
        "connects_refused",
        "reason",
        "Clients that were not let in.",
    ),
    ("disconnects", "disconnects", "reason", "Connections that ended, by why."),
    ("packets_received", "packets_received", "type", "Packets received."),
    ("packets_sent", "packets_sent", "type", "Packets sent; a PUBLISH of QoS 1 or 2 once it is answered."),
    ("dropped", "messages_dropped", "reason", "Messages that did not reach a receiver."),
    ("forwards_dropped", "forwards_dropped", "reason", "Messages that another node wanted and was not handed."),
    ("messages_refused", "messages_refused", "reason", "Messages that were not stored because there was no room."),
    ("publishers_paused", "publishers_paused", "reason", "Times that a connection was not read from for a while."),
    ("denied", "requests_denied", "action", "Requests that the rules did not allow."),
    ("banned", "banned_clients", "cause", "Clients that a ban kept out, or ended, by why there is one."),
    ("limited", "limits_reached", "limit", "Requests beyond what an identity may use up."),
    ("errors", "protocol_errors", "reason", "Errors of clients that ended their connection."),
)

#: Attribute of ``Counters`` → keys that have a sample before they are counted: Prometheus does not see a growth from no
#: sample to the first count.
_FROM_THE_START: Mapping[str, Iterable[str]] = {"dropped": Drop}

#: Attribute of ``BrokerInfo``, name, help.
_GAUGES = (
    ("clients", "clients", "Connected clients."),
    ("sessions", "sessions", "Sessions, connected or not."),
    ("subscriptions", "subscriptions", "Subscriptions of all sessions of this node."),
    ("retained", "retained_messages", "Retained messages, without the node's own ($SYS)."),
    ("retained_bytes", "retained_bytes", "Bytes of these retained messages."),
    ("retained_system", "retained_system_messages", "Retained messages of the node's own topics ($SYS)."),
    ("queued", "queued_messages", "Messages that wait for a session, in its queue or in the log."),
    ("waiting", "messages_waiting", "Messages that some receiver has not confirmed: queued or in flight."),
    (
        "unexplained",
        "messages_unexplained",
        "Messages of which nobody knows what became: 0, or a fault.",
    ),
    ("backlog", "backlog_messages", "Messages in the log that wait for a session or a group."),
    ("uncounted", "backlog_uncounted", "Sessions and groups whose part of the log is still being counted."),
    ("largest_backlog", "backlog_largest_messages", "Messages in the log that wait for one session or group at most."),
    ("furthest_lag", "backlog_furthest_batches", "Batches that the reader furthest behind has not read."),
    ("paused", "connections_paused", "Connections that are not read from because there is no room."),
    ("inflight", "inflight_messages", "Messages under way to a client and not acknowledged."),
    ("started_at", "start_time_seconds", "When the node started, in seconds since 1970."),
    ("ready", "ready", "1 when every listener accepts, every stored route is loaded, and newcomers are let in."),
)

#: Attribute of ``LogInfo``, name, help.
_LOG_GAUGES = (
    ("messages", "log_messages", "Messages that the log holds."),
    ("bytes", "log_bytes", "Bytes that the log holds."),
    ("generations", "log_generations", "Generations of the log."),
    ("streams", "log_streams", "Streams of all generations."),
    ("disk_used", "disk_used_bytes", "Bytes that the grid takes on disk."),
    ("disk_limit", "disk_limit_bytes", "Bytes that it may take."),
    ("disk_free", "disk_free_bytes", "Bytes that its file system still has."),
    ("inodes", "disk_inodes", "Inodes of its file system; 0: it does not count them."),
    ("inodes_free", "disk_inodes_free", "Inodes that its file system still has."),
    ("uncommitted_bytes", "uncommitted_bytes", "Bytes of messages that wait for a commit."),
    ("uncommitted_operations", "uncommitted_operations", "Writes that wait for a commit."),
)
_LOG_COUNTERS = (
    ("messages_appended", "log_messages_appended", "Messages put into the log."),
    ("bytes_appended", "log_appended_bytes", "Bytes put into the log."),
    ("pages_written", "log_pages_written", "Pages written."),
    ("pages_read", "log_pages_read", "Pages read."),
    ("bytes_read", "log_read_bytes", "Bytes of pages and of the index that were read."),
    ("damaged_pages", "log_damaged_pages", "Pages that could not be read."),
)
#: What ``iot_mqtt_disk_alarm`` is.
_DISK_LEVELS = {"none": 0.0, "alarm": 1.0, "full": 2.0}


class Metrics:
    """What ``/metrics`` answers.

    ``facts`` and ``listeners`` are asked at each scrape. Nothing is registered globally, so that a process may
    hold several nodes.
    """

    content_type: str = CONTENT_TYPE_LATEST

    def __init__(
        self,
        counters: Counters,
        facts: Callable[[], BrokerInfo],
        *others: Collector,
        lag: LoopLag | None = None,
        listeners: Callable[[], Iterable[ListenerFacts]] = tuple,
        log: Callable[[], LogInfo] | None = None,
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_NodeCollector(counters, facts, lag, listeners))
        if log is not None:
            self._registry.register(_LogCollector(log))
        for other in others:
            self._registry.register(other)
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """The whole exposition."""
        return generate_latest(self._registry)


class _NodeCollector(Collector):
    def __init__(
        self,
        counters: Counters,
        facts: Callable[[], BrokerInfo],
        lag: LoopLag | None,
        listeners: Callable[[], Iterable[ListenerFacts]],
    ) -> None:
        self._counters = counters
        self._facts = facts
        self._lag = lag
        self._listeners = listeners

    def collect(self) -> Iterator[Family]:
        facts = self._facts()
        labels = (facts.node_id, facts.version, str(facts.number))
        text = "Which node, which version, which number in its cluster."
        yield samples(GaugeMetricFamily, "info", text, ("node", "version", "number"), [(labels, 1)])
        yield from gauges(facts, _GAUGES)
        yield from counters(self._counters, _PLAIN)
        for attribute, name, label, text in _LABELLED:
            yield labelled(name, label, text, getattr(self._counters, attribute), _FROM_THE_START.get(attribute, ()))
        yield from _listeners(self._listeners())
        latency = self._counters.commit_latency
        yield histogram("grid_commit_latency_seconds", "How long batches took to be committed.", latency)
        text = "How long acknowledgements of messages waited for their commit, from the turn that began it."
        yield histogram("acknowledgement_wait_seconds", text, self._counters.acknowledgement_wait)
        if self._lag is not None:
            yield histogram("loop_lag_seconds", "How late the event loop served a timer.", self._lag)


class _LogCollector(FactsCollector[LogInfo]):
    def families(self, facts: LogInfo) -> Iterator[Family]:
        yield from gauges(facts, _LOG_GAUGES)
        yield from counters(facts, _LOG_COUNTERS)
        text = "0: there is room; 1: 80 % of it are used; 2: what would be stored is refused."
        yield gauge("disk_alarm", text, _DISK_LEVELS[facts.disk_level])
        text = "1 while the grid takes no writes, or cannot be reached."
        yield gauge("grid_failing", text, facts.trouble is not None)


def _listeners(listeners: Iterable[ListenerFacts]) -> Iterator[Family]:
    found = [(listener.name, listener.counts) for listener in listeners]
    accepted = [((name,), counts.accepted) for name, counts in found]
    yield samples(CounterMetricFamily, "listener_accepted", "Connections accepted.", ("listener",), accepted)
    refused = [((name,), counts.refused) for name, counts in found]
    text = "Connections closed at once because there were too many."
    yield samples(CounterMetricFamily, "listener_refused", text, ("listener",), refused)
    why = [((name, reason), count) for name, counts in found for reason, count in sorted(counts.refusals.items())]
    yield samples(CounterMetricFamily, "listener_refusals", "The same by why.", ("listener", "reason"), why)
    present = [((name,), counts.open) for name, counts in found]
    yield samples(GaugeMetricFamily, "listener_connections", "Connections open now.", ("listener",), present)
