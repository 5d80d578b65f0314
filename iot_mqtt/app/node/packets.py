"""The flight recorder of one life of a node: what is in memory, what is on the disk, and who asks for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from operator import length_hint
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from iot_mqtt.app.node.packet_file import PacketFile, slots_of
from iot_mqtt.broker.facade import AttemptInfo
from iot_mqtt.broker.recorder import Recorded, Recorder, is_over, recording_of
from iot_mqtt.codec.describing import PacketInfo, described
from iot_mqtt.ports.endings import NODE_RESTARTED, ends_apart
from iot_mqtt.ports.recording import Recording

log = logging.getLogger(__name__)

#: Connections that a thread is given at once: the loop has a third of a millisecond of work with them. The next are
#: given to it when these are written.
AT_ONCE = 250
#: Seconds between two looks at what is over for long enough, where nothing is saved.
SWEEP_SECONDS = 5.0


class Packets:
    """Saves what was recorded, a second or so behind, and answers what was."""

    def __init__(self, recorder: Recorder, folder: Path, reactor: Any, ended: str = NODE_RESTARTED) -> None:
        self._recorder = recorder
        self._reactor = reactor
        self._file = PacketFile(folder, recorder.settings.client_bytes, ended)
        #: Slots that nobody has, and the next one that nobody ever had.
        self._free: list[int] = []
        self._cleared: list[int] = []
        self._next = 0
        #: Those that are still to be looked at by the save that is under way.
        self._rest: Iterator[Recorded] = iter(())
        self._saving = False
        self._failed = False
        recorder.on_forgotten = self._forgotten

    @property
    def saves(self) -> bool:
        """Whether anything is written to the disk."""
        settings = self._recorder.settings
        return settings.enabled and settings.save_seconds > 0

    async def of(self, client_id: str) -> list[PacketInfo]:
        """What went over the last connections of a client, those of the life before included, the oldest first."""
        before = await self._in_thread(self._file.read_before, client_id) if self.saves else []
        found = [*before, *self._recorder.of(client_id)]
        return [item for one in found for item in told(one)]

    async def ends_before(self, client_id: str) -> list[AttemptInfo]:
        """How the connections of a client ended in the life of the node before this one, the newest first."""
        before = await self._in_thread(self._file.read_before, client_id) if self.saves else []
        return [_end(one) for one in reversed(before)]

    def save(self) -> None:
        """Write what is new; called again and again."""
        self._recorder.sweep()
        if self.saves and not self._saving:
            self._saving = True
            self._rest = iter(list(self._recorder))
            self._write_next()

    def close(self) -> None:
        """The node ends: write all that is left."""
        if self.saves:
            try:
                self._rest = iter(self._recorder)
                self._file.write(slots_of(self._changed(len(self._recorder) + len(self._cleared))))
            except OSError as error:
                log.warning("the flight recorder was not saved: %s", error)
        self._file.close()

    def _write_next(self) -> None:
        saving = self._in_thread(self._file.write, slots_of(self._changed(AT_ONCE)))
        saving.addCallbacks(self._saved, self._not_saved)

    def _changed(self, most: int) -> dict[int, Recording | None]:
        """What is to stand where; None: nothing any more."""
        cleared, self._cleared = self._cleared, []
        self._free += cleared
        slots: dict[int, Recording | None] = dict.fromkeys(cleared)
        for one in self._rest:
            stamp = one.written + is_over(one)
            if one.saved != stamp and one.client_id:
                one.saved = stamp
                if one.slot < 0:
                    one.slot = self._slot()
                slots[one.slot] = recording_of(one)
                if len(slots) >= most:
                    break
        return slots

    def _slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._next += 1
        return self._next - 1

    def _forgotten(self, recorded: Recorded) -> None:
        if recorded.slot >= 0:
            self._cleared.append(recorded.slot)

    def _saved(self, _: object) -> None:
        self._failed = False
        if length_hint(self._rest):
            self._write_next()
        else:
            self._saving = False

    def _not_saved(self, failure: Any) -> None:
        self._saving = False
        if not self._failed:
            self._failed = True
            log.warning("the flight recorder is not saved: %s", failure.getErrorMessage())

    def _in_thread(self, call: Any, *arguments: Any) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), call, *arguments)


def told(recording: Recording) -> list[PacketInfo]:
    """A connection's packets, between its beginning and its end."""
    info, items = recording.info, described(recording.image)
    opened = PacketInfo(info.since, "in", "OPENED", f"connection from {info.peer}", 0, 0)
    if not info.end:
        return [opened, *items]
    at = info.until or (items[-1].at if items else info.since)
    text = f"connection from {info.peer} closed: {ends_apart(info.end)[1]}"
    return [opened, *items, PacketInfo(at, "out", "CLOSED", text, 0, 0)]


def _end(recording: Recording) -> AttemptInfo:
    """Of one that was recorded. Whose it was and where it came in was not."""
    info = recording.info
    at = info.until or max([info.since, *(one.at for one in described(recording.image)[-1:])])
    name, text = ends_apart(info.end)
    return AttemptInfo(info.client_id, "left", at, name, text, None, info.peer, "")
