"""What the flight recorder leaves on the disk, for the life after a crash."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from iot_mqtt.app.node.packet_file import FREE, PacketFile, slot_of
from iot_mqtt.app.node.packets import AT_ONCE, Packets
from iot_mqtt.broker.recorder import Recorder
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.endings import NODE_LOST, NODE_RESTARTED, end_text
from iot_mqtt.ports.recording import RecorderSettings, Recording, RecordingInfo

SETTINGS = RecorderSettings(keep_seconds=60)


class NoThreads:
    """A reactor whose threads are this one."""

    def getThreadPool(self) -> NoThreads:
        return self

    def callInThreadWithCallback(self, on_result, call, *arguments, **named) -> None:  # type: ignore[no-untyped-def]
        try:
            on_result(True, call(*arguments, **named))
        except OSError as error:
            from twisted.python.failure import Failure

            on_result(False, Failure(error))

    def callFromThread(self, call, *arguments) -> None:  # type: ignore[no-untyped-def]
        call(*arguments)


def recorder_of(clock: ManualClock) -> Recorder:
    return Recorder(SETTINGS, clock.wall)


async def test_the_next_life_knows_what_was_before_a_crash(tmp_path: Path) -> None:
    """And the one after it no more."""
    clock = ManualClock()
    recorder = recorder_of(clock)
    packets = Packets(recorder, tmp_path / "recorder", NoThreads())
    one, two = recorder.begin(), recorder.begin()
    assert one is not None
    assert two is not None
    for name, ring in (("one", one), ("two", two)):
        recorder.named(ring, name, "1.2.3.4:5")
        ring.received(b"\xc0\x00")
    packets.save()
    two.received(b"\x30\x05\x00\x01tno")
    packets.save()

    clock.advance(1)
    later = recorder_of(clock)
    after = Packets(later, tmp_path / "recorder", NoThreads())
    after.save()
    fresh = later.begin()
    assert fresh is not None
    later.named(fresh, "two", "1.2.3.4:6")
    fresh.received(b"\xe0\x00")
    found = await after.of("two")
    assert [one.packet for one in found] == ["OPENED", "PINGREQ", "PUBLISH", "CLOSED", "OPENED", "DISCONNECT"]
    assert found[3].text == f"connection from 1.2.3.4:5 closed: {end_text(NODE_RESTARTED)}"
    assert [one.packet for one in await after.of("one")] == ["OPENED", "PINGREQ", "CLOSED"]
    assert not await after.of("nobody")
    anew = Packets(recorder_of(clock), tmp_path / "recorder", NoThreads(), NODE_LOST)
    assert [end.text for end in await anew.ends_before("one")] == [end_text(NODE_LOST)]
    assert (tmp_path / "recorder" / "packets.now").stat().st_mode & 0o077 == 0
    after.close()
    packets.close()


async def test_what_was_forgotten_is_not_there_after_a_crash(tmp_path: Path) -> None:
    clock = ManualClock()
    recorder = recorder_of(clock)
    packets = Packets(recorder, tmp_path, NoThreads())
    ring = recorder.begin()
    assert ring is not None
    recorder.named(ring, "gone", "")
    recorder.ended(ring, "peer_closed")
    packets.save()
    clock.advance(61)
    packets.save()
    packets.close()
    after = Packets(recorder_of(clock), tmp_path, NoThreads())
    after.save()
    assert not await after.of("gone")
    after.close()


def test_a_slot_that_is_damaged_is_none(tmp_path: Path) -> None:
    info = RecordingInfo("c" * 256 + "\U0001f600" * 9, "1.2.3.4:5", 1.0, None, "")
    first = PacketFile(tmp_path, 1024)
    whole = slot_of(Recording(RecordingInfo("c", "", 1.0, 2.0, "peer_closed"), b"x" * 1024))
    assert len(slot_of(Recording(info, b"x" * 1024))) <= first.slot_bytes
    info = info._replace(end="topic_filter_invalid: " + "\U0001f600" * 234)
    assert len(slot_of(Recording(info, b"x" * 1024))) <= first.slot_bytes
    first.write([(0, whole), (1, whole[:-1] + b"y"), (2, whole[:40]), (3, FREE), (500, whole)])
    first.close()
    second = PacketFile(tmp_path, 2048)
    second.open()
    assert [one.info.end for one in second.read_before("c")] == ["peer_closed"] * 2
    second.close()


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 600])
def test_slots_that_stand_together_are_written_together(tmp_path: Path, count: int) -> None:
    """What stood there before may have been longer."""
    file = PacketFile(tmp_path, 1024)

    def slot(number: int, size: int) -> tuple[int, bytes]:
        return number, slot_of(Recording(RecordingInfo("c", f"{number}", number, None, ""), b"x" * size))

    file.write(slot(number, 1024) for number in range(count))
    file.write(slot(number, number % 7) for number in range(0, count, 2))
    file.write([])
    file.close()
    after = PacketFile(tmp_path, 1024)
    after.open()
    found = after.read_before("c")
    after.close()
    assert [one.info.peer for one in found] == [f"{number}" for number in range(count)]
    assert [len(one.image) for one in found] == [1024 if number % 2 else number % 7 for number in range(count)]


@pytest.mark.parametrize("name", ["plain", 'quo"ta\\', "\x00\n\x7f", "é😀", ""])
@pytest.mark.parametrize("until", [None, 1.0, 1784012345.678])
def test_what_is_known_of_a_connection_comes_back_as_it_was(tmp_path: Path, name: str, until: float | None) -> None:
    file = PacketFile(tmp_path, 1024)
    recording = Recording(RecordingInfo(name, f"{name}:1", 1784012345.001, until, "peer_closed"), b"x")
    file.write([(0, slot_of(recording))])
    file.close()
    after = PacketFile(tmp_path, 1024)
    after.open()
    assert after.read_before(name) == [recording]
    after.close()


def test_a_disk_that_takes_a_part_is_told_of(tmp_path: Path) -> None:
    """As one that takes nothing."""
    file = PacketFile(tmp_path, 1024)
    file.open()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.slot_bytes * 2, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            file.write((number, FREE) for number in range(10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file.close()


def test_there_need_be_no_file(tmp_path: Path) -> None:
    (tmp_path / "packets.before").write_bytes(b"?")
    assert PacketFile(tmp_path, 1024).read_before("c") == []
    assert PacketFile(tmp_path / "none", 1024).read_before("c") == []


def test_a_disk_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "recorder").write_text("no directory")
    recorder = recorder_of(ManualClock())
    packets = Packets(recorder, tmp_path / "recorder", NoThreads())
    packets.save()
    packets.save()
    assert not packets._saving
    packets.close()


class Threads(NoThreads):
    """A reactor whose threads run when they are told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def callInThreadWithCallback(self, on_result, call, *arguments, **named) -> None:  # type: ignore[no-untyped-def]
        run = super().callInThreadWithCallback
        self.waiting.append(lambda: run(on_result, call, *arguments, **named))


async def test_many_are_saved_a_part_after_the_other(tmp_path: Path) -> None:
    """And one that is forgotten meanwhile is not among them."""
    clock, threads = ManualClock(), Threads()
    recorder = recorder_of(clock)
    packets = Packets(recorder, tmp_path, threads)
    rings = []
    for number in range(2 * AT_ONCE + 10):
        ring = recorder.begin()
        assert ring is not None
        recorder.named(ring, f"c{number}", "")
        ring.received(b"\xc0\x00")
        rings.append(ring)
    for _ in range(AT_ONCE):
        recorder.ended(rings.pop(), "peer_closed")
    packets.save()
    clock.advance(SETTINGS.keep_seconds + 1)
    recorder.sweep()
    parts = 0
    while threads.waiting:
        assert len(threads.waiting) == 1
        threads.waiting.pop()()
        parts += 1
    assert parts >= 2
    after = Packets(recorder_of(clock), tmp_path, NoThreads())
    after.save()
    assert all([await after.of(f"c{number}") for number in range(AT_ONCE + 10)])
    assert not any([await after.of(f"c{number}") for number in range(AT_ONCE + 10, 2 * AT_ONCE + 10)])
    packets.close()
    after.close()
