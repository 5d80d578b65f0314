"""Topic aliases towards a client."""

from __future__ import annotations

from iot_mqtt.session import OutboundAliases


def test_the_topic_used_longest_ago_gives_way() -> None:
    """Never an alias above what the client announced [MQTT-3.1.2-26]."""
    aliases = OutboundAliases(2)
    assert aliases.assign(b"a") == (1, False)
    assert aliases.assign(b"b") == (2, False)
    assert aliases.assign(b"a") == (1, True)
    assert aliases.assign(b"c") == (2, False)
    assert not aliases.knows(b"b")
    assert aliases.knows(b"a")
