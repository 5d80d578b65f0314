"""The list of processes says nothing that only the caller should know."""

from __future__ import annotations

import subprocess
import sys

import pytest

from iot_mqtt.app.process_list import without_secrets


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["serve", "--set", "grid.ignite.token=abc"], ["serve", "--set", "grid.ignite.token=******"]),
        (["serve", "--set=grid.ignite.token=abc"], ["serve", "--set=grid.ignite.token=******"]),
        (["serve", "--set", "grid.ignite={token: abc}"], ["serve", "--set", "grid.ignite=******"]),
        (["serve", "--set", "node.id=abc"], ["serve", "--set", "node.id=abc"]),
        (["ctl", "--token", "abc", "status"], ["ctl", "--token", "******", "status"]),
        (["ctl", "--token=abc", "status"], ["ctl", "--token=******", "status"]),
        (["ctl", "--url", "http://user:abc@host/"], ["ctl", "--url", "http://******@host/"]),
        (["pub", "-u", "joe", "-P", "abc", "-t", "a"], ["pub", "-u", "joe", "-P", "******", "-t", "a"]),
        (["pub", "-Pabc", "--pw", "abc", "--pw=abc"], ["pub", "-P******", "--pw", "******", "--pw=******"]),
        (["passwd", "users", "token"], ["passwd", "users", "token"]),
    ],
)
def test_secrets_are_masked_and_nothing_else(arguments: list[str], shown: list[str]) -> None:
    """By the names of keys and options."""
    assert list(without_secrets(arguments)) == shown


def test_a_command_shows_no_secret_of_its_arguments() -> None:
    """As the system tells it: what is started here prints how it is listed."""
    program = (
        "import sys; from pathlib import Path; from iot_mqtt.app import cli\n"
        "cli.version.callback = lambda **_: print(Path('/proc/self/cmdline').read_text())\n"
        "cli.main(['version'], prog_name='iot-mqtt')"
    )
    command = [sys.executable, "-c", program, "--set", "registry.zookeeper.password=abracadabra"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "registry.zookeeper.password=******" in listed
    assert "abracadabra" not in listed
