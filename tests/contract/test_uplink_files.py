"""The file sink against the contract, and what only files promise: each record exactly once, whatever is removed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from iot_mqtt.ports.uplink import Sink
from iot_mqtt.uplink.files import FileSink
from iot_mqtt.uplink.settings import FileSettings
from tests.contract.driving import Pump
from tests.contract.uplink_suite import Feed, SinkKit, SinkSuite


class FileKit:
    """A directory, with rounds that are over soon."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pump = Pump()

    def make(self) -> Sink:
        return FileSink(self.root, FileSettings(rotate_seconds=0.05, reserve=0), self.pump.cross, time.monotonic)

    def finish(self) -> None:
        """Time passes by itself."""

    def read(self) -> list[tuple[str, bytes]]:
        paths = sorted(self.root.glob("*/dt=*/*.jsonl"))
        return [(path.parts[-3], line) for path in paths for line in path.read_bytes().splitlines()]

    def break_it(self) -> None:
        shutil.rmtree(self.root)
        self.root.write_bytes(b"in the way")

    def repair(self) -> None:
        self.root.unlink()


class TestFileSink(SinkSuite):
    """Over a real directory and a real thread."""

    @pytest.fixture
    def kit(self, tmp_path: Path) -> SinkKit:
        return FileKit(tmp_path / "uplink")

    def test_two_processes_do_not_write_to_one_directory(self, kit: SinkKit) -> None:
        """The second one is told, and gets in when the first one is gone."""
        first, second = Feed(kit), Feed(kit)
        first.open()
        with pytest.raises(Exception, match="another process writes to it"):
            second.open()
        first.close()
        assert second.open() == 0
        second.close()
