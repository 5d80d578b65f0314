"""Who publishes to a topic faster than it may: its messages come late to everybody who has subscribed to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from iot_mqtt.admin.why.facts import Facts, Publisher
from iot_mqtt.admin.why.finding import Finding, Weight

#: Who is named.
_MOST: Final = 3


def limited(facts: Facts, topic: str, publishers: Iterable[Publisher]) -> Iterator[Finding]:
    """Those that are held off now, the last ones."""
    for one in islice((one for one in publishers if one.limited is not None), _MOST):
        rate = f" ({one.limited})" if one.limited else ""
        text = f"{one.client_id!r} publishes to {topic!r} faster than it may{rate}, and is held off: it comes late"
        helps = f"iot-mqtt ctl limits explain --client {one.client_id}"
        yield Finding("publisher_limited", Weight.DELAYS, text, None, facts.node, helps)
