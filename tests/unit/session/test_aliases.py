"""Topic aliases, both ways."""

from __future__ import annotations

import pytest

from iot_mqtt.errors import ProtocolViolation, ReasonCode
from iot_mqtt.session import InboundAliases, OutboundAliases


def test_an_alias_stands_for_the_topic_it_came_with() -> None:
    """And can be set anew [MQTT-3.3.2-12]."""
    aliases = InboundAliases(2)
    assert aliases.resolve(b"a", 1) == b"a"
    assert aliases.resolve(b"", 1) == b"a"
    assert aliases.resolve(b"b", 1) == b"b"
    assert aliases.resolve(b"", 1) == b"b"


@pytest.mark.parametrize(
    ("alias", "reason"),
    [(0, ReasonCode.TOPIC_ALIAS_INVALID), (3, ReasonCode.TOPIC_ALIAS_INVALID), (2, ReasonCode.PROTOCOL_ERROR)],
)
def test_a_wrong_alias_is_a_violation(alias: int, reason: ReasonCode) -> None:
    """0, above the maximum [MQTT-3.3.2-8] [MQTT-3.3.2-9], or never set."""
    with pytest.raises(ProtocolViolation) as caught:
        InboundAliases(2).resolve(b"", alias)
    assert caught.value.reason is reason


def test_the_topic_used_longest_ago_gives_way() -> None:
    """Never an alias above what the client announced [MQTT-3.1.2-26]."""
    aliases = OutboundAliases(2)
    assert aliases.assign(b"a") == (1, False)
    assert aliases.assign(b"b") == (2, False)
    assert aliases.assign(b"a") == (1, True)
    assert aliases.assign(b"c") == (2, False)
    assert not aliases.knows(b"b")
    assert aliases.knows(b"a")
