"""Alarms of a node: as they are found, and as operators see them, each with its begin, its end, and what would help."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class AlarmKind(Enum):
    """What an alarm is about: its code, and what an operator can do about it, as in ``AlarmInfo``."""

    _value_: tuple[str, str | None]

    ROOM = (
        "room",
        "give the node or the grid servers more room, shorten log.retention, or purge sessions that nobody reads",
    )
    ROOM_OF_DISK = "room", "make room on the node's disk, which others may have filled, or give it a larger one"
    INODES = (
        "inodes",
        "see with df -i; remove small files from the node's file system, or give it one with more inodes",
    )
    GRID = (
        "grid",
        "see the page of the cluster for the servers of the grid; nothing is acknowledged until it takes writes",
    )
    GRID_READS = (
        "grid_reads",
        "see that this node reaches the ports of grid.ignite.addresses; messages stay in the log until it does",
    )
    GRID_LOG_DAMAGED = (
        "grid_log_damaged",
        "restore a backup if what may be lost matters (iot-mqtt backup restore); then remove that file",
    )
    GRID_DAMAGED = (
        "grid_damaged",
        "restore a backup (iot-mqtt backup restore); iot-mqtt ctl log verify says what cannot be read of the log",
    )
    CONFIGURATION = (
        "configuration",
        "mend the file (iot-mqtt config check) and reload it, or put back the one of before",
    )
    COMMIT = "commit", "the disk or the grid is slower than what is published; it passes when they catch up"
    DESCRIPTORS = (
        "descriptors",
        "raise the limit of open files (LimitNOFILE of the unit, ulimit -n) and start the node again",
    )
    BUSY = "busy", "send clients to other nodes (drain or rebalance), or start another node"
    UPLINK_ROOM = (
        "uplink_room",
        "remove files of the uplink that were read, or change the key; messages are kept in the log until then",
    )
    UPLINK_TROUBLE = (
        "uplink_trouble",
        "see that the platform can be reached, or the directory written to; messages stay in the log until then",
    )
    UPLINK_BEHIND = (
        "uplink_behind",
        "more partitions or brokers of the platform, or fewer messages by the rules of the uplink",
    )
    UPLINK_LOST = "uplink_lost", "a longer log.retention keeps more for a platform that is away"
    UPLINK_REJECTED = (
        "uplink_rejected",
        "see the records and the topic of the dead letters, which has to be there and writable",
    )
    RETENTION = (
        "retention",
        "iot-mqtt ctl slow names who is behind, ctl audit list who dropped; a longer log.retention keeps more",
    )
    ACCESS_FILE = (
        "access",
        "mend the file, or who may read it: it is read without a restart. Until then users disabled in it get in",
    )
    ACCESS_SERVICE = (
        "access",
        "see that its address can be reached from this node, and answers. Until then clients may not get in",
    )
    AUDIT = "audit", "see that the node can write below audit in its data directory; it goes on by itself"
    LOG_FILE = (
        "log_file",
        "let a plain file that the node may write have the name that log.file has; it is opened by itself",
    )
    CLOCK = (
        "clock",
        "have NTP (chrony, systemd-timesyncd) set the clock of that machine; a node measures it again by itself",
    )
    NODE_GONE = (
        "node_gone",
        "start the node again; one that will not come back is removed (iot-mqtt ctl cluster remove)",
    )
    REVOCATION_LIST = (
        "revocation_list",
        "put the authority's list of now in place of the old one; it is read without a restart",
    )
    CERTIFICATE = "certificate", "put new files in place of the old ones; they are read without a restart"
    CODEC = "codec", "look at the plugin's faults, and reload it, or go back to the version before"
    COMMANDS = (
        "commands",
        "see that the topics of commands and dead letters are there, and that the node may read and write them",
    )
    WEBHOOK = "webhook", "see that the receiver answers, and fast enough"
    OTHER = "other", None


@dataclass(frozen=True, slots=True)
class Alarm:
    """What is the matter now, as whoever finds it says it."""

    kind: AlarmKind
    #: In words, with the figures of now.
    text: str
    #: The part of the text that says why, if that may change while it goes on.
    cause: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class AlarmInfo:
    """One alarm."""

    #: What it is about, such as "room"; "other" where nothing more is known.
    code: str
    #: In words, with the figures of its last second.
    text: str
    #: Seconds since 1970.
    since: float
    #: None: it goes on.
    until: float | None
    #: What an operator can do about it; None: the text says all there is.
    helps: str | None
