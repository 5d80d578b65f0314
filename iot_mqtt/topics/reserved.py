"""Topics on which only the broker speaks, whatever rules there are.

::

    $SYS, $SYS/…                                      what a node says of itself
    $events, $events/…                                what happens to its clients
    status, status/…                                  what has become of a command
    shadow/<target>/delta, shadow/<target>/refused    what a device's shadow asks for, and refuses
    $share/…, $replay/…                               forms of filters: nobody can subscribe to such a topic

Every other topic that begins with ``$`` is a topic like any other, but for wildcards [MQTT-4.7.2-1].
"""

from __future__ import annotations

from typing import Final

#: For reason strings, the log and the API.
RESERVED: Final = "only the broker publishes there"

#: No other topic is reserved: what is asked for every run looks at this first, because a call costs more.
FIRST_BYTES: Final = b"$s"

#: Around the name of a bridge: where mosquitto's say whether they are connected.
_NOTICES: Final = (b"$SYS/broker/connection/", b"/state")
_SHADOW: Final = b"shadow/"
_PREFIXES: Final = (b"$SYS/", b"$events/", b"$share/", b"$replay/", b"status/")
_WHOLE: Final = frozenset((b"$SYS", b"$events", b"$share", b"$replay", b"status"))
_OF_SHADOWS: Final = (b"/delta", b"/refused")


def is_reserved(topic: bytes) -> bool:
    """Whether no client may publish there, also not as its will."""
    if not topic or topic[0] not in FIRST_BYTES:
        return False
    if topic.startswith(_SHADOW):
        return topic.endswith(_OF_SHADOWS) and topic.count(b"/") > 1
    return topic.startswith(_PREFIXES) or topic in _WHOLE


def is_notice_of_a_bridge(topic: bytes) -> bool:
    """Whether a bridge of mosquitto's has its will there unless it is told not to: no reason to keep it out."""
    begin, end = _NOTICES
    return topic.startswith(begin) and topic.endswith(end) and topic.count(b"/") == begin.count(b"/") + 1
