"""``log.topics`` and ``log.record``: filters, checked; and the entries of the former as the log knows them."""

from __future__ import annotations

from collections.abc import Mapping

from iot_mqtt.errors import MqttError
from iot_mqtt.grid.log import TopicRetention
from iot_mqtt.topics import validate_filter

KEYS = ("filter", "retention", "retention_bytes")


def retention_of(entry: Mapping[str, object]) -> TopicRetention:
    """One entry. ValueError says what is wrong with it."""
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; there are {', '.join(KEYS)}")
    filter = entry.get("filter")
    if not isinstance(filter, str):
        raise ValueError("needs a filter")  # noqa: TRY004 - a wrong value of a key, whatever its type
    check_filter(filter)
    seconds, size = _number(entry, "retention"), _number(entry, "retention_bytes")
    return TopicRetention(filter, seconds, None if size is None else int(size))


def check_filter(filter: str) -> None:
    """Raise ``ValueError`` unless topics can be held against it."""
    if filter.startswith("$share/"):
        raise ValueError(f"filter {filter!r}: a shared subscription is none here")
    try:
        validate_filter(filter)
    except MqttError as error:
        raise ValueError(f"filter {filter!r}: {error.detail}") from None


def _number(entry: Mapping[str, object], key: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{key} must be a number, 0 or more, not {value!r}")
    return float(value)
