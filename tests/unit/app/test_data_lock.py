"""One process at a time in a data directory, and a sentence for the second."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import pytest

from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.grids import stopped
from iot_mqtt.app.config.reading import Layers, LoadedConfig
from iot_mqtt.app.config.sections import Config, GridConfig, LogConfig, NodeConfig
from iot_mqtt.app.data_lock import FILE, holding
from iot_mqtt.app.node import lives
from iot_mqtt.grid.faults import InUse, OpenFault

_HOLD = """
import sys, time
from pathlib import Path
from iot_mqtt.app.data_lock import holding
with holding(Path(sys.argv[1]), "node node-2"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """By another process, until the end of the block or of that process."""
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def refused(folder: Path, words: str, how: type[OpenFault] = InUse) -> None:
    """Nobody gets it now."""
    with pytest.raises(how, match=words), holding(folder, "node node-8"):
        raise AssertionError("two hold it")


def test_the_second_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    """Until the first is gone, however it ended."""
    with held_elsewhere(tmp_path) as process:
        refused(tmp_path, rf"node\.data_dir: {tmp_path} is in use by process {process.pid}, node node-2:")
        process.send_signal(signal.SIGKILL)
        process.wait()
        with holding(tmp_path, "node node-8"):
            assert f"process {os.getpid()}, node node-8" in (tmp_path / FILE).read_text()
    with holding(tmp_path, "node node-2"):
        pass


def test_children_do_not_hold_it(tmp_path: Path) -> None:
    """A worker that outlives its node keeps nobody from starting the node again."""
    code = [sys.executable, "-c", "print('here', flush=True); input()"]
    with holding(tmp_path, "node node-1"):
        child = subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
        assert child.stdout is not None and child.stdout.readline() == b"here\n"
    with child, holding(tmp_path, "node node-1"):
        child.communicate(b"\n")


def test_a_disk_that_is_full_keeps_no_node_from_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the name of the holder is missing then."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with holding(tmp_path, "node node-1"):
        refused(tmp_path, "in use by another process:")


def test_a_file_system_without_locks_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than two nodes in it one day."""

    def no_locks(_: int, operation: int) -> None:
        assert operation & fcntl.LOCK_NB, "it must not hang"
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    refused(tmp_path, r"node\.data_dir: .* cannot be locked: No locks available", OpenFault)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """By its key and its name."""
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file" / "data", r"node\.data_dir: .*file", OpenFault)


@pytest.mark.parametrize("kind", ["memory", "embedded", "ignite"])
def test_a_node_does_not_start_in_a_directory_that_is_held(
    kind: Literal["memory", "embedded", "ignite"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever its grid is; nothing in the directory is another than before."""
    monkeypatch.setattr(lives, "set_umask", lambda _: None)
    folder = tmp_path / "data"
    log = folder / "node.log"
    config = Config(
        node=NodeConfig(id="node-8", data_dir=str(folder)), grid=GridConfig(kind=kind), log=LogConfig(file=str(log))
    )

    def never() -> LoadedConfig:
        raise AssertionError

    with holding(folder, "node node-2"):
        before = {path: path.stat() for path in (folder, *folder.rglob("*"))}
        assert lives.run(LoadedConfig(config, {}, {}, Layers((), (), (), ())), never) == 1
        assert {path: path.stat() for path in (folder, *folder.rglob("*"))} == before
    told = f"iot-mqtt: node.data_dir: {folder} is in use by process {os.getpid()}, node node-2:"
    assert told in capsys.readouterr().err


def test_commands_that_write_there_want_the_node_stopped(tmp_path: Path) -> None:
    """One directory may be asked for by two names."""
    with stopped("iot-mqtt migrate", tmp_path, tmp_path / "data", tmp_path / "data" / ".."):
        refused(tmp_path, "iot-mqtt migrate")
    with ExitStack() as open_ends:
        open_ends.enter_context(holding(tmp_path, "node node-1"))
        with pytest.raises(BackupError, match=r"node node-1: .*; stop the node"):
            open_ends.enter_context(stopped("iot-mqtt migrate", tmp_path))
