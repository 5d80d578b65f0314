"""The pure-Python twin of the part of ``_scan.pyx`` that puts topics where their aliases were."""

from __future__ import annotations

from iot_mqtt.native._pure_lengths import block_length, long_length, varint
from iot_mqtt.native._pure_runs import publish

#: Bytes of those properties of PUBLISH that always have as many.
_SIZES = {0x01: 1, 0x02: 4, 0x23: 2}


def _property_end(block: bytes, at: int) -> int:
    """Where the property at ``at`` of a PUBLISH ends; -1 if none can be there, or it is cut off."""
    kind = block[at]
    at += 1
    if kind in _SIZES:
        at += _SIZES[kind]
    elif kind == 0x0B:
        size, at = long_length(block, at, len(block), 1)
        if size < 0:
            return -1
    elif kind in (0x03, 0x08, 0x09, 0x26):
        for _ in range(2 if kind == 0x26 else 1):
            if at + 2 > len(block):
                return -1
            at += 2 + (block[at] << 8 | block[at + 1])
    else:
        return -1
    return at if at <= len(block) else -1


def _alias_at(block: bytes) -> int | None:
    """Where in a property block the topic alias stands; -1 if there is none, None if the block is wrong."""
    at, found = 0, -1
    while at < len(block):
        if block[at] == 0x23:
            if found >= 0:
                return None
            found = at
        at = _property_end(block, at)
        if at < 0:
            return None
    return found


def named(data: bytes, pos: int, names: dict[int, bytes], maximum: int, limit: int, most: int) -> tuple[bytes, int]:
    """PUBLISH packets of version 5 from ``pos`` on, with their topics and without aliases; and where the first packet
    stands that is not among them: incomplete, larger than ``limit``, wrong, with an alias that is above ``maximum`` or
    not in ``names``, or no PUBLISH. An alias beside a topic is put into ``names``. It ends
    early, too, behind the packet with which more than ``most`` bytes of topics have been put in place of aliases.
    """
    out: list[bytes] = []
    end = len(data)
    while most >= 0 and end - pos >= 4 and data[pos] >> 4 == 3:
        qos = data[pos] & 6 != 0
        size, at = long_length(data, pos + 1, end, 1)
        stop = at + size
        if size < 2 or stop > end or stop - pos > limit:
            break
        topic_end = at + 2 + (data[at] << 8 | data[at + 1])
        length, payload = block_length(data, topic_end + 2 * qos, stop)
        block = data[payload - length : payload]
        where = _alias_at(block) if payload <= stop else None
        if where is None:
            break
        if where < 0:
            out.append(data[pos:stop])
        else:
            alias, topic = block[where + 1] << 8 | block[where + 2], data[at + 2 : topic_end]
            if not 0 < alias <= maximum or not (topic or alias in names):
                break
            if topic:
                names[alias] = topic
            else:
                topic = names[alias]
                most -= len(topic)
            packet_id = data[topic_end] << 8 | data[topic_end + 1] if qos else 0
            block = varint(length - 3) + block[:where] + block[where + 3 :]
            out.append(publish(data[pos], topic, packet_id, block, data[payload:stop]))
        pos = stop
    return b"".join(out), pos
