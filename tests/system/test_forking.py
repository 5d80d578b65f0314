"""Brokers of tests are forked off a warm process: each is a process as the command would be."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from systemkit.process import FORKING, MOSQUITTO, BrokerProcess, Options

pytestmark = pytest.mark.skipif(MOSQUITTO or not FORKING, reason="brokers are not forked")


def arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def test_it_is_forked_and_has_nothing_open_but_its_own(tmp_path: Path) -> None:
    """Neither of what forked it, nor of the tests."""
    broker = BrokerProcess(tmp_path, Options()).start()
    try:
        assert [word for word in arguments(broker.pid) if word.endswith("/forking.py")]
        open_files = [file.readlink() for file in Path(f"/proc/{broker.pid}/fd").iterdir()]
        assert {file for file in open_files if file.is_absolute()} <= {
            Path("/dev/null"),
            Path("/dev/urandom"),
            broker.log,
            *(file for file in open_files if file.is_relative_to(broker.data_dir)),
        }
        assert Path(f"/proc/{broker.pid}/cwd").readlink() == broker.folder
    finally:
        broker.close()


def test_how_it_ends_is_known(tmp_path: Path) -> None:
    """By itself, by a signal that it hears, and by one that it does not."""
    refused = BrokerProcess(tmp_path / "refused", Options(settings={"mqtt.max_qos": 7}))
    with pytest.raises(AssertionError, match=r"ended with 1 (.|\n)*mqtt\.max_qos"):
        refused.start()
    broker = BrokerProcess(tmp_path, Options()).start()
    process = broker.process
    assert process is not None and process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert broker.terminate() == 0
    broker.start()
    process = broker.process
    assert process is not None
    broker.kill()
    assert process.returncode == process.wait() == -signal.SIGKILL


def test_another_environment_is_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is imported already may have looked at it."""
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("SOMETHING", "else")
    broker = BrokerProcess(tmp_path, Options()).start()
    try:
        assert not [word for word in arguments(broker.pid) if word.endswith("/forking.py")]
    finally:
        broker.close()
