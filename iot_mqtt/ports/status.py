"""What a node says of itself, as values: the same for the API, ``ctl``, metrics and ``$SYS``."""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.ports.uplink import Rejected


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """The node in one look."""

    node_id: str
    version: str
    started_at: float
    #: Every listener accepts, all that is stored is loaded, newcomers are let in, and the grid can be reached.
    ready: bool
    #: "serving", "draining", "drained", "rebalancing", "apart" (not part of the cluster now, or out of reach of the
    #: grid), or "not_ready" (it starts, or stops).
    state: str
    clients: int
    sessions: int
    subscriptions: int
    #: Without those of topics that begin with "$", which no list of "#" shows either.
    retained: int
    retained_bytes: int
    #: Those of the node's own topics, ``$SYS`` above all.
    retained_system: int
    #: Messages in queues and in the log that wait for a session or a group.
    queued: int
    inflight: int
    #: Messages that some receiver has not confirmed: queued, in the log, or under way.
    waiting: int
    #: Of these, what is in no store, and gone if the node is killed.
    in_memory: int
    #: What the loss identity leaves over, since the start; anything but 0 is a fault of the node.
    unexplained: int
    #: Of ``queued``, those in the log.
    backlog: int
    #: Sessions and groups whose part of the log is still being counted.
    uncounted: int
    largest_backlog: int
    #: Batches that the reader furthest behind has not read.
    furthest_lag: int
    #: Connections that are not read from because there is no room.
    paused: int
    #: What an operator should know, in words.
    alarms: tuple[str, ...]
    #: Of the data directory, and of the grid, the node's own or the one that nodes share; None: nothing is kept, or the
    #: node does not say.
    data_format: int | None = None
    grid_format: int | None = None
    #: Of the node among those of its cluster; 0: it is by itself.
    number: int = 0


@dataclass(frozen=True, slots=True)
class LogInfo:
    """The log and the room for it."""

    #: Behind the newest message.
    end: int
    messages: int
    bytes: int
    generations: int
    streams: int
    messages_appended: int
    bytes_appended: int
    pages_written: int
    pages_read: int
    bytes_read: int
    damaged_pages: int
    #: "none", "alarm", "full"
    disk_level: str
    disk_used: int
    disk_limit: int
    disk_free: int
    #: Of the node's file system; 0 of 0: it does not count them.
    inodes: int
    inodes_free: int
    uncommitted_bytes: int
    uncommitted_operations: int
    #: Why commits fail; None: they do not.
    trouble: str | None


@dataclass(frozen=True, slots=True)
class UplinkInfo:
    """What leaves towards the data platform."""

    #: "file" or "kafka".
    kind: str
    #: "ok" or "alarm".
    state: str
    alarms: tuple[str, ...]
    #: What keeps the sink from taking messages; None: nothing.
    trouble: str | None
    #: One log in one life of its data; with a position it is a message's id.
    spool: str
    #: Everything before it is safe.
    position: int
    #: Behind the newest message of the log.
    end: int
    #: Messages and bytes in the log that are not safe in the sink, and how long the oldest of them has been waiting.
    lag_messages: int
    lag_bytes: int
    lag_seconds: float
    #: Those of them that the sink has not got, and those that it has.
    unread_messages: int
    in_flight_messages: int
    #: Since the spool began.
    recorded: int
    #: Since the start.
    sent: int
    sent_bytes: int
    safe: int
    #: Times that the sink failed, and what was not safe was sent again.
    failures: int
    #: Messages that retention removed before they were handed over.
    lost: int
    #: Records that the platform rejected: those among its dead letters, and those that are nowhere.
    dead: int
    dropped: int
    #: The last of them, the newest first.
    rejected: tuple[Rejected, ...] = ()
