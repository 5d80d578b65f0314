"""What one user tries to gain of what is another's: alice has it, bob asks. A new way to try is a new row.

Where alice and bob connect is the tests' affair: the rows that need no rules hold at one node and at two of a cluster.
"""

from __future__ import annotations

from typing import NamedTuple

#: Rules for everybody in the table: who has which names and topics.
RULES = """[user feeder]
allow all #
allow all $edge/#
[user alice]
allow client alice-*
allow client same-*
allow all alice/#
allow all both/#
[user bob]
allow client bob*
allow client same-*
allow client +
allow client #
allow client a/b
allow client $SYS
allow client %%u
allow all bob/#
allow all both/#
[all]
allow all names/%c/#
allow all %c/own
allow publish qos<=1 noretain limited/%u
allow command bob-gw/#
""".replace("%%u", "%u")


class Take(NamedTuple):
    """bob connects with the client id of alice's session, which is in some state."""

    state: str
    version: int
    clean: bool

    def __str__(self) -> str:
        return f"{self.state}-v{self.version}{'-clean' * self.clean}"


TAKES = [
    Take(state, version, clean)
    for state in ("connected", "kept while connected", "away", "messages wait", "a will is delayed")
    for version in (4, 5)
    for clean in (True, False)
]


class Name(NamedTuple):
    """bob, by a client id with signs that mean something, asks for a filter: it is refused."""

    client_id: str
    filter: str


NAMES = [
    Name("+", "names/+/x"),
    Name("+", "names/alice-1/x"),
    Name("#", "names/#"),
    Name("#", "names/#/x"),
    Name("a/b", "names/a/b/x"),
    Name("a/b", "names/a/x"),
    Name("$SYS", "$SYS/own"),
    Name("$SYS", "$SYS/broker/x"),
    Name("bob-%c", "names/alice-1/#"),
    Name("bob-%u", "names/bob/#"),
    Name("bob+", "names/bob+/x"),
    Name("bob-1", "names/bob-2/#"),
    Name("bob-1", "names/+/#"),
]

#: Topics where only the broker speaks; nobody may publish there in any way.
FORGED = [
    "$SYS/broker/uptime",
    "$SYS",
    "status/alice-gw/press/1",
    "status",
    "shadow/alice-1/delta",
    "shadow/alice-gw/press/refused",
    "$share/g/alice/x",
    "$replay/1h/alice/x",
]

#: Filters by which bob would get what is alice's.
READS = [
    "alice/#",
    "alice/+",
    "alice/x",
    "#",
    "+/x",
    "+/#",
    "$share/g/alice/#",
    "$share/alice/#",
    "$replay/1h/alice/#",
    "$replay/1h/#",
    "$SYS/#",
    "status/#",
    "shadow/alice-1/+",
    "down/alice-1/#",
]


class Write(NamedTuple):
    """bob publishes to a topic in a form, and is refused."""

    topic: str
    qos: int
    retain: bool = False


WRITES = [
    Write("alice/x", 0),
    Write("alice/x", 1),
    Write("alice/x", 2),
    Write("alice/x", 0, retain=True),
    Write("alice/x", 1, retain=True),
    Write("up/alice-gw/press", 1),
    Write("down/alice-gw/press", 1),
    Write("down/bob-gw/press", 0),
    Write("down/bob-gw/press", 1, retain=True),
    Write("shadow/alice-1/desired", 1),
    Write("shadow/alice-1/reported", 1),
    Write("reply/0123", 1),
    Write("limited/bob", 2),
    Write("limited/bob", 1, retain=True),
    Write("limited/alice", 1),
]
