"""What a cluster consists of: its servers with their ports, and what they share. Kept as ``cluster.json``.

A plan is made once and then only read, so that a server that was killed comes back on the ports of before and a
second ``up`` starts nothing new.
"""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from iot_mqtt.app.engines.certificates import Pem, files_of
from iot_mqtt.app.engines.errors import EngineError
from iot_mqtt.app.engines.ports import HOST, Ports
from iot_mqtt.whole_files import new_file

KindName = Literal["ignite", "zookeeper", "kafka"]
#: What each server listens on, with the port that its makers gave it; but for Ignite's own 47500 and 47100, which Linux
#: may give to whoever connects somewhere (see ``ports``).
PORTS: Mapping[KindName, Mapping[str, int]] = {
    "zookeeper": {"client": 2181, "quorum": 2888, "election": 3888},
    "ignite": {"client": 10800, "gateway": 10900, "discovery": 11000, "communication": 11100},
    "kafka": {"client": 9092, "controller": 19092},
}
_VERSION = 1
#: Who the certificate of brokers is for, beside those of servers.
BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Member:
    """One server. ``number`` counts from 1 within its kind."""

    name: str
    kind: KindName
    number: int
    ports: Mapping[str, int]

    def at(self, port: str) -> str:
        return f"{HOST}:{self.ports[port]}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The servers of a cluster and what they were told."""

    members: tuple[Member, ...]
    token: str
    kafka_id: str
    persistence: bool = False
    heap_mb: int = 256
    region_mb: int = 256
    #: The directory with the certificates of all servers, and of brokers; None: everything in plain text.
    tls: str | None = None
    #: Each commit to a persistent grid is on the disk before it is acknowledged, not only in the system's memory.
    synced: bool = False

    @classmethod
    def make(
        cls,
        *,
        ignite: int = 0,
        zookeeper: int = 0,
        kafka: int = 0,
        persistence: bool = False,
        synced: bool = False,
        standard_ports: bool = False,
        tls: str | None = None,
    ) -> Plan:
        """So many servers of each kind, on free ports or on those that everybody knows, with a new token."""
        ports = Ports()

        def port(standard: int, number: int) -> int:
            return standard + number - 1 if standard_ports else ports.free()

        members = (*_members("zookeeper", zookeeper, port), *_members("ignite", ignite, port))
        return cls(
            members=(*members, *_members("kafka", kafka, port)),
            token=secrets.token_hex(16),
            kafka_id=base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
            persistence=persistence,
            tls=tls,
            synced=synced,
        )

    def pem(self, name: str) -> Pem | None:
        """The certificate of a server, or of ``broker``; None without TLS."""
        return None if self.tls is None else files_of(Path(self.tls), name)

    @classmethod
    def read(cls, file: Path) -> Plan | None:
        """The plan of a directory; None if none was made."""
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise EngineError(f"cannot read {file}: {error}") from error
        if not isinstance(data, dict) or data.pop("version", None) != _VERSION:
            raise EngineError(f"{file} is of another version: remove its directory and start again")
        members = tuple(Member(**member) for member in data.pop("members"))
        return cls(members=members, **data)

    def write(self, file: Path) -> None:
        """Whole or not at all, and for the owner's eyes: the token is in it."""
        with new_file(file, secret=True) as out:
            out.write(json.dumps({"version": _VERSION, **asdict(self)}, indent=2).encode())

    def of(self, kind: KindName) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.kind == kind)

    def count(self, kind: KindName) -> int:
        return len(self.of(kind))

    def addresses(self, kind: KindName, port: str = "client") -> list[str]:
        return [member.at(port) for member in self.of(kind)]

    def described(self) -> str:
        """Such as ``ignite x3, zookeeper x1``."""
        counted = [f"{kind} x{self.count(kind)}" for kind in get_args(KindName) if self.count(kind)]
        traits = {"persistent": self.persistence, "synced": self.synced, "secure": self.tls is not None}
        return ", ".join([*counted, *(name for name, has in traits.items() if has)])


def _members(kind: KindName, count: int, port: Callable[[int, int], int]) -> Iterator[Member]:
    for number in range(1, count + 1):
        name = kind if kind == "kafka" else f"{kind}-{number}"
        yield Member(name, kind, number, {use: port(known, number) for use, known in PORTS[kind].items()})
