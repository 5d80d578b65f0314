"""A backup of the shared grid, while it is written, put into an empty one."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from iot_mqtt.grid.archive import ArchiveReader, ArchiveWriter, Header, copy_from, copy_into, sums_of
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import ReactorPump
from tests.contract.grids import OnIgnite
from tests.contract.ignitekit import clear
from tests.contract.logkit import SETTINGS, Life, fill, told


def nothing(cache: CacheName, key: bytes) -> bool:
    return False


class TestOnIgnite(OnIgnite):
    """A real server."""

    def test_a_grid_that_is_written_is_copied_and_put_back(self, tmp_path: Path) -> None:
        """All that was committed before; then the same entry by entry."""
        pump = self.pump()
        assert isinstance(pump, ReactorPump)
        grid = self.make(tmp_path, pump)
        pump.run(grid.open())
        batch = WriteBatch()
        for number in range(3000):
            batch.put(CacheName.RETAINED, b"topic/%d" % number, bytes(number % 300))
        pump.run(grid.commit(batch))
        life = Life(grid, pump, SETTINGS)
        before = fill(life, 120)
        file = BytesIO()
        archive = ArchiveWriter(file, Header("ignite", "1", 0.0))
        copying = pump.start(copy_from(grid, archive, nothing))
        after = []
        while not copying.called:
            after += told([life.append("m/1/v", count=2)])
            life.commit()
        assert after
        told_sums = archive.close()
        pump.run(grid.close())

        clear(pump, [self.server])
        again = self.make(tmp_path, pump)
        pump.run(again.open())
        pump.run(copy_into(again, ArchiveReader(BytesIO(file.getvalue())), lambda *_: None))
        assert pump.run(sums_of(again, nothing)).told() == told_sums
        second = Life(again, pump, SETTINGS, life.clock)
        found = told(second.everything("#", "$SYS/#"))
        assert found[: len(before)] == before
        assert found == (before + after)[: len(found)]
        pump.run(again.close())
