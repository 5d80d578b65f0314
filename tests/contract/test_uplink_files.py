"""The file sink against the contract, and what only files promise: each record exactly once, whatever is removed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Sink
from iot_mqtt.uplink.files import FileSink
from iot_mqtt.uplink.settings import FileSettings
from tests.contract.driving import Pump
from tests.contract.uplink_suite import Feed, SinkKit, SinkSuite, record


class FileKit:
    """A directory, with rounds that are over soon."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pump = Pump()
        #: Bytes that are free.
        self.room = 10**9

    def make(self) -> Sink:
        settings = FileSettings(rotate_seconds=0.05, reserve=1)
        return FileSink(self.root, settings, self.pump.cross, time.monotonic, lambda _: self.room)

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
    def kit(self, tmp_path: Path) -> FileKit:
        return FileKit(tmp_path / "uplink")

    def test_want_of_room_is_no_other_trouble(self, kit: FileKit) -> None:
        """It is told apart, whether it is found by a start or by a batch, until something else is in the way."""
        feed = Feed(kit)
        kit.room = 0
        with pytest.raises(Unavailable, match=r"uplink\.file\.reserve"):
            feed.open()
        assert feed.sink.lacks_room
        kit.room = 10**9
        feed.open()
        assert (feed.sink.trouble, feed.sink.lacks_room) == (None, False)
        kit.room = 0
        feed.send(0, record(0))
        feed.wait(lambda: bool(feed.told))
        assert feed.sink.lacks_room
        kit.break_it()
        with pytest.raises(Unavailable):
            feed.open()
        assert feed.sink.trouble and not feed.sink.lacks_room
        feed.close()

    def test_two_processes_do_not_write_to_one_directory(self, kit: SinkKit) -> None:
        """The second one is told, and gets in when the first one is gone."""
        first, second = Feed(kit), Feed(kit)
        first.open()
        with pytest.raises(Exception, match="another process writes to it"):
            second.open()
        first.close()
        assert second.open() == 0
        second.close()
