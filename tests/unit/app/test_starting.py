"""``iot-mqtt serve`` as a process that begins: what it says when it cannot, and what does not end it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PORTS = [f"--set={key}.port=0" for key in ("listeners.mqtt", "listeners.ws", "listeners.gateway", "admin")]
#: Which handler SIGHUP has when each of these is imported.
ORDER = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
class Finder:
    def find_spec(self, name, *_):
        if name in ("click", "yaml", "twisted"):
            print(name, signal.getsignal(signal.SIGHUP).name)
sys.meta_path.insert(0, Finder())
sys.argv = ["iot-mqtt", *sys.argv[1:]]
import iot_mqtt.app.cli
print("imported", signal.getsignal(signal.SIGHUP).name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "words"), [("gone/x.log", "no such file or directory"), ("", "is a directory")], ids=["gone", "directory"]
)
def test_a_log_that_cannot_be_opened_is_one_line(tmp_path: Path, path: str, words: str) -> None:
    """With the key."""
    log = tmp_path / path
    command = [sys.executable, "-m", "iot_mqtt", "serve", *PORTS, f"--set=node.data_dir={tmp_path}/data"]
    done = subprocess.run([*command, f"--set=log.file={log}"], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1
    assert done.stderr == f"iot-mqtt: log.file: {log} cannot be opened: {words}\n"


@pytest.mark.parametrize(("command", "handler"), [("serve", "SIG_IGN"), ("config", "SIG_DFL")])
def test_no_hangup_ends_a_node_that_starts(command: str, handler: str) -> None:
    """From before the first thing that takes time; other commands end by it, as any program."""
    told = [sys.executable, "-c", ORDER, command]
    done = subprocess.run(told, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.splitlines() == [f"click {handler}", f"imported {handler}"]
