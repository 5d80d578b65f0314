"""One real Kafka, alone in KRaft mode, and what tests want of it: topics, everything that is in one, quotas, failures.

Beside the plain listener it has one with TLS and SASL (``secure``), as a plant's Kafka would. It ends with the test
session, also when that is killed; what a test has killed or stopped is back for the next test.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import trustme
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from iot_mqtt.app.engines import Cluster, Member, Places, Plan
from iot_mqtt.app.engines.ports import HOST, Ports
from tests.enginekit.servers import Server, keeping

#: Who may come in at the secure listener.
USERNAME, PASSWORD = "iot", "tide-and-anchor"
_ADMIN_SECONDS = 15.0
_ALTER_CLIENT_QUOTAS = 49


class Found(NamedTuple):
    """One record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    #: Milliseconds since 1970.
    timestamp: int


class _Leaderless(Exception):
    """Part of a topic cannot be read now."""


class KafkaServer(Server):
    """A Kafka that a test may kill, stop and start. Everything blocks until its effect is there."""

    def __init__(self, cluster: Cluster, member: Member, secure: str, ca: Path) -> None:
        super().__init__(cluster, member)
        #: ``host:port`` of the listener with TLS and SASL/PLAIN, and who signed its certificate.
        self.secure = secure
        self.ca = ca

    # Failures, besides ``kill`` and ``start``.

    def stop(self) -> None:
        """SIGSTOP: connections stay, and nothing answers."""
        self.pause()

    def cont(self) -> None:
        """SIGCONT after ``stop``."""
        self.resume()

    # What is in it.

    def make_topic(self, name: str, partitions: int = 3, **config: object) -> str:
        """Make a topic and return its name; ``max_message_bytes=1000`` and the like are its configuration."""
        told = {key.replace("_", "."): str(value) for key, value in config.items()}
        admin = self._admin()
        made = admin.create_topics([NewTopic(name, partitions, 1, config=told)], operation_timeout=_ADMIN_SECONDS)
        made[name].result(_ADMIN_SECONDS)
        deadline = time.monotonic() + _ADMIN_SECONDS
        while len(self.partitions(name)) < partitions:
            assert time.monotonic() < deadline, f"topic {name} is not there"
            time.sleep(0.05)
        return name

    def alter_topic(self, name: str, **config: object) -> None:
        """Change the configuration of a topic."""
        entries = [ConfigEntry(key.replace("_", "."), str(value)) for key, value in config.items()]
        for entry in entries:
            entry.incremental_operation = AlterConfigOpType.SET
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        # Not in one expression: a client that nobody holds is gone before its answer.
        admin = self._admin()
        admin.incremental_alter_configs([resource])[resource].result(_ADMIN_SECONDS)

    def take_less(self, name: str, most: int) -> None:
        """Let a topic take records of so many bytes at most. The answer comes a moment before that is in force, so
        larger ones are put in, all zeros, until one is refused.
        """
        self.alter_topic(name, max_message_bytes=most)
        told: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": self.address})
        while not told or told[-1] is None:
            producer.produce(name, bytes(most + 1000), on_delivery=lambda error, _: told.append(error))
            producer.flush(_ADMIN_SECONDS)
        assert told[-1].code() == KafkaError.MSG_SIZE_TOO_LARGE, told[-1]

    def remove_topic(self, name: str) -> None:
        admin = self._admin()
        admin.delete_topics([name], operation_timeout=_ADMIN_SECONDS)[name].result(_ADMIN_SECONDS)

    def take_records(self, name: str) -> dict[int, int]:
        """Remove every record that is in a topic now, as retention does; where each partition begins then."""
        ends = [TopicPartition(name, partition, OFFSET_END) for partition in self.partitions(name)]
        admin = self._admin()
        taken = admin.delete_records(ends, operation_timeout=_ADMIN_SECONDS)
        return {one.partition: done.result(_ADMIN_SECONDS).low_watermark for one, done in taken.items()}

    def topics(self) -> list[str]:
        return sorted(self._admin().list_topics(timeout=_ADMIN_SECONDS).topics)

    def partitions(self, topic: str) -> list[int]:
        """Those that have a leader."""
        return [partition for partition, leader in self._leaders(topic).items() if leader >= 0]

    def _leaders(self, topic: str) -> dict[int, int]:
        found = self._admin().list_topics(timeout=_ADMIN_SECONDS).topics.get(topic)
        return {} if found is None else {number: one.leader for number, one in sorted(found.partitions.items())}

    def read_all(self, topic: str, seconds: float = 30.0) -> list[Found]:
        """What is in a topic now, partition by partition in order of their offsets. It must not take longer than
        ``seconds``.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._read(topic, deadline)
            except (KafkaException, _Leaderless):
                # A broker that was stopped or killed may have no partitions for another moment.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _read(self, topic: str, deadline: float) -> list[Found]:
        told = {"bootstrap.servers": self.address, "group.id": "tests", "enable.auto.commit": False}
        found: list[Found] = []
        with _closed(Consumer(told)) as consumer:
            ends = {}
            for partition, leader in self._leaders(topic).items():
                if leader < 0:
                    raise _Leaderless(f"{topic}/{partition} has no leader")
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ADMIN_SECONDS)
                if high > low:
                    ends[partition] = high
            consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
            while ends and (left := deadline - time.monotonic()) > 0:
                for message in consumer.consume(10_000, min(left, 0.2)):
                    if (error := message.error()) is not None:
                        raise KafkaException(error)
                    one = _found(message)
                    found.append(one)
                    if one.offset + 1 >= ends.get(one.partition, one.offset + 2):
                        del ends[one.partition]
        assert not ends, f"{topic} could not be read in time: {len(found)} records, not up to {ends}"
        return sorted(found, key=lambda one: one[:2])

    def quota(self, bytes_a_second: float | None) -> None:
        """So much may a client produce; None: as it likes. For all clients."""
        entity = b"\0\0\0\x01" + _text("client-id") + _text(None)
        operation = _text("producer_byte_rate") + struct.pack("!d?", bytes_a_second or 0.0, bytes_a_second is None)
        body = b"\0\0\0\x01" + entity + b"\0\0\0\x01" + operation + b"\0"
        answer = self._request(_ALTER_CLIENT_QUOTAS, body)
        # Throttle time, number of entries, and the first one's error.
        _, _, error = struct.unpack_from("!iih", answer)
        assert not error, f"error {error}"

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address})

    def _request(self, api: int, body: bytes) -> bytes:
        """Version 0 of a request that the library does not have; the answer behind its header."""
        head = struct.pack("!hhi", api, 0, 1) + _text("tests")
        with closing(socket.create_connection((HOST, self.ports["client"]), _ADMIN_SECONDS)) as connection:
            connection.sendall(struct.pack("!i", len(head) + len(body)) + head + body)
            with connection.makefile("rb") as answers:
                (size,) = struct.unpack("!i", answers.read(4))
                return answers.read(size)[4:]


def _text(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else struct.pack("!h", len(text)) + text.encode()


def _found(message: Message) -> Found:
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    headers: Sequence[tuple[str, bytes]] = message.headers() or ()  # type: ignore[assignment]
    return Found(partition, offset, message.key(), message.value(), tuple(headers), message.timestamp()[1])


@contextmanager
def _closed(consumer: Consumer) -> Iterator[Consumer]:
    try:
        yield consumer
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class _SecurePlaces(Places):
    """The checkout, with more in Kafka's configuration than the launcher's own clusters have."""

    secure: str = ""
    keystore: Path = Path()
    more: str = ""

    def template(self, name: str) -> str:
        # Of two lines with the same key the later one counts.
        return Places.template(self, name) + (
            f"listeners=PLAINTEXT://${{client}},CONTROLLER://${{controller}},SECURE://{self.secure}\n"
            f"advertised.listeners=PLAINTEXT://${{client}},SECURE://{self.secure}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL\n"
            "listener.name.secure.sasl.enabled.mechanisms=PLAIN\n"
            "listener.name.secure.plain.sasl.jaas.config="
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USERNAME}="{PASSWORD}";\n'
            f"listener.name.secure.ssl.keystore.type=PEM\n"
            f"listener.name.secure.ssl.keystore.location={self.keystore}\n"
            # Quotas hold within a second or two, instead of ten.
            "quota.window.num=3\n"
            "quota.window.size.seconds=1\n"
            f"{self.more}"
        )


@contextmanager
def running_kafka(folder: Path, more: str = "") -> Iterator[KafkaServer]:
    """Start one on free ports, and end it whatever happens; ``more`` are lines of its configuration. Call it in the
    main thread.

    Nothing in it is ever too old: records of tests have times of long ago, and Kafka looks for such after five minutes.
    """
    secure = f"{HOST}:{Ports().free()}"
    ca, keystore = _certificates(folder)
    places = _SecurePlaces(
        Places.find().checkout, secure=secure, keystore=keystore, more=f"log.retention.ms=-1\n{more}"
    )
    with keeping(folder / "servers", places, Plan.make(kafka=1)) as servers:
        one = KafkaServer(servers.cluster, servers.kafka[0].member, secure, ca)
        servers.all = [one]
        yield one


def _certificates(folder: Path) -> tuple[Path, Path]:
    """The authority's file, and the key and certificate of the server as Kafka wants them."""
    authority = trustme.CA()
    ca, keystore = folder / "ca.pem", folder / "kafka.pem"
    authority.cert_pem.write_to_path(str(ca))
    leaf = authority.issue_cert(HOST)
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    keystore.write_bytes(private + b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    return ca, keystore
