"""The three kinds of servers: what each reads, how Java is called for it, and how it shows that it works.

``prepare`` writes a server's files into its folder and returns Java's arguments; ``role`` raises ``NotThere`` until
the server does its work.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from string import Template
from tempfile import NamedTemporaryFile
from typing import NamedTuple, Protocol

from iot_mqtt.app.engines import engine_tls, probe
from iot_mqtt.app.engines.places import Places
from iot_mqtt.app.engines.plan import KindName, Member, Plan
from iot_mqtt.app.engines.ports import HOST

#: For a JVM that is to be there soon, on a machine whose cores it has to share: the optimizing compiler takes them
#: for minutes, in which every commit waits for it.
_SMALL = ("-XX:TieredStopAtLevel=1", "-XX:-UseG1GC", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData")
#: The heap that each begins with; it grows when there is something to do.
_START_HEAP_MB = 64
_ENOUGH_FOR_A_QUORUM = 3


class Role(NamedTuple):
    """What a working server says of itself, and how many of its kind it sees, itself included, if it tells."""

    name: str
    sees: int | None = None
    #: Partitions of the grid that have fewer copies than they should, if it tells.
    copies_missing: int | None = None


class Kind(Protocol):
    """One kind of server. Stateless: everything is in the plan."""

    @property
    def again(self) -> tuple[int, ...]:
        """Exit codes with which it asks to be started again."""
        ...

    def prepare(self, plan: Plan, member: Member, folder: Path, places: Places) -> list[str]: ...

    def role(self, plan: Plan, member: Member) -> Role: ...


class Zookeeper:
    """Alone (``standalone``) or as one of an ensemble (``leader``, ``follower``)."""

    again = ()

    def prepare(self, plan: Plan, member: Member, folder: Path, places: Places) -> list[str]:
        data = folder / "data"
        data.mkdir(exist_ok=True)
        ensemble = plan.of("zookeeper")
        servers, pem = "", plan.pem(member.name)
        if len(ensemble) > 1:
            (data / "myid").write_text(f"{member.number}\n", encoding="ascii")
            servers = "".join(
                f"server.{one.number}={HOST}:{one.ports['quorum']}:{one.ports['election']}"
                + (f";{one.at('client')}\n" if pem is None else "\n")
                for one in ensemble
            )
        elif pem is None:
            servers = f"clientPortAddress={HOST}\nclientPort={member.ports['client']}\n"
        if pem is not None:
            servers += engine_tls.zookeeper(pem, HOST, member.ports["client"])
        config = folder / "zoo.cfg"
        text = Template(places.template("zoo.cfg")).substitute(data=data, servers=servers)
        config.write_text(text, encoding="utf-8")
        return [
            *_jvm(plan, places, "zookeeper", places.jars("zookeeper")),
            "-Dzookeeper.admin.enableServer=false",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(config),
        ]

    def role(self, plan: Plan, member: Member) -> Role:
        return Role(probe.zookeeper(member.ports["client"], tls=engine_tls.client(plan)))


class Ignite:
    """A server node of the grid with the messaging gateway inside it."""

    #: It was dropped by the others, has lost the quorum or is out of heap; and: Ignite halted it.
    again = (3, 130)

    def prepare(self, plan: Plan, member: Member, folder: Path, places: Places) -> list[str]:
        work = folder / "work"
        work.mkdir(exist_ok=True)
        properties = {
            "iot.ignite.name": member.name,
            "iot.ignite.work": work,
            "iot.ignite.client.port": member.ports["client"],
            "iot.ignite.discovery.port": member.ports["discovery"],
            "iot.ignite.discovery.addresses": ",".join(plan.addresses("ignite", "discovery")),
            "iot.ignite.communication.port": member.ports["communication"],
            "iot.ignite.quorum": quorum(plan.count("ignite")),
            "iot.ignite.region.bytes": plan.region_mb * 1024 * 1024,
            "iot.ignite.persistence": str(plan.persistence).lower(),
            "iot.gateway.host": HOST,
            "iot.gateway.port": member.ports["gateway"],
            "iot.gateway.token": plan.token,
        }
        if plan.synced:
            properties["iot.ignite.wal"] = "FSYNC"
        if (pem := plan.pem(member.name)) is not None:
            properties |= engine_tls.ignite(pem)
        return [
            *shlex.split(places.template("ignite-java17.opts"), comments=True),
            *_jvm(plan, places, "ignite", [_kept(jar) for jar in places.jars("ignite")]),
            *_defines(properties),
            "org.apache.ignite.startup.cmdline.CommandLineStartup",
            str(places.config / "ignite-server.xml"),
        ]

    def role(self, plan: Plan, member: Member) -> Role:
        # A persistent grid is made active by its gateways when everybody is there; until then they refuse.
        servers, missing = probe.gateway(member.ports["gateway"], plan.token, tls=engine_tls.client(plan))
        if not probe.ignite_active(member.ports["client"], tls=engine_tls.client(plan)):
            raise probe.NotThere("it is not active yet")
        return Role("server", servers, missing)


class Kafka:
    """Broker and controller in one process (KRaft)."""

    again = ()

    def prepare(self, plan: Plan, member: Member, folder: Path, places: Places) -> list[str]:
        data = folder / "data"
        data.mkdir(exist_ok=True)
        # What `kafka-storage format` writes. Kafka adds the rest, and the format of its release, by itself.
        meta = data / "meta.properties"
        if not meta.exists():
            meta.write_text(f"version=1\ncluster.id={plan.kafka_id}\nnode.id={member.number}\n", encoding="ascii")
        config = folder / "kafka.properties"
        text = Template(places.template("kafka.properties")).substitute(
            node=member.number, client=member.at("client"), controller=member.at("controller"), data=data
        )
        if (pem := plan.pem(member.name)) is not None:
            text = engine_tls.kafka(text, pem)
        config.write_text(text, encoding="utf-8")
        return [*_jvm(plan, places, "kafka", places.jars("kafka")), "kafka.Kafka", str(config)]

    def role(self, plan: Plan, member: Member) -> Role:
        answer = probe.kafka(member.ports["client"], tls=engine_tls.client(plan))
        if not answer.brokers:
            raise probe.NotThere("it knows no broker yet, itself included")
        return Role("controller" if answer.controller == member.number else "broker", answer.brokers)


KINDS: Mapping[KindName, Kind] = {"ignite": Ignite(), "zookeeper": Zookeeper(), "kafka": Kafka()}


def quorum(servers: int) -> int:
    """With fewer Ignite servers than this nothing is answered. Of two, one would be too few and two too many."""
    return servers // 2 + 1 if servers >= _ENOUGH_FOR_A_QUORUM else 1


def argument_file(arguments: list[str]) -> str:
    """Arguments as ``java @file`` reads them, each in quotes. What is in a file is not in everybody's ``ps``."""
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"') for argument in arguments)
    return "".join(f'"{argument}"\n' for argument in quoted)


def _kept(jar: Path) -> Path:
    """A jar of ours is copied: it may be made again while the server reads classes from it. By what is in it, so that
    the same one is the same file, for which there may be an archive.
    """
    if not jar.name.startswith("iot-"):
        return jar
    content = jar.read_bytes()
    copy = jar.parent.parent / "kept" / f"{sha256(content).hexdigest()[:16]}-{jar.name}"
    if not copy.exists():
        copy.parent.mkdir(exist_ok=True)
        with NamedTemporaryFile(dir=copy.parent, delete=False) as file:
            file.write(content)
        Path(file.name).replace(copy)
    return copy


def _classes(places: Places, kind: KindName) -> list[str]:
    """Where Java leaves its classes, or finds them. It passes over an archive that does not fit its jars."""
    quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    if places.making is not None:
        return [*quiet, f"-XX:ArchiveClassesAtExit={places.making / places.archive(kind).name}"]
    archive = places.archive(kind)
    return [*quiet, f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def _jvm(plan: Plan, places: Places, kind: KindName, jars: list[Path]) -> list[str]:
    return [
        *_classes(places, kind),
        f"-Xms{min(_START_HEAP_MB, plan.heap_mb)}m",
        f"-Xmx{plan.heap_mb}m",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.net.preferIPv4Stack=true",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
        *_SMALL,
        "-cp",
        ":".join(map(str, jars)),
    ]


def _defines(properties: Mapping[str, object]) -> list[str]:
    return [f"-D{name}={value}" for name, value in properties.items()]
