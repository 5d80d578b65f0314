"""The loss identity, from what ``/metrics`` exports and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

_IN = ("matched_total", "restored_total")
_OUT = ("delivered_total", "waiting", "handed_over_total")
_DROPPED = "iot_mqtt_messages_dropped_total"
#: Such a message was delivered all the same.
_KEPT_ALL_THE_SAME = 'reason="retained_quota"'


def balance(samples: Mapping[str, float]) -> tuple[float, float]:
    """What came in, and what became of it: two numbers that must be the same."""
    came = sum(samples[f"iot_mqtt_messages_{name}"] for name in _IN)
    went = sum(samples[f"iot_mqtt_messages_{name}"] for name in _OUT)
    dropped = {name: value for name, value in samples.items() if name.startswith(_DROPPED)}
    return came, went + sum(value for name, value in dropped.items() if _KEPT_ALL_THE_SAME not in name)


def assert_balanced(samples: Mapping[str, float] | None) -> None:
    """Nothing vanished, and nothing came from nowhere."""
    assert samples is not None
    came, went = balance(samples)
    figures = {
        name: value
        for name, value in samples.items()
        if name.startswith(("iot_mqtt_messages_", "iot_mqtt_backlog")) and "_created" not in name
    }
    explained = not samples["iot_mqtt_messages_unexplained"]
    assert came == went and explained, f"{came:g} came in, {went:g} are accounted for: {figures}"
