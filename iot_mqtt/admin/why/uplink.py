"""What the uplink has to do with it: rules that take a topic, and publishers that wait for the platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iot_mqtt.admin.why.facts import Facts
from iot_mqtt.admin.why.finding import Finding, Weight
from iot_mqtt.uplink.desk import RuleInfo

#: The mode of a rule that takes messages for the platform, and not for subscribers.
_ONLY: Final = "only"
#: The least QoS that a rule wants → which messages it takes.
_OF_QOS: Final = {0: "it", 1: "what is of QoS 1 and 2 there", 2: "what is of QoS 2 there"}


def is_needed(facts: Facts) -> bool:
    """Whether what a client publishes, or what it asks for, waits for the uplink."""
    paused = facts.client is not None and facts.client.paused == "uplink"
    return paused or facts.held > 0 or any(one.mode == _ONLY for one in facts.rules)


def of_rule(node: str, rule: RuleInfo) -> Finding:
    """What a rule does with the messages of a topic."""
    text = f"rule {rule.number} of the uplink ({rule.filter!r}) takes {_OF_QOS[rule.qos]} to {rule.to!r}"
    if rule.mode != _ONLY:
        return Finding("uplink_rule", Weight.SAYS, text, None, node, "iot-mqtt ctl uplink rules")
    text += " and to nobody else: no subscriber gets it"
    helps = "mode: also in that rule; iot-mqtt ctl uplink reload"
    return Finding("uplink_only", Weight.LOSES if rule.qos else Weight.STOPS, text, None, node, helps)


def only(facts: Facts) -> Finding | None:
    """That what was asked for goes to the platform alone, if it does."""
    return next((of_rule(facts.node, one) for one in facts.rules if one.mode == _ONLY), None)


def acknowledgements(facts: Facts) -> Iterator[Finding]:
    """Those of what it has published, under ``uplink.ack: kafka``."""
    if facts.held:
        text = f"{facts.held} messages that it has published are not acknowledged until the uplink has them"
        helps = "iot-mqtt ctl uplink status; uplink.ack"
        yield Finding("acknowledgements_held", Weight.DELAYS, text, None, facts.node, helps)
