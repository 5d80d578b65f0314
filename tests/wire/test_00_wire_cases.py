"""The table-driven cases of `cases/*.yaml`: bytes sent, bytes expected, connections closed.

A case is a name, the clauses it covers, the versions it runs in and a list of steps. A step names a connection,
which is opened by its first mention::

    a connect                a CONNECT that must be accepted, with the client id {a}
    a connect durable        the same, with a session that outlives the connection
    a > 30 [ s"{t}" p ]      send a packet in the notation of `notation.py`; several packets may be joined by ;
    a < 50 [ 0001 ok ]       the next packet must match; alternatives are separated by |
    a closed                 the broker closes and has sent nothing more
    a refuse 82 81           v5: DISCONNECT with one of these reasons, then a close; before v5 just a close
    a reject 85 3:02         v5: CONNACK with one of these reasons, then a close; 3: the return codes before v5, where
                             no code at all means a close without CONNACK. A v5 close without CONNACK is permitted
                             by the text and accepted with --lenient, or where the list has a - (3:- for before v5)
    a alive                  PINGREQ is answered, and nothing came before
    a drop                   the network connection breaks
    a bye                    DISCONNECT
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from . import notation
from .client import Client, Mismatch
from .conftest import Broker
from .packets import CONNACK, V5, V31, V311

VERSIONS = {"3.1": V31, "3.1.1": V311, "5": V5}


def collected() -> list[Any]:
    """Every case in every version it runs in, named ``packet/name-of-the-case[version]``."""
    found = []
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml")):
        for case in yaml.safe_load(path.read_text()):
            for version in case.get("versions", ["3.1.1", "5"]):
                name = f"{path.stem}/{case['name'].replace(' ', '-')}[{version}"
                marks = [pytest.mark.variant(case["variant"])] if "variant" in case else []
                found.append(pytest.param(case, VERSIONS[str(version)], id=name, marks=marks))
    return found


class Play:
    """One run of one case."""

    def __init__(self, broker: Broker, version: int) -> None:
        self.broker = broker
        self.version = version
        self.clients: dict[str, Client] = {}
        self.names: dict[str, str] = {}

    def name(self, key: str) -> str:
        """What {key} stands for in this run."""
        if key not in self.names:
            self.names[key] = self.broker.topic("x") if key[0] in "tuvw" else self.broker.name()
        return self.names[key]

    def step(self, line: str) -> None:
        """Do one step."""
        who, what, rest = [*line.split(None, 2), "", ""][:3]
        if what == "connect":
            durable = rest == "durable"
            self.clients[who] = self.broker.connect(
                self.version, self.name(who), clean=not durable, expiry=300 if durable else None
            )
            return
        client = self.clients.get(who)
        if client is None:
            client = self.clients[who] = self.broker.open(self.version, self.name(who))
        getattr(self, f"_{_VERBS[what]}")(client, rest)

    def _send(self, client: Client, rest: str) -> None:
        nodes = [notation.read(part, self.version, self.name) for part in rest.split(" ; ")]
        client.send(*(notation.build(part) for part in nodes))

    def _expect(self, client: Client, rest: str) -> None:
        packet = client.receive()
        if packet is None:
            raise Mismatch(f"expected {rest}, the connection was closed")
        if not any(
            notation.matches(notation.read(part, self.version, self.name), packet.raw) for part in rest.split(" | ")
        ):
            raise Mismatch(f"expected {rest}, got {packet}: {packet.raw[:40].hex(' ')}")

    def _closed(self, client: Client, rest: str) -> None:
        before = client.closed()
        if before:
            raise Mismatch(f"expected a close and nothing before, got {', '.join(map(str, before))}")

    def _refuse(self, client: Client, rest: str) -> None:
        self.broker.refused(client, *(int(word, 16) for word in rest.split()))

    def _reject(self, client: Client, rest: str) -> None:
        words = rest.split()
        mine = [word.removeprefix("3:") for word in words if word.startswith("3:") == (self.version != V5)]
        codes = [int(word, 16) for word in mine if word != "-"]
        silence = "-" in [*mine, *words] or not codes or (self.broker.lenient and self.version == V5)
        before = client.closed()
        if not before and silence:
            return
        wanted = " or ".join([f"CONNACK 0x{code:02X}" for code in codes] + (["a close"] if silence else []))
        if len(before) != 1 or before[0].kind != CONNACK or before[0].reason not in codes:
            shown = ", ".join(map(str, before)) or "a close without CONNACK"
            raise Mismatch(f"expected {wanted}, got {shown}")

    def _alive(self, client: Client, rest: str) -> None:
        client.ping()
        if client.pending:
            raise Mismatch(f"expected nothing before PINGRESP, got {', '.join(map(str, client.pending))}")

    def _drop(self, client: Client, rest: str) -> None:
        client.drop()

    def _bye(self, client: Client, rest: str) -> None:
        client.disconnect()


_VERBS = {
    ">": "send", "<": "expect", "closed": "closed", "refuse": "refuse", "reject": "reject", "alive": "alive",
    "drop": "drop", "bye": "bye",
}  # fmt: skip


@pytest.mark.parametrize(("case", "version"), collected())
def test_the_wire_case(broker: Broker, case: dict[str, Any], version: int) -> None:
    """The broker answers these bytes in the way the specification demands."""
    play = Play(broker, version)
    for line in case["steps"]:
        try:
            play.step(line)
        except AssertionError as error:
            raise type(error)(f"{line[:100]}: {error}") from None
