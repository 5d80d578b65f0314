"""The broker's own settings, as frozen values; ``app.config`` fills them from ``application.yaml``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    """``mqtt.application.*``: what clients of the class application have, in place of the keys of ``mqtt``."""

    receive_maximum: int = 1024
    max_queued_messages: int = 1_000_000
    max_queued_bytes: int = 1024 * 1024 * 1024
    max_inflight: int = 8192
    #: Messages that all of them together read of the log between two turns of the others.
    messages_a_turn: int = 500
    #: Bytes that may wait for one connection.
    outbox_high: int = 4 * 1024 * 1024
    outbox_low: int = 1024 * 1024
    outbox_limit: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """``mqtt.traffic.*``: PUBLISH that comes in, a second; 0: no limit."""

    #: Of all clients of the node.
    message_rate: float = 0.0
    byte_rate: float = 0.0
    #: Of all clients of one address.
    address_message_rate: float = 0.0
    address_byte_rate: float = 0.0
    #: Seconds of any such rate that may come at once.
    burst: float = 1.0


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """``mqtt.*``: what is announced in CONNACK, and the limits behind it."""

    #: QoS 1/2 publishes a client may have unacknowledged towards us.
    receive_maximum: int = 1024
    #: Aliases a client may use towards us; 0 turns them off.
    topic_alias_maximum: int = 64
    #: Aliases we assign towards a client at most, within what it announced.
    topic_alias_maximum_outbound: int = 64
    #: Largest packet in bytes, refused at the fixed header.
    max_packet_size: int = 1_048_576
    max_qos: int = 2
    retain_available: bool = True
    wildcard_available: bool = True
    shared_available: bool = True
    subscription_identifiers_available: bool = True
    #: Seconds; 0: the client's own keep-alive holds.
    server_keep_alive: int = 0
    #: Longest session expiry in seconds; also what clean_session=0 of 3.x means.
    session_expiry_interval: int = 7 * 24 * 3600
    #: Seconds from accept to CONNECT.
    connect_timeout: float = 10.0
    #: Bytes of a CONNECT.
    max_connect_size: int = 65_536
    #: Bytes of all connections that have not logged in yet.
    max_connecting_bytes: int = 16 * 1024 * 1024
    max_handshakes: int = 2000
    #: Connections whose clients have not said who they are; 0: half of all of them, a quarter.
    max_half_open: int = 10_000
    max_half_open_per_listener: int = 0
    max_half_open_per_address: int = 0
    #: Bytes that wait in the outboxes of all connections.
    max_outbox_bytes: int = 512 * 1024 * 1024
    #: Bytes of packets of all connections that have begun and are not complete.
    max_unfinished_bytes: int = 256 * 1024 * 1024
    #: Sessions, connected or not; of those that may outlive their connection (0: nine tenths of all).
    max_sessions: int = 1_000_000
    max_kept_sessions: int = 0
    #: Subscriptions of all sessions of this node, and the bytes of their filters.
    max_subscriptions: int = 10_000_000
    max_subscription_bytes: int = 1024 * 1024 * 1024
    #: Messages that wait for one session.
    max_queued_messages: int = 100_000
    #: Bytes that wait for one session.
    max_queued_bytes: int = 256 * 1024 * 1024
    #: Bytes that wait for all such sessions; each may have a mebibyte in any case.
    max_queued_bytes_in_all: int = 2 * 1024 * 1024 * 1024
    #: QoS 1/2 messages under way to one client (also bounded by its Receive Maximum).
    max_inflight: int = 1024
    max_client_id_length: int = 256
    #: Empty client ids of clean 3.1.1 and 5.0 clients get one from us.
    allow_empty_client_id: bool = True
    max_topic_levels: int = 128
    max_subscriptions_per_client: int = 10_000
    max_filters_per_subscribe: int = 10_000
    #: Replays of one session.
    max_replays_per_client: int = 16
    #: Replays of all clients that have not reached the present.
    max_replays: int = 1000
    #: Bytes of the log that are read for all of them at once, about.
    replay_bytes: int = 8 * 1024 * 1024
    #: Retained messages and their bytes, on this node.
    max_retained_messages: int = 1_000_000
    max_retained_bytes: int = 1_073_741_824
    #: round_robin | sticky | hash_client | hash_topic | least_inflight
    shared_policy: str = "round_robin"
    #: Given in CONNACK and DISCONNECT when set (MQTT 5 server reference).
    server_reference: str = ""
    response_information: str = ""
    #: Seconds between refreshes of the ``$SYS`` tree; 0 turns it off.
    sys_interval: float = 10.0
    application: ApplicationSettings = ApplicationSettings()
    traffic: TrafficSettings = TrafficSettings()


@dataclass(frozen=True, slots=True)
class LogUse:
    """The part of ``log.*`` and ``durable_sessions.*`` that the broker itself needs."""

    #: Messages that one reader takes at once.
    batch_size: int = 500
    #: Filters whose messages are logged even if nobody durable wants them, for replays.
    record: tuple[str, ...] = ()
    #: Seconds that what QoS 1 changes of a session's progress may be unwritten; 0: it leaves with each turn's batch.
    progress_delay: float = 0.0


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """What the node may fill before publishers are held off."""

    #: Bytes of the grid on disk; 0: no limit but the disk's.
    disk_limit: int = 0
    #: Bytes that the file system keeps free.
    disk_reserve: int = 0
    #: What it is that is measured, in words.
    subject: str = "disk"
    #: Bytes and operations that may wait for a commit.
    uncommitted_bytes: int = 64 * 1024 * 1024
    uncommitted_operations: int = 200_000
