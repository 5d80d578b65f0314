"""Places of messages in a log: what of them is where, and what is left."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from iot_mqtt.ports.log import Reference


def by_position(reference: Reference) -> int:
    """The order in which messages came."""
    return reference.position


def count_of(references: Iterable[Reference]) -> int:
    """How many messages."""
    return sum(reference.length for reference in references)


def places_of(reference: Reference) -> range:
    """The positions of its messages."""
    return range(reference.position, reference.position + reference.length)


def positions_of(references: Iterable[Reference]) -> set[int]:
    """Of all messages."""
    return {position for one in references for position in places_of(one)}


def split(references: Iterable[Reference], positions: Collection[int]) -> tuple[list[Reference], list[Reference]]:
    """What of them is at these positions, and the rest."""
    inside: list[Reference] = []
    outside: list[Reference] = []
    for reference in references:
        begin = 0
        for offset in range(1, reference.length + 1):
            kind = reference.position + begin in positions
            if offset == reference.length or (reference.position + offset in positions) != kind:
                (inside if kind else outside).append(reference.part(begin, offset))
                begin = offset
    return inside, outside


def overlap(one: Reference, others: Iterable[Reference]) -> bool:
    """Whether a message is in both."""
    return any(
        one.position < other.position + other.length and other.position < one.position + one.length for other in others
    )
