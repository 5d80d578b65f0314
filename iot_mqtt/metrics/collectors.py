"""Figures of single parts of a node as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from iot_mqtt.metrics.families import FactsCollector, Family, counter, counters, gauge, gauges, labelled, samples
from iot_mqtt.ports.devices import DeviceFigures, State
from iot_mqtt.ports.status import UplinkInfo

# The uplink.

_UPLINK_GAUGES = (
    ("lag_messages", "uplink_lag_messages", "Messages that go up and are not safe in the sink."),
    ("lag_bytes", "uplink_lag_bytes", "Bytes of these messages."),
    ("lag_seconds", "uplink_lag_seconds", "How long the oldest of them has been waiting."),
    ("unread_messages", "uplink_unread_messages", "Those of them that the sink has not got."),
    ("in_flight_messages", "uplink_in_flight_messages", "Those of them that it has."),
)
_UPLINK_COUNTERS = (
    ("sent", "uplink_sent_messages", "Messages handed to the sink; one that is sent again counts once."),
    ("sent_bytes", "uplink_sent_bytes", "Bytes of these messages, as they were published."),
    ("safe", "uplink_safe_messages", "Messages that the sink has made safe."),
    ("failures", "uplink_failures", "Times that the sink failed and messages were sent again."),
    ("lost", "uplink_lost_messages", "Messages that the log's retention removed before they were handed over."),
    ("dead", "uplink_dead_letters", "Records that the platform rejected and that are among its dead letters."),
    ("dropped", "uplink_dropped_records", "Records that the platform rejected and that are nowhere."),
)


class UplinkCollector(FactsCollector[UplinkInfo]):
    """None while there is no uplink."""

    def families(self, facts: UplinkInfo) -> Iterator[Family]:
        yield from gauges(facts, _UPLINK_GAUGES)
        yield from counters(facts, _UPLINK_COUNTERS)
        text = "1 while the sink does not take messages, falls behind, or has lost some."
        yield gauge("uplink_alarm", text, facts.state != "ok")


# Commands that come from Kafka.


class InboxFigures(Protocol):
    """What takes commands from Kafka; it has an attribute for each row of the tables, too."""

    @property
    def state(self) -> str: ...


_INBOX_GAUGES = (
    ("lag", "inbox_lag_records", "Records with commands that wait in Kafka, in the partitions that are read here."),
    ("under_way", "inbox_under_way", "Those of them that were read, and are not settled."),
)
_INBOX_COUNTERS = (
    ("received", "inbox_received_records", "Records with commands that were read from Kafka."),
    ("accepted", "inbox_accepted_commands", "Commands that they were."),
    ("repeated", "inbox_repeated_commands", "Commands that had come before, dead letters apart."),
    ("expired", "inbox_expired_commands", "Commands whose deadline was over when they came."),
    ("buried", "inbox_dead_letters", "Records that nobody can do as a command."),
    ("postponed", "inbox_postponed", "Times that there was no room for a command, and it was tried again."),
)


class InboxCollector(FactsCollector[InboxFigures]):
    """None where no commands come from Kafka."""

    def families(self, facts: InboxFigures) -> Iterator[Family]:
        yield from gauges(facts, _INBOX_GAUGES)
        yield from counters(facts, _INBOX_COUNTERS)
        yield gauge("inbox_alarm", "1 while commands do not come from Kafka, or wait.", facts.state != "ok")


# Commands, devices and shadows.

_DEVICE_GAUGES = (
    ("waiting", "commands_waiting", "Commands of clients at home here that are not over."),
    ("devices", "devices_known", "Gateways and devices that this node remembers."),
    ("gateways", "gateways_online", "Gateways that are connected here."),
    ("shadows", "shadows_known", "Shadows of which something was reported, as far as they are counted."),
)
_DEVICE_COUNTERS = (
    ("duplicates", "gateway_duplicates", "Frames of gateways that had been taken before."),
    ("forgotten", "devices_forgotten", "Gateways and devices that there was no room to remember."),
    ("bad_replies", "command_replies_bad", "Replies to commands that were not understood."),
    ("shadows_refused", "shadow_values_refused", "Values of shadows that were wrong, or that there was no room for."),
    ("unreadable", "device_records_unreadable", "Records of devices that this version cannot read."),
)


class DevicesCollector(FactsCollector[DeviceFigures]):
    """Every state has a sample from the start, so that rates can be taken."""

    def families(self, facts: DeviceFigures) -> Iterator[Family]:
        states = [((state.value,), facts.states.get(state.value, 0)) for state in State]
        yield samples(CounterMetricFamily, "command_states", "Commands that came to a state.", ("state",), states)
        yield from gauges(facts, _DEVICE_GAUGES)
        yield from counters(facts, _DEVICE_COUNTERS)


# Links to gateways: one row for each codec, and one for each reason where there are reasons.

#: Attribute of ``iot_mqtt.devices.link.LinkCounters``, name after ``iot_mqtt_gateway_``, help.
_LINK_COUNTERS = (
    ("logins", "logins", "Gateways that said who they are and were let in."),
    ("frames", "frames", "Frames that came."),
    ("readings", "readings", "Readings that codecs found in them."),
    ("duplicates", "duplicate_readings", "Readings that had come before and were safe; not published again."),
    ("confirmed", "confirmations", "Times that a gateway asked what is safe and was told."),
    ("commands", "commands", "Commands that the broker had for a gateway."),
    ("skipped_bytes", "skipped_bytes", "Bytes that were no frame and were skipped."),
    ("answers", "command_answers", "Answers of devices to commands."),
)
#: Likewise, with the label's name.
_LINK_REASONS = (
    ("refused", "connections_refused", "reason", "Connections that ended because of the gateway."),
    ("skipped", "frames_skipped", "reason", "Times that bytes were skipped because they were no frame."),
    ("faults", "codec_faults", "reason", "Connections that ended because of the codec."),
    ("dropped", "readings_dropped", "reason", "Readings that could not be published."),
    ("commands_refused", "commands_refused", "reason", "Commands that did not leave."),
    ("events", "codec_events", "event", "What codecs count themselves."),
)


class LinksCollector(FactsCollector[Mapping[str, object]]):
    """The facts are by codec."""

    def families(self, facts: Mapping[str, object]) -> Iterator[Family]:
        for attribute, name, text in _LINK_COUNTERS:
            counts = [((codec,), getattr(counted, attribute)) for codec, counted in facts.items()]
            yield samples(CounterMetricFamily, f"gateway_{name}", text, ("codec",), counts)
        for attribute, name, label, text in _LINK_REASONS:
            by_reason = [
                ((codec, reason), count)
                for codec, counted in facts.items()
                for reason, count in getattr(counted, attribute).items()
            ]
            yield samples(CounterMetricFamily, f"gateway_{name}", text, ("codec", label), by_reason)


# Logins at the admin port.


class LoginFacts(Protocol):
    """What an admin port knows of logins."""

    @property
    def outcomes(self) -> Mapping[str, int]: ...

    @property
    def logins(self) -> int: ...


class AdminCollector(FactsCollector[LoginFacts]):
    """None where there is no admin port."""

    def families(self, facts: LoginFacts) -> Iterator[Family]:
        text = "Logins at this node's admin port: ok, wrong, locked (not looked at), failed (could not be looked at)."
        yield labelled("admin_logins", "outcome", text, facts.outcomes)
        yield gauge("admin_logins_kept", "Logins at admin ports that the grid has.", facts.logins)


# Spans of traces.


class TracesFacts(Protocol):
    """What became of spans."""

    @property
    def waiting(self) -> int: ...

    @property
    def sent(self) -> int: ...

    @property
    def retries(self) -> int: ...

    @property
    def dropped(self) -> Mapping[str, int]: ...


class TracesCollector(FactsCollector[TracesFacts]):
    """None where nothing is traced."""

    def families(self, facts: TracesFacts) -> Iterator[Family]:
        yield gauge("trace_waiting_spans", "Spans that wait for the collector.", facts.waiting)
        yield counter("trace_sent_spans", "Spans that the collector took.", facts.sent)
        yield counter("trace_retries", "Requests that are made again.", facts.retries)
        yield labelled("trace_dropped_spans", "reason", "Spans that nobody gets, by reason.", facts.dropped)


# Events that are posted to addresses of the configuration.

#: Reasons that have a sample before they are counted, so that Prometheus sees the first of each.
_DROPS = ("fault", "queue_full", "refused", "too_large", "unreadable")


class WebhookFacts(Protocol):
    """One address; its name is its place in the configuration."""

    @property
    def name(self) -> str: ...

    @property
    def waiting(self) -> int: ...

    @property
    def sent(self) -> int: ...

    @property
    def dropped(self) -> Mapping[str, int]: ...

    @property
    def failures(self) -> Mapping[str, int]: ...


class WebhooksCollector(FactsCollector[Sequence[WebhookFacts]]):
    """One sample for each address, and for each reason."""

    def families(self, facts: Sequence[WebhookFacts]) -> Iterator[Family]:
        if not facts:
            return
        waiting = [((hook.name,), hook.waiting) for hook in facts]
        yield samples(GaugeMetricFamily, "webhook_waiting_events", "Events that wait.", ("webhook",), waiting)
        sent = [((hook.name,), hook.sent) for hook in facts]
        yield samples(CounterMetricFamily, "webhook_sent_events", "Events that were taken.", ("webhook",), sent)
        dropped = [(hook.name, {**dict.fromkeys(_DROPS, 0), **hook.dropped}) for hook in facts]
        yield _by_reason("webhook_dropped_events", "Events that were told nobody, by reason.", dropped)
        failures = [(hook.name, hook.failures) for hook in facts]
        yield _by_reason("webhook_failures", "Requests that are made again, by reason.", failures)


def _by_reason(name: str, text: str, hooks: Iterable[tuple[str, Mapping[str, int]]]) -> Family:
    counts = [((hook, reason), count) for hook, counted in hooks for reason, count in sorted(counted.items())]
    return samples(CounterMetricFamily, name, text, ("webhook", "reason"), counts)
