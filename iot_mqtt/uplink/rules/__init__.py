"""``uplink.rules``: which messages go up, where to, and whether subscribers get them too. The first that fits counts.

``entry`` has what can be written, ``choice`` which rule a message goes by; ``expression`` (with ``tokens`` and
``truth``), ``patterns`` and ``templates`` are what entries are made of.
"""

from iot_mqtt.uplink.rules.choice import MAX_NAMES, MAX_TOPICS, Choice, Facts, Names, Rules, client_key
from iot_mqtt.uplink.rules.entry import KEYS, NAMES, Figures, Rule, rule_of, rules_of
from iot_mqtt.uplink.rules.expression import Condition, parse
from iot_mqtt.uplink.rules.templates import folded
from iot_mqtt.uplink.rules.tokens import ExpressionError
from iot_mqtt.uplink.rules.truth import MISSING

__all__ = [
    "KEYS",
    "MAX_NAMES",
    "MAX_TOPICS",
    "MISSING",
    "NAMES",
    "Choice",
    "Condition",
    "ExpressionError",
    "Facts",
    "Figures",
    "Names",
    "Rule",
    "Rules",
    "client_key",
    "folded",
    "parse",
    "rule_of",
    "rules_of",
]
