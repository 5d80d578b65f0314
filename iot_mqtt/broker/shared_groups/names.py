"""What the parts of a durable group are kept under.

A *part* of a group is what it is owed of one node's log. The part of a sole node's log (writer 0) has the filter as
subscribed for a name; others have the writer in front, which no filter can have there. A share of a part that waits for
one client, whatever becomes of the node that gave it out, has the client's id behind it.

    $share/g/t                   the part of writer 0
    NUL │ writer │ $share/g/t    that of another writer; also the origin of flights, wherever they are
    … │ NUL │ client id          QoS 2 messages that this client may have begun with

Who gives a part to its members is decided by a channel record, like the home of a session: that of ``home_of``, which
no client can have for an id.
"""

from __future__ import annotations

from typing import NamedTuple

_HOME = "\0groups-"
#: Names are prefixes of keys, and their length is written with two bytes.
LONGEST_NAME = 65_535


class GroupName(NamedTuple):
    """A name taken apart."""

    writer: int
    filter: str
    #: Empty: the group's own.
    holder: str


def part_name(writer: int, filter: str) -> str:
    """Of what a group is owed of one log."""
    return f"\0{chr(writer)}{filter}" if writer else filter


def share_name(part: str, holder: str) -> str:
    """Of what a client has of it."""
    return f"{part}\0{holder}" if holder else part


def split_name(name: str) -> GroupName:
    """Any of these names."""
    if not name.startswith("\0"):
        return GroupName(0, name, "")
    filter, _, holder = name[2:].partition("\0")
    return GroupName(ord(name[1]), filter, holder)


def home_of(writer: int) -> str:
    """What the channel record of a log's parts is kept under."""
    return f"{_HOME}{writer}"


def writer_at_home(client_id: str) -> int | None:
    """Whose log's parts a channel record is about; None: a client's."""
    return int(client_id.removeprefix(_HOME)) if client_id.startswith(_HOME) else None
