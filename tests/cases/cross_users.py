"""What one user tries to gain of what is another's: anna has it, bert asks. A new way to try is a new row.

Where anna and bert connect is the tests' affair: every row holds at one node, and at three of a cluster.
"""

from __future__ import annotations

from typing import NamedTuple

#: Rules for everybody in the table: who has which names and topics.
RULES = """[user feeder]
allow all #
allow all $edge/#
[user anna]
allow gateway anna-*
allow gateway same-*
allow all up/+/press
allow subscribe down/#
allow client anna-*
allow client same-*
allow all anna/#
allow all both/#
allow all shadow/%c/#
[user bert]
allow gateway bert-*
allow gateway same-*
allow client bert*
allow client same-*
allow client +
allow client #
allow client a/b
allow client $SYS
allow client %%u
allow all bert/#
allow all both/#
allow all shadow/%c/#
[all]
allow all names/%c/#
allow all %c/own
allow publish qos<=1 noretain limited/%u
allow command bert-gw/#
""".replace("%%u", "%u")


class Take(NamedTuple):
    """bert connects with the client id of anna's session, which is in some state."""

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
    """bert, by a client id with signs that mean something, asks for a filter: it is refused."""

    client_id: str
    filter: str


NAMES = [
    Name("+", "names/+/x"),
    Name("+", "names/anna-1/x"),
    Name("#", "names/#"),
    Name("#", "names/#/x"),
    Name("a/b", "names/a/b/x"),
    Name("a/b", "names/a/x"),
    Name("$SYS", "$SYS/own"),
    Name("$SYS", "$SYS/broker/x"),
    Name("bert-%c", "names/anna-1/#"),
    Name("bert-%u", "names/bert/#"),
    Name("bert+", "names/bert+/x"),
    Name("bert-1", "names/bert-2/#"),
    Name("bert-1", "names/+/#"),
]

#: Topics where only the broker speaks; nobody may publish there in any way.
FORGED = [
    "$SYS/broker/uptime",
    "$SYS",
    "status/anna-gw/press/1",
    "status",
    "shadow/anna-1/delta",
    "shadow/anna-gw/press/refused",
    "$share/g/anna/x",
    "$replay/1h/anna/x",
]

#: Filters by which bert would get what is anna's.
READS = [
    "anna/#",
    "anna/+",
    "anna/x",
    "#",
    "+/x",
    "+/#",
    "$share/g/anna/#",
    "$share/anna/#",
    "$replay/1h/anna/#",
    "$replay/1h/#",
    "$SYS/#",
    "status/#",
    "shadow/anna-1/+",
    "down/anna-1/#",
]


class Write(NamedTuple):
    """bert publishes to a topic in a form, and is refused."""

    topic: str
    qos: int
    retain: bool = False


WRITES = [
    Write("anna/x", 0),
    Write("anna/x", 1),
    Write("anna/x", 2),
    Write("anna/x", 0, retain=True),
    Write("anna/x", 1, retain=True),
    Write("up/anna-gw/press", 1),
    Write("down/anna-gw/press", 1),
    Write("down/bert-gw/press", 0),
    Write("down/bert-gw/press", 1, retain=True),
    Write("shadow/anna-1/desired", 1),
    Write("shadow/anna-1/reported", 1),
    Write("reply/0123", 1),
    Write("limited/bert", 2),
    Write("limited/bert", 1, retain=True),
    Write("limited/anna", 1),
]


class GatewayTake(NamedTuple):
    """bert asks, by some door, for what anna has by another: a gateway's name and its commands, or a session."""

    hers: str
    state: str
    by: str

    def __str__(self) -> str:
        return f"her-{self.hers}-{self.state}-by-{self.by}"


GATEWAY_TAKES = [
    *(
        GatewayTake("gateway", state, by)
        for state in ("connected", "away", "a command waits")
        for by in ("gateway", "mqtt")
    ),
    *(GatewayTake("mqtt", state, "gateway") for state in ("connected", "away", "messages wait")),
]

#: Names that bert asks for at the gateway port and the rules do not give him.
GATEWAY_NAMES = ["anna-gw", "free-gw", "bert", "bert+", "ANNA-gw", "%u-gw", "bert-/x"]

#: What is taken back, and where it must have an effect.
KINDS = ("disabled", "deleted", "group", "rule", "token")
PLACES = ("publisher", "subscriber", "member", "away", "will", "gateway")
