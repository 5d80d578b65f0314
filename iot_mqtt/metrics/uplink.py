"""Figures of the uplink as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

from iot_mqtt.metrics.families import FactsCollector, Family, counters, gauge, gauges
from iot_mqtt.ports.status import UplinkInfo

_GAUGES = (
    ("lag_messages", "uplink_lag_messages", "Messages that go up and are not safe in the sink."),
    ("lag_bytes", "uplink_lag_bytes", "Bytes of these messages."),
    ("lag_seconds", "uplink_lag_seconds", "How long the oldest of them has been waiting."),
    ("unread_messages", "uplink_unread_messages", "Those of them that the sink has not got."),
    ("in_flight_messages", "uplink_in_flight_messages", "Those of them that it has."),
)
_COUNTERS = (
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
        yield from gauges(facts, _GAUGES)
        yield from counters(facts, _COUNTERS)
        text = "1 while the sink does not take messages, falls behind, or has lost some."
        yield gauge("uplink_alarm", text, facts.state != "ok")
