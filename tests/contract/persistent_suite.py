"""What a grid on disk must do besides: reopen, survive ``kill -9``, and be honest about a spoilt log.

Subclass ``PersistentGridSuite``, define ``make`` and ``factory`` (the same, as ``module:name``, for processes
of their own).
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from iot_mqtt.grid.engine_format import FORMAT_KEY
from iot_mqtt.grid.faults import Damaged, InUse, OpenFault, TooNew
from iot_mqtt.ports.grid import CacheName
from tests.contract import child, writer
from tests.contract.grid_suite import A, GridSuite, removes
from tests.contract.logfile import logs, used
from tests.seeds import seeds_of

#: Zeros behind what was written: a log that ends there, and one that has room for more.
ROOM = (0, 100_000)
#: Batches in the log that the damage tests spoil.
WRITTEN = 60

Damage = Callable[[bytearray], bytearray]


class PersistentGridSuite(GridSuite):
    """Subclass, and define ``make`` and ``factory``."""

    factory: str

    # Reopening.

    def test_reopening_keeps_everything_committed(self, tmp_path: Path) -> None:
        """Puts, removals and swaps, over several lives."""
        expected: list[tuple[bytes, bytes]] = []
        for life in range(4):
            opened = self.open(tmp_path)
            assert opened.all(A) == expected
            opened.put(A, *((b"%d-%04d" % (life, number), b"v" * number) for number in range(300)))
            opened.commit(removes(A, b"%d-0000" % life))
            assert opened.swap(b"life", None if life == 0 else b"%d" % (life - 1), b"%d" % life)
            expected = opened.all(A)
            opened.close()
        assert len(expected) == 4 * 299

    def test_reopening_keeps_a_removed_prefix_removed(self, tmp_path: Path) -> None:
        """With what was put before and after it, in the log as in the tables."""
        opened = self.open(tmp_path)
        opened.put(A, *((b"k%d" % number, b"v") for number in range(5)), (b"x", b"v"))
        opened.driver.run(opened.grid.remove_prefix(A, b"k"))
        opened.put(A, (b"k9", b"new"))
        for _ in range(2):
            opened.close()
            opened = self.open(tmp_path)
            assert opened.all(A) == [(b"k9", b"new"), (b"x", b"v")]
        opened.close()

    def test_a_directory_has_one_grid(self, tmp_path: Path) -> None:
        """In one process, too; the first is not disturbed."""
        opened = self.open(tmp_path)
        with pytest.raises(InUse, match="in use"):
            self.open(tmp_path)
        opened.put(A, (b"k", b"v"))
        opened.close()
        again = self.open(tmp_path)
        assert again.get(A, b"k") == b"v"
        again.close()

    def test_a_directory_of_another_process_is_refused_by_its_number(self, tmp_path: Path) -> None:
        """Clearly, and until that process is gone."""
        with self.written(tmp_path, 0, 5) as process, pytest.raises(InUse, match=f"process {process.pid}:"):
            self.open(tmp_path)
        self.check(tmp_path, set(range(6)))

    def test_a_later_format_is_refused(self, tmp_path: Path) -> None:
        """With both versions in the message, and without touching the data; a later minor is fine."""
        opened = self.open(tmp_path)
        record = opened.get(CacheName.META, FORMAT_KEY)
        assert record is not None
        major = int.from_bytes(record[4:6], "big")
        opened.put(CacheName.META, (FORMAT_KEY, record[:6] + b"\x00\x07" + b"added later"))
        opened.put(A, (b"k", b"v"))
        opened.close()
        opened = self.open(tmp_path)
        assert opened.get(A, b"k") == b"v"
        later = record[:4] + (major + 1).to_bytes(2, "big") + record[6:]
        opened.put(CacheName.META, (FORMAT_KEY, later))
        opened.close()
        for _ in range(2):
            with pytest.raises(TooNew, match=f"format {major + 1}.0; this one reads up to {major}"):
                self.open(tmp_path)

    def test_entries_without_a_format_are_refused(self, tmp_path: Path) -> None:
        """Somebody's else's directory is not taken over."""
        opened = self.open(tmp_path)
        opened.put(A, (b"k", b"v"))
        opened.commit(removes(CacheName.META, FORMAT_KEY))
        opened.close()
        with pytest.raises(Damaged, match="no format record"):
            self.open(tmp_path)

    # kill -9.

    def test_everything_acknowledged_survives_kill_9(self, tmp_path: Path) -> None:
        """Twenty random moments, one life after another: all that was promised is there, and batches are whole."""
        rng = random.Random(20)
        first, promised = 0, set[int]()
        for _ in range(20):
            process = self.start(tmp_path, first)
            acknowledged = read_numbers(process, rng.randrange(1, 400))
            process.send_signal(signal.SIGKILL)
            acknowledged |= read_numbers(process, None)
            process.wait()
            promised |= acknowledged
            first = self.check(tmp_path, promised)
        assert len(promised) > 20

    def check(self, directory: Path, promised: set[int]) -> int:
        """Every batch is there whole or not at all, and all up to the last are there; returns the next number."""
        opened = self.open(directory)
        found = {cache: opened.all(cache) for cache in writer.CACHES}
        opened.close()
        count = len(found[CacheName.SESSIONS])
        everything = [(writer.key(number), writer.value(number)) for number in range(count)]
        assert found[CacheName.SESSIONS] == everything
        assert found[CacheName.RETAINED] == everything
        assert found[CacheName.QUEUE] == everything[max(0, count - 100) :]
        assert promised <= set(range(count))
        return count

    # A spoilt log.

    @pytest.fixture(scope="class")
    @classmethod
    def spoilt(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A directory as a killed process left it: ``WRITTEN`` batches, all of them in the log only."""
        directory = tmp_path_factory.mktemp("killed") / "grid"
        with cls().written(directory, 0, WRITTEN - 1):
            pass
        return directory

    def test_the_log_of_a_killed_process_is_read(self, spoilt: Path, tmp_path: Path) -> None:
        """What the tests below spoil is whole."""
        assert self.count(self.copy(spoilt, tmp_path)) == WRITTEN

    @pytest.mark.parametrize("cut", [1, 3, 7, 20, 60, 150, 300])
    @pytest.mark.parametrize("how", ["truncated", "zeroed", "garbled"])
    @pytest.mark.parametrize("room", ROOM)
    def test_a_torn_tail_costs_the_tail_only(self, spoilt: Path, tmp_path: Path, cut: int, how: str, room: int) -> None:
        """The batch that was on its way when the power went; it was never acknowledged. And so ever after."""
        tail = {
            "truncated": lambda size: b"",
            "zeroed": bytes,
            "garbled": random.Random(cut).randbytes,
        }[how]
        directory = self.copy(spoilt, tmp_path, lambda log: log[:-cut] + tail(cut) + bytes(room))
        count = self.count(directory)
        # What ``WINDOW`` commits may have been merged into.
        assert WRITTEN - 1 - writer.WINDOW <= count < WRITTEN
        assert self.count(directory) == count

    @pytest.mark.parametrize("zeros", [1, 7, 4096, 70_000])
    def test_room_reserved_behind_the_log_is_no_damage(self, spoilt: Path, tmp_path: Path, zeros: int) -> None:
        """A file may have grown before it was filled."""
        assert self.count(self.copy(spoilt, tmp_path, lambda log: log + bytes(zeros))) == WRITTEN

    @pytest.mark.parametrize("room", ROOM)
    @pytest.mark.parametrize("seed", seeds_of("damage", 30))
    def test_damage_in_older_data_is_reported(self, spoilt: Path, tmp_path: Path, seed: int, room: int) -> None:
        """Acknowledged batches stand behind it: to start without them would hide their loss."""
        rng = random.Random(seed)
        size = used(logs(spoilt)[-1])
        # In front of whatever the last batch may be.
        spot = rng.randrange(int(size * 0.7))
        mask = 1 << rng.randrange(8)

        def flip(log: bytearray) -> bytearray:
            log[spot] ^= mask
            return log + bytes(room)

        directory = self.copy(spoilt, tmp_path, flip)
        before = logs(directory)[-1].read_bytes()
        for _ in range(2):
            with pytest.raises(Damaged, match="Nothing was changed"):
                self.open(directory)
        assert logs(directory)[-1].read_bytes() == before

    @pytest.mark.parametrize("seed", seeds_of("damage of some length", 10))
    @pytest.mark.parametrize("length", [7, 64, 5000])
    @pytest.mark.parametrize("room", ROOM)
    def test_a_hole_in_older_data_is_reported(
        self, spoilt: Path, tmp_path: Path, seed: int, length: int, room: int
    ) -> None:
        """Zeros in the middle, as a lost page leaves them."""
        size = used(logs(spoilt)[-1])
        spot = random.Random(seed).randrange(int(size * 0.7) - length)
        hole = bytes(length)
        directory = self.copy(spoilt, tmp_path, lambda log: log[:spot] + hole + log[spot + length :] + bytes(room))
        with pytest.raises(Damaged):
            self.open(directory)

    @pytest.mark.parametrize("room", ROOM)
    def test_a_flip_anywhere_is_never_taken_for_data(self, spoilt: Path, tmp_path: Path, room: int) -> None:
        """Refused, or the last batch is gone; nothing third."""
        rng = random.Random(7)
        size = used(logs(spoilt)[-1])
        for round_ in range(30):

            def flip(log: bytearray) -> bytearray:
                log[rng.randrange(int(size * 0.7), size)] ^= 1 << rng.randrange(8)
                return log + bytes(room)

            try:
                count = self.count(self.copy(spoilt, tmp_path / str(round_), flip))
            except OpenFault:
                continue
            assert count < WRITTEN

    def copy(self, killed: Path, target: Path, damage: Damage = lambda log: log) -> Path:
        """A copy with its last log file changed, which ends with what was written there."""
        directory = target / "copy"
        shutil.copytree(killed, directory)
        log = logs(directory)[-1]
        log.write_bytes(damage(bytearray(log.read_bytes()[: used(log)])))
        return directory

    def count(self, directory: Path) -> int:
        return self.check(directory, set())

    # Processes.

    def start(self, directory: Path, first: int, last: int | None = None) -> subprocess.Popen[bytes]:
        numbers = [str(first)] if last is None else [str(first), str(last)]
        command = child.command("tests.contract.writer", self.factory, str(directory), *numbers)
        with TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
            assert process.stdout is not None
            line = process.stdout.readline()
            if line != b"open\n":
                process.kill()
                ended = process.wait()
                errors.seek(0)
                pytest.fail(f"{line!r} instead of open; it ended with {ended}:\n{errors.read().decode()}")
        return process

    @contextmanager
    def written(self, directory: Path, first: int, last: int) -> Iterator[subprocess.Popen[bytes]]:
        """A process that has written these batches and holds the directory; killed at the end."""
        process = self.start(directory, first, last)
        try:
            assert read_numbers(process, last - first + 1) == set(range(first, last + 1))
            yield process
        finally:
            process.kill()
            process.communicate()


def read_numbers(process: subprocess.Popen[bytes], count: int | None) -> set[int]:
    """So many acknowledged numbers, or all there are."""
    assert process.stdout is not None
    found: set[int] = set()
    while count is None or len(found) < count:
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            break
        found.add(int(line))
    return found
