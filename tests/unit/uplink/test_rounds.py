"""Rounds of files: whatever moment the process dies at, every record is in the files once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from iot_mqtt.ports.uplink import Place, Record
from iot_mqtt.uplink.rounds import DAY_MS, HIDDEN, STATE, NoRoom, Rounds
from iot_mqtt.uplink.settings import FileSettings

SPOOL = "0.0a1b2c3d"
CAME = 1_790_000_000_000
PLENTY = 1 << 40


class Killed(Exception):
    """The process is gone."""


class Dying(Rounds):
    """Dies at one step of finishing a round, without tidying up."""

    at = ""

    def _write_state(self, state) -> None:  # type: ignore[no-untyped-def]
        if self.at == "before the state":
            raise Killed
        super()._write_state(state)
        if self.at == "after the state":
            raise Killed

    def _rename(self, names) -> None:  # type: ignore[no-untyped-def]
        if self.at == "between the names" and len(names) > 1:
            super()._rename(names[:1])
            raise Killed
        super()._rename(names)

    def die(self) -> None:
        """What a kill leaves of it: files, and no lock."""
        for segment in self._segments.values():
            segment.file.flush()
        self._segments = {}
        self.close()


def rounds(root: Path, free: int = PLENTY, **settings: float) -> Dying:
    return Dying(root, FileSettings(**{"reserve": 1000, **settings}), lambda _: free)  # type: ignore[arg-type]


def record(position: int, topic: str = "t", came: int = CAME) -> Record:
    return Record(topic, "k", b'{"n":%d}' % position, (), came, position)


def found(root: Path) -> list[int]:
    paths = sorted(root.glob("*/dt=*/*.jsonl"))
    return [json.loads(line)["n"] for path in paths for line in path.read_bytes().splitlines()]


def some(begin: int, end: int) -> list[Record]:
    """For two topics in turn, so that a round has two files."""
    return [record(number, "ab"[number % 2]) for number in range(begin, end)]


def test_the_name_of_the_directory_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is finished in it: a power cut would take all that was finished with the name."""
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(os.readlink(f"/proc/self/fd/{file}"))))
    rounds(tmp_path / "uplink").open(Place(SPOOL, 0), 0)
    assert synced == [tmp_path.resolve()]


@pytest.mark.parametrize("moment", ["while writing", "before the state", "after the state", "between the names"])
@pytest.mark.parametrize("removed", [False, True])
def test_a_kill_at_any_moment_leaves_every_record_once(tmp_path: Path, moment: str, *, removed: bool) -> None:
    """Also when somebody has read and removed the files before the next start."""
    first = rounds(tmp_path)
    assert first.open(Place(SPOOL, 0), 0) == 0
    first.write(some(0, 10), 0)
    first.finish()
    first.write(some(10, 20), 1)
    first.at = moment
    if moment != "while writing":
        with pytest.raises(Killed):
            first.finish()
    first.die()
    taken = []
    if removed:
        taken = found(tmp_path)
        for path in tmp_path.glob("*/dt=*/*.jsonl"):
            path.unlink()
    after = rounds(tmp_path)
    # The kept place is older than what the files know.
    begin = after.open(Place(SPOOL, 0), 0)
    assert begin == (20 if moment in ("after the state", "between the names") else 10)
    after.write(some(begin, 30), 0)
    after.finish()
    after.close()
    assert sorted(taken + found(tmp_path)) == list(range(30))
    assert list((tmp_path / HIDDEN).iterdir()) == []


def test_a_later_round_never_takes_the_name_of_an_earlier_one(tmp_path: Path) -> None:
    """Killed while it writes, its half file must not become the earlier round's."""
    for begin in range(0, 40, 10):
        life = rounds(tmp_path)
        assert life.open(Place(SPOOL, 0), 0) == begin
        life.write(some(begin, begin + 10), 0)
        life.finish()
        life.write(some(begin + 10, begin + 15), 0)
        life.die()
    assert sorted(found(tmp_path)) == list(range(40))


def test_records_that_are_safe_are_not_written_again(tmp_path: Path) -> None:
    """Whoever sends them."""
    files = rounds(tmp_path)
    files.open(Place(SPOOL, 5), 0)
    files.write([record(number) for number in range(10)], 0)
    files.finish()
    assert found(tmp_path) == [5, 6, 7, 8, 9]


def test_another_spool_begins_at_its_place(tmp_path: Path) -> None:
    """Its positions are other ones; no file of the earlier spool is touched."""
    files = rounds(tmp_path)
    files.open(Place(SPOOL, 0), 0)
    files.write([record(7)], 0)
    files.finish()
    assert files.open(Place("0.ffffffff", 3), 0) == 3
    files.write([record(7)], 0)
    files.finish()
    assert found(tmp_path) == [7, 7]


def test_days_and_topics_have_files_of_their_own(tmp_path: Path) -> None:
    """A day is that of arrival, in UTC; names say the spool and the positions."""
    files = rounds(tmp_path)
    files.open(Place(SPOOL, 0), 0)
    midnight = CAME // DAY_MS * DAY_MS
    files.write([record(1, "a", midnight - 1), record(2, "a", midnight), record(3, "b", midnight)], 0)
    files.finish()
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/dt=*/*"))
    assert names == [
        f"a/dt=2026-09-20/{SPOOL}-{1:020d}-{2:020d}.jsonl",
        f"a/dt=2026-09-21/{SPOOL}-{2:020d}-{3:020d}.jsonl",
        f"b/dt=2026-09-21/{SPOOL}-{3:020d}-{4:020d}.jsonl",
    ]


def test_a_round_is_over_by_time_or_by_size(tmp_path: Path) -> None:
    """Counted from its first record; before that nothing is due."""
    files = rounds(tmp_path, rotate_seconds=10, rotate_bytes=100)
    files.open(Place(SPOOL, 0), 0)
    assert not files.is_due(1000)
    files.write([record(1)], 1000)
    assert [files.is_due(now) for now in (1009.9, 1010)] == [False, True]
    files.write([record(number) for number in range(2, 20)], 1001)
    assert files.is_due(1001)


def test_nobody_reads_what_is_being_written(tmp_path: Path) -> None:
    """Until the round is over."""
    files = rounds(tmp_path)
    files.open(Place(SPOOL, 0), 0)
    files.write([record(1)], 0)
    assert found(tmp_path) == []
    assert all(part.startswith(".") for path in tmp_path.iterdir() for part in (path.name,))


def test_without_room_nothing_of_a_batch_is_written(tmp_path: Path) -> None:
    """What was written before can be finished; it opens again when the batch fits."""
    room = [PLENTY]
    files = Rounds(tmp_path, FileSettings(reserve=1000), lambda _: room[0])
    files.open(Place(SPOOL, 0), 0)
    files.write([record(1)], 0)
    room[0] = 1005
    with pytest.raises(NoRoom, match=r"next has 16 bytes, 1005 are free, and uplink\.file\.reserve keeps 1000"):
        files.write([record(2), record(3)], 0)
    files.finish()
    assert found(tmp_path) == [1]
    with pytest.raises(NoRoom):
        files.open(Place(SPOOL, 0), 0)
    room[0] = 1100
    assert files.open(Place(SPOOL, 0), 0) == 2


def test_a_limit_stops_it_until_somebody_removes_files(tmp_path: Path) -> None:
    """Never by deleting anything; a batch that is larger than the limit goes through when the place is empty."""
    files = rounds(tmp_path, limit=30)
    files.open(Place(SPOOL, 0), 0)
    files.write([record(number) for number in range(10)], 0)
    files.finish()
    with pytest.raises(NoRoom, match=r"take 80 bytes, and what comes next 9: that is more than uplink\.file\.limit 30"):
        files.write([record(10)], 0)
    for path in tmp_path.glob("*/dt=*/*.jsonl"):
        path.unlink()
    assert files.open(Place(SPOOL, 0), 0) == 10


def test_a_state_that_cannot_be_read_stops_it_with_a_way_out(tmp_path: Path) -> None:
    """Going on might write records twice, so somebody has to decide."""
    first = rounds(tmp_path)
    first.open(Place(SPOOL, 0), 0)
    first.close()
    (tmp_path / STATE).write_text("{")
    with pytest.raises(OSError, match="remove it"):
        rounds(tmp_path).open(Place(SPOOL, 0), 0)


def test_no_digit_of_the_state_can_change_unnoticed(tmp_path: Path) -> None:
    """A later end would skip records that were acknowledged. A state of an earlier version has no checksum."""
    first = rounds(tmp_path)
    first.open(Place(SPOOL, 0), 0)
    first.write([record(40)], 0)
    first.finish()
    first.close()
    kept = json.loads((tmp_path / STATE).read_text())
    (tmp_path / STATE).write_text(json.dumps(kept | {"end": 47}))
    again = rounds(tmp_path)
    with pytest.raises(OSError, match=r"the checksum does not fit.*remove it"):
        again.open(Place(SPOOL, 0), 0)
    del kept["crc"]
    (tmp_path / STATE).write_text(json.dumps(kept))
    assert again.open(Place(SPOOL, 0), 0) == 41


def test_each_step_is_on_the_disk_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records' files and their names, then the state, then the names that readers see."""
    here = rounds(tmp_path)
    here.open(Place(SPOOL, 0), 0.0)
    here.write([record(0, "a"), record(1, "b")], 0.0)
    synced: list[str] = []

    def fsync(number: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{number}"))
        what = path.name if path.is_dir() else f"{path.name[:5]} of {path.stat().st_size} bytes"
        synced.append(f"{what}, {(tmp_path / STATE).exists()}, {len(found(tmp_path))}")

    monkeypatch.setattr(os, "fsync", fsync)
    here.finish()
    hidden, root = HIDDEN, tmp_path.name
    assert synced[:3] == ["a.202 of 8 bytes, False, 0", "b.202 of 8 bytes, False, 0", f"{hidden}, False, 0"]
    assert synced[3].startswith("state of ")
    assert synced[4] == f"{root}, True, 0"
    assert {one.split(",")[0] for one in synced[5:]} == {root, "a", "b", "dt=2026-09-21"}
    here.close()


def test_the_limit_is_for_what_is_there_and_what_comes(tmp_path: Path) -> None:
    """A write that would go past it is refused whole; one that just fits is taken."""
    here = rounds(tmp_path, limit=24)
    here.open(Place(SPOOL, 0), 0.0)
    here.write([record(0)], 0.0)
    with pytest.raises(NoRoom):
        here.write([record(1), record(2), record(3)], 0.0)
    here.write([record(1), record(2)], 0.0)
    here.finish()
    assert found(tmp_path) == [0, 1, 2]
    here.close()


def test_two_do_not_write_to_one_directory(tmp_path: Path) -> None:
    """The second is told so, until the first has closed."""
    first, second = rounds(tmp_path), rounds(tmp_path)
    first.open(Place(SPOOL, 0), 0.0)
    with pytest.raises(OSError, match="another process"):
        second.open(Place(SPOOL, 0), 0.0)
    first.close()
    assert second.open(Place(SPOOL, 0), 0.0) == 0
    second.close()


def test_a_topic_may_have_the_longest_name_that_there_is(tmp_path: Path) -> None:
    """A client makes it by its own: a name that no file can have would be everybody's standstill."""
    life = rounds(tmp_path)
    life.open(Place(SPOOL, 0), 0)
    names = ["t" * 249, "t" * 248 + "u"]
    for position, name in enumerate(names):
        life.write([Record(name, "k", b'{"n":%d}' % position, (), CAME, position)], 0)
    life.finish()
    assert sorted(folder.name for folder in tmp_path.iterdir() if folder.name.startswith("t")) == names
    assert sorted(found(tmp_path)) == [0, 1]
