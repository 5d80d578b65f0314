"""From a grid into an archive, and into another grid."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.archive import (
    ArchiveReader,
    ArchiveWriter,
    BadArchive,
    Header,
    NotEmpty,
    begin_filling,
    copy_from,
    copy_into,
    copying,
    sums_of,
)
from iot_mqtt.grid.archive.copying import ORDER
from iot_mqtt.grid.archive.records import HEADER
from iot_mqtt.grid.archive.sealing import PieceWriter
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.ports.filling import Filler, Mark
from iot_mqtt.ports.grid import CacheName, Grid, Pair, WriteBatch
from tests.contract.driving import Pump
from tests.contract.logkit import SETTINGS, Between, Life, fill, told
from tests.seeds import seeds_of

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

MADE = Header("embedded", "1.2.3", 1_700_000_000.0, "node-1")
FILES = {"plugins/state.json": b"{}", "audit/0001.log": b"line\n"}


def opened() -> MemoryGrid:
    grid = MemoryGrid()
    Pump().run(grid.open())
    return grid


def all_of(cache: CacheName, key: bytes) -> bool:
    return False


def archived(pump: Pump, grid: Grid, secret: bytes | None = None) -> bytes:
    file = BytesIO()
    writer = ArchiveWriter(file, MADE, secret)
    pump.run(copy_from(grid, writer, all_of))
    for path, content in FILES.items():
        writer.add_file(path, content)
    writer.close()
    return file.getvalue()


def restored(pump: Pump, file: bytes, into: Grid, secret: bytes | None = None) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    reader = ArchiveReader(BytesIO(file), secret)
    assert reader.header == MADE
    pump.run(copy_into(into, reader, files.__setitem__))
    sums = pump.run(sums_of(into, all_of))
    assert sums.told() == {name: told for name, told in reader.sums.told().items() if name != "files"}
    return files


def filled(pump: Pump, grid: Grid) -> None:
    rng = random.Random(3)
    for cache in CacheName:
        if cache.value.startswith("log"):
            continue
        batch = WriteBatch()
        for _ in range(rng.choice((1, 300, 1100))):
            batch.put(cache, rng.randbytes(rng.randrange(1, 20)), rng.randbytes(rng.choice((0, 10, 3000))))
        pump.run(grid.commit(batch))


def test_every_cache_is_copied() -> None:
    assert sorted(ORDER) == sorted(CacheName)


@pytest.mark.parametrize("secret", [None, b"s"])
def test_a_grid_is_the_same_afterwards(secret: bytes | None) -> None:
    """Every entry of every cache; and the files."""
    pump, grid, other = Pump(), opened(), opened()
    filled(pump, grid)
    assert restored(pump, archived(pump, grid, secret), other, secret) == FILES
    assert pump.run(sums_of(other, all_of)).told() == pump.run(sums_of(grid, all_of)).told()


def test_nothing_is_put_over_what_is_there() -> None:
    pump, grid = Pump(), opened()
    filled(pump, grid)
    with pytest.raises(NotEmpty, match="meta"):
        pump.run(begin_filling(grid, Mark(grid, Filler("restore", ""), "1"), all_of))


def test_an_archive_that_was_tampered_with_is_refused() -> None:
    """Pieces that are right by themselves, around something that is not."""

    def made(*records: tuple[int, bytes, bytes]) -> BytesIO:
        file = BytesIO()
        pieces = PieceWriter(file, None)
        for tag, name, value in records:
            pieces.write(bytes([tag]) + len(name).to_bytes(4) + len(value).to_bytes(4) + name + value)
        pieces.close()
        file.seek(0)
        return file

    head = (HEADER, b"", b'{"grid":"embedded","version":"1","made_at":1.0,"format":1}')
    end = (0xFF, b"", b"{}")
    assert list(ArchiveReader(made(head, end))) == []
    for records, why in (
        ([end], "no header"),
        ([(HEADER, b"", b"[]")], "object"),
        ([(HEADER, b"", b'{"format":2}')], "later iot-mqtt"),
        ([(HEADER, b"", b'{"format":1}')], "header of the backup is wrong"),
        ([head], "without its sums"),
        ([head, (0x02, b"k", b"v"), end], "sums"),
        ([head, end, end], "behind the sums"),
        ([head, (0xE0, b"k", b"v"), end], "does not know"),
        ([head, (0xF0, b"../k", b"v"), end], "leads elsewhere"),
        ([head, (0xF0, b"/k", b"v"), end], "leads elsewhere"),
        ([head, (0xF0, b"a/../../k", b"v"), end], "leads elsewhere"),
    ):
        with pytest.raises(BadArchive, match=why):
            list(ArchiveReader(made(*records)))
    cut = BytesIO()
    pieces = PieceWriter(cut, None)
    pieces.write(b"\x00\xff\xff\xff\xff\xff\xff\xff\xff")
    pieces.close()
    cut.seek(0)
    with pytest.raises(BadArchive, match="longer than any"):
        ArchiveReader(cut)


class Busy(Between):
    """Between two pages that are read of it, something happens."""

    happens: Callable[[], None] = staticmethod(lambda: None)

    async def page(
        self, cache: CacheName, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[Pair]:
        self.happens()
        return await super().page(cache, prefix, after, limit)


@pytest.fixture(params=[7, 100])
def pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many moments, or few."""
    monkeypatch.setattr(copying, "_PAGE", request.param)
    monkeypatch.setattr(copying, "_BULKY_PAGE", request.param)


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("seed", seeds_of("backups of a log that is written", 6))
def test_a_log_that_is_written_meanwhile_is_cut_at_one_turn(seed: int) -> None:
    """What was committed before is in the copy, in order; what is in it of later is in order, too; nothing else is; and
    a life that begins with it goes on.
    """
    rng, pump, grid = random.Random(seed), Pump(), opened()
    life = Life(grid, pump, SETTINGS)
    before = fill(life, rng.choice((3, 40, 300)))
    after: list[tuple[bytes, bytes]] = []
    busy = Busy(grid)
    turns = rng.choice((2, 3))

    def writes() -> None:
        for _ in range(rng.randrange(turns)):
            after.extend(told([life.append(f"m/{rng.randrange(40)}/v", "p1", rng.randrange(1, 4))]))
            life.commit()

    busy.happens = writes
    file = BytesIO()
    writer = ArchiveWriter(file, MADE)
    pump.run(copy_from(busy, writer, all_of))
    writer.close()
    again = opened()
    pump.run(copy_into(again, ArchiveReader(BytesIO(file.getvalue())), lambda *_: None))
    second = Life(again, pump, SETTINGS, life.clock)
    found = told(second.everything("#", "$SYS/#"))
    sent = before + after
    assert found[: len(before)] == before
    assert found == [message for message in sent if message in set(found)]
    more = fill(second, 300)
    assert told(second.everything("#", "$SYS/#")) == found + more
    assert second.list(second.log.verify()) == []


def test_a_log_that_is_written_too_fast_is_told() -> None:
    """Nothing that looks like a copy is made of it."""
    pump, grid = Pump(), opened()
    life = Life(grid, pump, SETTINGS)
    fill(life, 300)
    busy = Busy(grid)

    def writes() -> None:
        for _ in range(260):
            life.append("m/1/v")
            life.commit()

    busy.happens = writes
    with pytest.raises(Unavailable, match="faster"):
        pump.run(copy_from(busy, ArchiveWriter(BytesIO(), MADE), all_of))


@pytest.mark.parametrize("after", [5, 24, 40, 60, 100])
def test_a_generation_that_is_dropped_meanwhile_stays_dropped(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages may be gone from the copy, and nobody finds holes: it is finished at the next start."""
    monkeypatch.setattr(copying, "_PAGE", 7)
    monkeypatch.setattr(copying, "_BULKY_PAGE", 7)
    pump, grid = Pump(), opened()
    life = Life(grid, pump, SETTINGS)
    fill(life, 30)
    life.clock.now += SETTINGS.generation_seconds + 1
    kept = fill(life, 30)
    first = min(one.id for one in life.log.generations())
    busy = Busy(grid)
    file = BytesIO()
    writer = ArchiveWriter(file, MADE)
    dropped: list[int] = []

    def drops() -> None:
        if not dropped and busy.asked > after:
            dropped.append(first)
            pump.start(life.log.drop(first))

    busy.happens = drops
    pump.run(copy_from(busy, writer, all_of))
    writer.close()
    again = opened()
    pump.run(copy_into(again, ArchiveReader(BytesIO(file.getvalue())), lambda *_: None))
    second = Life(again, pump, SETTINGS, life.clock)
    assert dropped
    assert told(second.everything("#", "$SYS/#")) == kept


def test_a_copy_of_rocksdb_is_a_grid_of_its_own(tmp_path: Path) -> None:
    """With all that was committed before, and nothing of what came after."""
    pump = Pump()
    grid = EmbeddedGrid(Engine(tmp_path / "grid"), pump.cross)
    pump.run(grid.open())
    filled(pump, grid)
    sums = pump.run(sums_of(grid, all_of))
    pump.run(grid.copy(tmp_path / "copies" / "1"))
    batch = WriteBatch()
    batch.put(CacheName.SESSIONS, b"later", b"")
    pump.run(grid.commit(batch))
    copy = EmbeddedGrid(Engine(tmp_path / "copies" / "1"), pump.cross)
    pump.run(copy.open())
    assert pump.run(sums_of(copy, all_of)).told() == sums.told()
    batch.put(CacheName.SESSIONS, b"other", b"")
    pump.run(copy.commit(batch))
    with pytest.raises(OSError, match="could not be made"):
        pump.run(grid.copy(tmp_path / "copies" / "1"))
    pump.run(grid.commit(batch))
    assert pump.run(grid.get(CacheName.SESSIONS, b"later")) == b""
    pump.run(copy.close())
    pump.run(grid.close())
