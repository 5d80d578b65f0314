"""The links to gateways as Prometheus text: one row for each codec, and one for each reason where there are reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily

from iot_mqtt.metrics.families import FactsCollector, Family

#: Attribute of ``iot_mqtt.devices.link.LinkCounters``, name after ``iot_mqtt_gateway_``, help.
_COUNTERS = (
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
_REASONS = (
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
        for attribute, name, text in _COUNTERS:
            family = CounterMetricFamily(f"iot_mqtt_gateway_{name}", text, labels=("codec",))
            for codec, counters in facts.items():
                family.add_metric((codec,), float(getattr(counters, attribute)))
            yield family
        for attribute, name, label, text in _REASONS:
            family = CounterMetricFamily(f"iot_mqtt_gateway_{name}", text, labels=("codec", label))
            for codec, counters in facts.items():
                for reason, count in getattr(counters, attribute).items():
                    family.add_metric((codec, reason), float(count))
            yield family
