"""The alarms of one life of a node: which go on and since when, and the last of those that are over.

What raises an alarm says it in words, and the words have figures in them that change from second to second. Two texts
are of the same alarm if they differ in figures only.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from iot_mqtt.ports.alarms import AlarmInfo

#: Alarms that are over and still shown.
KEPT: Final = 200
#: Those that go on, at once; of more only the first ones are known.
MOST: Final = 1000
LONGEST: Final = 500

#: A number that stands by itself, with its unit or without, and is no part of a name such as press-7.
_FIGURE: Final = re.compile(r"(?<![\w./:-])\d+(?:[.,]\d+)*(?:[num]?s|min|[hd]|[kKMGT]?i?B)?(?![\w/:-])")
#: What a text begins with or has in it → its code, and what helps.
_KNOWN: Final = tuple(
    (re.compile(pattern), code, helps)
    for pattern, code, helps in (
        (
            r"^[\w ]*\b(?:alarm|full): .* bytes used",
            "room",
            "give the node or the grid servers more room, shorten log.retention, or purge sessions that nobody reads",
        ),
        (
            r"^disk (?:alarm|full): .* inodes used",
            "inodes",
            "see with df -i; remove small files from the node's file system, or give it one with more inodes",
        ),
        (
            r"^disk full: .* have to stay free",
            "room",
            "make room on the node's disk, which others may have filled, or give it a larger one",
        ),
        (
            r"^the grid does not take writes",
            "grid",
            "see the page of the cluster for the servers of the grid; nothing is acknowledged until it takes writes",
        ),
        (
            r"^the grid's log was damaged",
            "grid_log_damaged",
            "restore a backup if what may be lost matters (iot-mqtt backup restore); then remove that file",
        ),
        (
            r"^the grid is damaged",
            "grid_damaged",
            "restore a backup (iot-mqtt backup restore); iot-mqtt ctl log verify says what cannot be read of the log",
        ),
        (
            r"^the configuration was not reloaded",
            "configuration",
            "mend the file (iot-mqtt config check) and reload it, or put back the one of before",
        ),
        (
            r"wait for a commit",
            "commit",
            "the disk or the grid is slower than what is published; it passes when they catch up",
        ),
        (
            r"^connections are refused",
            "descriptors",
            "raise the limit of open files (LimitNOFILE of the unit, ulimit -n) and start the node again",
        ),
        (
            r"^the node is busy",
            "busy",
            "send clients to other nodes (drain or rebalance), or start another node",
        ),
        (
            r"^the uplink does not take messages: .* uplink\.file\.(?:limit|reserve) ",
            "uplink_room",
            "remove files of the uplink that were read, or change the key; messages are kept in the log until then",
        ),
        (
            r"^the uplink does not take messages",
            "uplink_trouble",
            "see that the platform can be reached, or the directory written to; messages stay in the log until then",
        ),
        (
            r"^the uplink falls behind",
            "uplink_behind",
            "more partitions or brokers of the platform, or fewer messages by the rules of the uplink",
        ),
        (
            r"^the uplink has lost",
            "uplink_lost",
            "a longer log.retention keeps more for a platform that is away",
        ),
        (
            r"^sessions have lost",
            "retention",
            "iot-mqtt ctl slow names who is behind, ctl audit list who dropped; a longer log.retention keeps more",
        ),
        (
            r"^the platform has rejected",
            "uplink_rejected",
            "see the records and the topic of the dead letters, which has to be there and writable",
        ),
        (
            r"^access rules were not reloaded",
            "access",
            "mend the file, or who may read it: it is read without a restart. Until then users disabled in it get in",
        ),
        (
            r"^(?:the service of auth\.http does not answer|keys for tokens cannot be fetched)",
            "access",
            "see that its address can be reached from this node, and answers. Until then clients may not get in",
        ),
        (
            r"^nothing is changed by the API",
            "audit",
            "see that the node can write below audit in its data directory; it goes on by itself",
        ),
        (
            r"^the log goes on",
            "log_file",
            "let a plain file that the node may write have the name that log.file has; it is opened by itself",
        ),
        (
            r"^the clock of",
            "clock",
            "have NTP (chrony, systemd-timesyncd) set the clock of that machine; a node measures it again by itself",
        ),
        (
            r" is gone without having been stopped",
            "node_gone",
            "start the node again; one that will not come back is removed (iot-mqtt ctl cluster remove)",
        ),
        (
            r"the list of revoked certificates",
            "revocation_list",
            "put the authority's list of now in place of the old one; it is read without a restart",
        ),
        (
            r"certificate",
            "certificate",
            "put new files in place of the old ones; they are read without a restart",
        ),
        (
            r"^codec ",
            "codec",
            "look at the plugin's faults, and reload it, or go back to the version before",
        ),
        (
            r"^commands ",
            "commands",
            "see that the topics of commands and dead letters are there, and that the node may read and write them",
        ),
        (
            r"^webhook",
            "webhook",
            "see that the receiver answers, and fast enough",
        ),
    )
)


class AlarmBook:
    """Looked at once a second, by whoever watches the node."""

    def __init__(self) -> None:
        self._going_on: dict[str, AlarmInfo] = {}
        self._over: deque[AlarmInfo] = deque(maxlen=KEPT)

    def look(self, texts: Iterable[str], now: float) -> tuple[list[AlarmInfo], list[AlarmInfo]]:
        """Those that are new, and those that are over. ``texts``: all there are now."""
        seen: dict[str, str] = {}
        for text in texts:
            if len(seen) < MOST:
                seen.setdefault(_FIGURE.sub("#", text), text[:LONGEST])
        raised = [_alarm(text, now) for name, text in seen.items() if name not in self._going_on]
        over = [replace(one, until=now) for name, one in self._going_on.items() if name not in seen]
        known, self._going_on = self._going_on, {}
        for name, text in seen.items():
            before = known.get(name)
            self._going_on[name] = _alarm(text, now) if before is None else replace(before, text=text)
        self._over.extend(over)
        return sorted(raised, key=_text), sorted(over, key=_text)

    def items(self) -> list[AlarmInfo]:
        """Those that go on first, then those that are over; the newest of each first."""
        going_on = sorted(self._going_on.values(), key=lambda one: -one.since)
        return [*going_on, *reversed(self._over)]


def _alarm(text: str, now: float) -> AlarmInfo:
    for pattern, code, helps in _KNOWN:
        if pattern.search(text):
            return AlarmInfo(code, text, now, None, helps)
    return AlarmInfo("other", text, now, None, None)


def _text(one: AlarmInfo) -> str:
    return one.text
