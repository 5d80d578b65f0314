"""Whose rights did not cover a topic, and gateways whose readings are dropped: who publishes there is not heard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from iot_mqtt.admin.why.facts import Denied, Facts
from iot_mqtt.admin.why.finding import Finding
from iot_mqtt.devices.link.repetitions import REPEATED

#: Who is named.
_MOST: Final = 3
#: What keeps messages from coming in.
_INWARD: Final = frozenset({"denied_publish", REPEATED})
_WHAT: Final = {"denied_publish": "may not publish to", "denied_subscribe": "may not subscribe to"}


def of_all(facts: Facts, denied: Iterable[Denied]) -> Iterator[Finding]:
    """The last ones, whatever they asked for."""
    for one in islice(denied, _MOST):
        trouble = one.trouble
        what = _WHAT.get(trouble.code, "may not have")
        text = f"{one.client_id!r} {what} {trouble.topic!r}: it was refused {trouble.count} times"
        helps = "iot-mqtt ctl auth may"
        if trouble.code == REPEATED:
            text = f"{trouble.count} readings of {one.client_id!r} for {trouble.topic!r} were not published, because "
            text += f"their numbers were taken before: {trouble.detail}"
            helps = f"iot-mqtt ctl why {one.client_id}; iot-mqtt ctl devices forget-sequence {one.client_id}"
        yield Finding(trouble.code, facts.weight(trouble), text, trouble.last, facts.node, helps)


def of_publishers(facts: Facts) -> Iterator[Finding]:
    """Those who would send the client what it asks for; what itself was refused is among its troubles."""
    return of_all(
        facts,
        (one for one in facts.denied if one.trouble.code in _INWARD and one.client_id != facts.asked),
    )
