"""Topic names and topic filters: what is allowed, what matches what, and the forms of shared filters and replays.

The clauses of MQTT 5.0 section 4.7 and 4.8.2 live here; the ones that carry the same number in 3.1.1 say the
same. What can't be right under any broker is ``Malformed``; what only exceeds this broker's limits is
``Refused``. Both carry the reason code that SUBACK, PUBACK or DISCONNECT may send as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from iot_mqtt.errors import Malformed, ReasonCode, Refused

#: Levels a topic or a filter may have; a bound on the work of one match.
MAX_LEVELS = 128
#: The length field of a UTF-8 string has two bytes [MQTT-4.7.3-3].
MAX_BYTES = 65_535

_SHARE = "$share/"
_REPLAY = "$replay/"


def validate_topic(topic: str, max_levels: int = MAX_LEVELS) -> None:
    """Raise unless ``topic`` may be published to."""
    reason = ReasonCode.TOPIC_NAME_INVALID
    _validate_text(topic, "topic", reason)
    if "+" in topic or "#" in topic:
        raise Malformed("wildcard in a topic name", reason)  # [MQTT-4.7.1-1] [MQTT-3.3.2-2]
    if topic.count("/") >= max_levels:
        raise Refused(f"topic has more than {max_levels} levels", reason)


def validate_filter(filter: str, max_levels: int = MAX_LEVELS) -> None:
    """Raise unless ``filter`` may be subscribed to; shared filters and replays included."""
    reason = ReasonCode.TOPIC_FILTER_INVALID
    _validate_text(filter, "filter", reason)
    prefixed = parse_shared(filter) or parse_replay(filter)
    plain = filter if prefixed is None else prefixed[1]
    levels = plain.split("/")
    if len(levels) > max_levels:
        raise Refused(f"filter has more than {max_levels} levels", reason)
    if "#" in plain and ("#" in plain[:-1] or levels[-1] != "#"):
        raise Malformed("'#' must be the whole last level", reason)  # [MQTT-4.7.1-1]
    if "+" in plain and any("+" in level and level != "+" for level in levels):
        raise Malformed("'+' must be a whole level", reason)  # [MQTT-4.7.1-2]


def _validate_text(text: str, what: str, reason: ReasonCode) -> None:
    if not text:
        raise Malformed(f"empty {what}", reason)  # [MQTT-4.7.3-1]
    if "\0" in text:
        raise Malformed(f"U+0000 in a {what}", reason)  # [MQTT-4.7.3-2]
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise Malformed(f"surrogate in a {what}", reason) from None  # [MQTT-1.5.4-1]
    if length > MAX_BYTES:
        raise Malformed(f"{what} of more than {MAX_BYTES} bytes", reason)  # [MQTT-4.7.3-3]


def parse_shared(filter: str) -> tuple[str, str] | None:
    """Split ``$share/<group>/<filter>`` into group and filter; None if it isn't shared. Raises ``Malformed``."""
    if not filter.startswith(_SHARE):
        return None
    group, slash, plain = filter[len(_SHARE) :].partition("/")
    if not group or "+" in group or "#" in group:
        # [MQTT-4.8.2-1] at least one character; [MQTT-4.8.2-2] and none of "/", "+", "#".
        raise Malformed("share name is empty or has a wildcard", ReasonCode.TOPIC_FILTER_INVALID)
    if not slash or not plain:
        raise Malformed("share name without a filter", ReasonCode.TOPIC_FILTER_INVALID)  # [MQTT-4.8.2-2]
    if plain.startswith(_REPLAY):
        raise Refused("a replay can't be shared", ReasonCode.TOPIC_FILTER_INVALID)
    return group, plain


def parse_replay(filter: str) -> tuple[str, str] | None:
    """Split ``$replay/<from>/<filter>`` into where it begins and the filter; None if it is no replay.

    This form is ours, so what is wrong with it is ``Refused``. What ``<from>`` may be is not decided here; it has no
    slash, but the "+" of an offset from UTC.
    """
    if not filter.startswith(_REPLAY):
        return None
    begin, slash, plain = filter[len(_REPLAY) :].partition("/")
    if not slash or not plain or plain.startswith((_SHARE, _REPLAY)):
        raise Refused("a replay is $replay/<from>/<filter>, the filter a plain one", ReasonCode.TOPIC_FILTER_INVALID)
    return begin, plain


def is_wildcard(filter: str) -> bool:
    """True if the filter can match more than one topic. Share names have no wildcards, so shared ones may ask too."""
    return "+" in filter or "#" in filter


def literal_prefix(filter: str) -> str:
    """The levels before the first wildcard, without their last slash: what every matching topic begins with."""
    plus, hash_ = filter.find("+"), filter.find("#")
    if plus < 0 and hash_ < 0:
        return filter
    first = min(position for position in (plus, hash_) if position >= 0)
    return filter[: max(first - 1, 0)]


def prefixes_of(filters: Iterable[str]) -> tuple[bytes, ...]:
    """What all topics begin with that one of these filters matches."""
    return tuple({literal_prefix(filter).encode() for filter in filters})


def matches(filter: str, topic: str) -> bool:
    """True if the (valid, not shared) filter matches the topic: the rule that the trie must agree with."""
    if topic[:1] == "$" and filter[:1] in ("+", "#"):
        return False  # [MQTT-4.7.2-1]
    wanted, levels = filter.split("/"), topic.split("/")
    for want, level in zip(wanted, levels, strict=False):
        if want == "#":
            return True
        if want not in ("+", level):
            return False
    # "sport/#" includes the parent "sport" [MQTT5 4.7.1.2].
    return len(wanted) == len(levels) or (len(wanted) == len(levels) + 1 and wanted[-1] == "#")


def covers(outer: str, inner: str) -> bool:
    """True if every topic that ``inner`` matches is matched by ``outer``; how rights answer a SUBSCRIBE.

    Level by level, so it may say no to filters that only happen to be equivalent (``+/#`` and ``#``), never
    yes wrongly.
    """
    if inner[:1] == "$" and outer[:1] in ("+", "#"):
        return False
    wide, narrow = outer.split("/"), inner.split("/")
    for allowed, asked in zip(wide, narrow, strict=False):
        if allowed == "#":
            return True
        if asked == "#" or allowed not in ("+", asked):
            return False
    return len(wide) == len(narrow) or (len(wide) == len(narrow) + 1 and wide[-1] == "#")


def overlaps(one: str, other: str) -> bool:
    """True if some topic is matched by both filters."""
    if (one[0] == "$") != (other[0] == "$") and (one[0] in "+#" or other[0] in "+#"):
        return False  # [MQTT-4.7.2-1]
    left, right = one.split("/"), other.split("/")
    for here, there in zip(left, right, strict=False):
        if "#" in (here, there):
            return True
        if here != there and "+" not in (here, there):
            return False
    if len(left) == len(right):
        return True
    # "a/#" includes "a" itself; "/#" would include "", which is no topic [MQTT-4.7.3-1].
    longer, both = max(left, right, key=len), min(len(left), len(right))
    return longer[both] == "#" and longer[:both] != [""]
