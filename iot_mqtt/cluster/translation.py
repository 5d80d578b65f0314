"""The broker's words (``ports.cluster``) as items of links, and back.

A shared group's connected members follow their route as texts of their own, so that the links need to know nothing of
groups. A forwarded run is an item as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import Struct, error, pack

from iot_mqtt.cluster import links
from iot_mqtt.codec import run_of_message
from iot_mqtt.errors import Malformed
from iot_mqtt.ports.cluster import Interest
from iot_mqtt.ports.log import Reference
from iot_mqtt.values import Message, OwnedMessage, retained_by, seconds_left

#: What requests about durable groups are called begins with this.
GROUP = "group."
#: Bytes of the part's name and of the client id; both follow, and then the references.
_NAMES = Struct(">HH")
_REFERENCE = Struct(">IIQI")


def interest_out(interest: Iterable[Interest]) -> tuple[links.Route, ...]:
    routes = []
    for one in interest:
        flags = (links.LIVE if one.live else 0) | (links.DURABLE if one.kept else 0)
        routes.append(links.Route(one.filter, flags, len(one.members)))
        routes += [links.Route(member, links.LIVE) for member in one.members]
    return tuple(routes)


def interest_in(routes: Sequence[links.Route]) -> list[Interest]:
    """``Malformed`` if members are missing."""
    interest = []
    at = 0
    while at < len(routes):
        filter, flags, count = routes[at]
        at += 1
        if at + count > len(routes):
            raise Malformed(f"a route says {count} members, and {len(routes) - at} follow")
        members = tuple(route.filter for route in routes[at : at + count])
        at += count
        interest.append(Interest(filter, bool(flags & links.LIVE), bool(flags & links.DURABLE), members))
    return interest


def digest_of(interest: Interest) -> int:
    """Eight bytes that stand for one filter's entry; those of all filters are added up."""
    if interest.none:
        return 0
    parts = [interest.filter, "l" if interest.live else "", "k" if interest.kept else "", *sorted(interest.members)]
    return int.from_bytes(blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big")


def retained_out(topic: bytes, message: Message | None, version: int, wall: float) -> links.Retained:
    if message is None:
        return links.Retained(topic, version, None)
    expiry = None if message.expires_at is None else seconds_left(message.expires_at, wall)
    properties = message.properties if expiry is None else pack(">BI", 0x02, expiry) + message.properties
    run = run_of_message(topic, message.payload, message.qos, retain=True, raw_properties=properties)
    # So that what is whole seconds on the way is the exact time again.
    arrived = wall if message.expires_at is None or expiry is None else message.expires_at - expiry
    return links.Retained(topic, version, run, message.publisher, arrived, retained_by(message))


def retained_in(item: links.Retained) -> Message | None:
    run = item.run
    if run is None:
        return None
    interval = run.properties.message_expiry_interval if run.raw_properties else None
    message = Message(
        item.topic,
        run.payloads()[0],
        run.qos,
        retain=True,
        properties=run.forwardable,
        expires_at=None if interval is None else item.arrived + interval,
        publisher=item.publisher,
    )
    return message if item.user is None else OwnedMessage(message, item.user)


def group_out(name: str, client_id: str, references: Iterable[Reference]) -> bytes:
    """The body of a request about a durable group."""
    part, client = name.encode(), client_id.encode()
    return b"".join(
        (_NAMES.pack(len(part), len(client)), part, client, *(_REFERENCE.pack(*reference) for reference in references))
    )


def group_in(body: bytes) -> tuple[str, str, list[Reference]]:
    """The part's name, the client id and the references; ``Malformed`` if it is not whole."""
    try:
        part, client = _NAMES.unpack_from(body)
        at = _NAMES.size + part
        end = at + client
        references = [Reference(*fields) for fields in _REFERENCE.iter_unpack(body[end:])]
        return body[_NAMES.size : at].decode(), body[at:end].decode(), references
    except (error, UnicodeDecodeError) as cut:
        raise Malformed("a request about a group that is not whole") from cut
