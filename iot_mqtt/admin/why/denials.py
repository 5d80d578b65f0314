"""Whose rights did not cover a topic: publishers of it are refused, or subscribers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from iot_mqtt.admin.why.facts import Denied, Facts
from iot_mqtt.admin.why.finding import FRESH, Finding, Weight

#: Who is named.
_MOST: Final = 3
_WHAT: Final = {"denied_publish": "may not publish to", "denied_subscribe": "may not subscribe to"}


def of_all(facts: Facts, denied: Iterable[Denied]) -> Iterator[Finding]:
    """The last ones, whatever they asked for."""
    for one in islice(denied, _MOST):
        trouble = one.trouble
        what = _WHAT.get(trouble.code, "may not have")
        text = f"{one.client_id!r} {what} {trouble.topic!r}: it was refused {trouble.count} times"
        weight = Weight.LOSES if facts.now - trouble.last < FRESH else Weight.WAS
        yield Finding(trouble.code, weight, text, trouble.last, facts.node, "iot-mqtt ctl auth may")


def of_publishers(facts: Facts) -> Iterator[Finding]:
    """Those who would send the client what it asks for; what itself was refused is among its troubles."""
    return of_all(
        facts,
        (one for one in facts.denied if one.trouble.code == "denied_publish" and one.client_id != facts.asked),
    )
