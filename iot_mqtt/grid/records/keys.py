"""The keys of the caches.

    sessions, wills            client id (UTF-8)
    subscriptions              client prefix │ filter (UTF-8)
    queue                      client prefix │ sequence (8)
    dup, pubrel, received      client prefix │ packet id (2)
    retained                   topic (UTF-8)
    groups                     name of the group's part (UTF-8): its filter, or NUL │ writer │ filter
    shares                     prefix of that name, or of name │ NUL │ client id │ number (8)
    channels                   client id (UTF-8); NUL │ "groups-" │ writer: who gives the groups of that log out
    routes                     node (1) │ filter (UTF-8)
    client prefix            = length (2) │ client id (UTF-8)

The length in front keeps clients apart: no prefix of one client begins a key of another. Sequences and packet
ids are big-endian, so key order is their order.
"""

from __future__ import annotations

from struct import Struct

_LENGTH = Struct(">H")
_SEQUENCE = Struct(">Q")
_PACKET_ID = Struct(">H")

_pack_sequence = _SEQUENCE.pack
_pack_packet_id = _PACKET_ID.pack


def session_key(client_id: str) -> bytes:
    return client_id.encode()


def client_prefix(client_id: str) -> bytes:
    """What every key of one client's entries begins with; worth keeping with the session."""
    name = client_id.encode()
    return _LENGTH.pack(len(name)) + name


def split_prefix(key: bytes) -> tuple[str, bytes]:
    """The client id, and what stands behind the client prefix."""
    end = _LENGTH.size + int(_LENGTH.unpack_from(key)[0])
    return key[_LENGTH.size : end].decode(), key[end:]


def subscription_key(prefix: bytes, filter: str) -> bytes:
    return prefix + filter.encode()


def queue_key(prefix: bytes, sequence: int) -> bytes:
    return prefix + _pack_sequence(sequence)


def sequence_of(key: bytes) -> int:
    """The sequence number at the end of a queue key."""
    return int.from_bytes(key[-8:], "big")


def packet_key(prefix: bytes, packet_id: int) -> bytes:
    return prefix + _pack_packet_id(packet_id)


def packet_id_of(key: bytes) -> int:
    """The packet id at the end of a dup, pubrel or received key."""
    return int.from_bytes(key[-2:], "big")


#: The value of an entry of ``routes``: the key says it all.
ROUTE = b"\x10"


def route_key(node: int, filter: str) -> bytes:
    return bytes((node,)) + filter.encode()


def route_of(key: bytes) -> tuple[int, str]:
    """Node and filter."""
    return key[0], key[1:].decode()


def retained_key(topic: bytes) -> bytes:
    return topic
