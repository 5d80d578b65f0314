"""What the configuration says about Kafka, and what of the library's own properties it may not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MIB = 1 << 20
#: No property of the library, ever.
_NO_PROPERTY = "iot.mqtt.none"

#: Properties that are ours to set, and why. Names that librdkafka has two of stand here twice.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("acks", "request.required.acks"), "a record is safe when all replicas have it"),
    "enable.idempotence": "without it a retry can change the order, or write a record twice",
    "enable.gapless.guarantee": "without it a rejected record would be left out in silence",
    **dict.fromkeys(("max.in.flight", "max.in.flight.requests.per.connection"), "the order of records depends on it"),
    **dict.fromkeys(("retries", "message.send.max.retries"), "the log keeps what is not safe, so nothing is given up"),
    **dict.fromkeys(
        ("delivery.timeout.ms", "message.timeout.ms"), "the log keeps what is not safe, so nothing is given up"
    ),
    "transactional.id": "the uplink does not use transactions",
    "message.max.bytes": "what is too large for a topic is for the topic to say",
    **dict.fromkeys(
        ("queue.buffering.max.messages", "queue.buffering.max.kbytes"), "uplink.kafka.buffer_bytes bounds what waits"
    ),
    "delivery.report.only.error": "the sink needs its reports as they are",
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), "uplink.kafka.bootstrap_servers says that"),
    **dict.fromkeys(("compression.type", "compression.codec"), "uplink.kafka.compression says that"),
    **dict.fromkeys(("linger.ms", "queue.buffering.max.ms"), "uplink.kafka.linger_seconds says that"),
    "batch.size": "uplink.kafka.batch_bytes says that",
    "security.protocol": "uplink.kafka.security.protocol says that",
    "ssl.ca.location": "uplink.kafka.security.ca says that",
    "ssl.certificate.location": "uplink.kafka.security.cert says that",
    "ssl.key.location": "uplink.kafka.security.key says that",
    **dict.fromkeys(("sasl.mechanism", "sasl.mechanisms"), "uplink.kafka.security.mechanism says that"),
    "sasl.username": "uplink.kafka.security.username says that",
    "sasl.password": "uplink.kafka.security.password says that",
}
#: Partitioners that put records of one key into one partition.
PARTITIONERS = ("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random")


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """``uplink.kafka.security.*``; paths are those of PEM files."""

    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    username: str | None = None
    password: str | None = None

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("sasl")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """``uplink.kafka.*``."""

    bootstrap_servers: tuple[str, ...] = ("127.0.0.1:9092",)
    compression: Literal["none", "lz4", "snappy", "zstd", "gzip"] = "lz4"
    #: So long a batch waits for more records.
    linger_seconds: float = 0.01
    #: Bytes of one batch of one partition, at most.
    batch_bytes: int = 1_000_000
    #: Bytes that may be under way; more waits in the log.
    buffer_bytes: int = 32 * MIB
    #: Where records go that Kafka will not take; None: nowhere.
    dead_letters: str | None = "iot.dead"
    #: Make topics that are not there, with so many partitions and replicas; 0: what Kafka's own configuration says.
    create_topics: bool = False
    partitions: int = 0
    replication: int = 0
    security: SecuritySettings = SecuritySettings()
    options: Mapping[str, object] = field(default_factory=dict)


def text_of(value: object) -> str:
    """A value as librdkafka reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def properties(settings: KafkaSettings) -> dict[str, str]:
    """The properties that every client of ours has."""
    security = settings.security
    found = {
        "bootstrap.servers": ",".join(settings.bootstrap_servers),
        "client.id": "iot-mqtt",
        "security.protocol": security.protocol,
        # A broker that hangs is left for another one after this.
        "socket.timeout.ms": "10000",
        "socket.keepalive.enable": "true",
        "reconnect.backoff.ms": "100",
        "reconnect.backoff.max.ms": "1000",
        "log.connection.close": "false",
        # The one that Kafka's own clients have: a key's partition is the same whoever writes it.
        "partitioner": "murmur2_random",
    }
    paths = {
        "ssl.ca.location": security.ca,
        "ssl.certificate.location": security.cert,
        "ssl.key.location": security.key,
    }
    found |= {name: path for name, path in paths.items() if path is not None}
    if security.sasl:
        found["sasl.mechanism"] = security.mechanism
        found["sasl.username"] = security.username or ""
        found["sasl.password"] = security.password or ""
    return found | {name: text_of(value) for name, value in settings.options.items()}


def producing(settings: KafkaSettings) -> dict[str, str]:
    """The properties of a producer, those of ``properties`` included."""
    return properties(settings) | {
        "acks": "all",
        "enable.idempotence": "true",
        # What is under way is never given up by time: the uplink waits with it, and the log keeps the rest.
        "delivery.timeout.ms": "0",
        "compression.type": settings.compression,
        "linger.ms": f"{settings.linger_seconds * 1000:g}",
        # The sink bounds what is under way; the library's own bounds only have to be beyond that.
        "queue.buffering.max.messages": "0",
        "queue.buffering.max.kbytes": "2097151",
        "message.max.bytes": "400000000",
        "batch.num.messages": "100000",
        # Soon known, for a topic that vanishes under what is under way.
        "topic.metadata.propagation.max.ms": "3000",
    }


def refusal(name: str, value: object) -> str | None:
    """Why an option cannot be set; None: it can, if the library knows it."""
    if (why := REFUSED.get(name)) is not None:
        return f"{name} cannot be set: {why}"
    if name == "partitioner" and value not in PARTITIONERS:
        return f"partitioner must be one of {', '.join(PARTITIONERS)}, or records of one key would lose their order"
    if not isinstance(value, str | int | float):
        return f"{name} must be a text, a number, true or false"
    return None


def unknown_option(options: Mapping[str, object]) -> str | None:
    """What librdkafka itself says against options; None: nothing."""
    if not options:
        return None
    # Asked only where there is something to ask: whoever has no Kafka need not wait for its library.
    from confluent_kafka import KafkaException, Producer

    # It reads them in order and stops at the first that it does not like, before it starts anything.
    told = {**{name: text_of(value) for name, value in options.items()}, _NO_PROPERTY: ""}
    try:
        Producer(told)
    except KafkaException as error:
        text: str = error.args[0].str()
        return None if _NO_PROPERTY in text else text
    return None
