"""The ``iot-mqtt`` command: options, exit codes, what goes where."""

from __future__ import annotations

import os
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from iot_mqtt import __version__
from iot_mqtt.app.cli import main
from iot_mqtt.app.lazy import LazyCommand
from iot_mqtt.auth.passwd import verify

#: What ``serve`` gave to read the configuration again with.
again: list[Any] = []


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The configurations that ``serve`` handed over instead of serving."""
    configurations: list[Any] = []

    def run(loaded: Any, reread: Any) -> int:
        configurations.append(loaded.config)
        again.append(reread)
        return 0

    service = types.ModuleType("iot_mqtt.app.node.lives")
    service.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "iot_mqtt.app.node.lives", service)
    monkeypatch.setattr("iot_mqtt.app.node.lives", service, raising=False)
    return configurations


def run(*arguments: str, **settings: Any) -> Result:
    return CliRunner().invoke(main, arguments, **settings)


def test_serve_reads_the_named_file_and_the_sets(directory: Path, served: list[Any]) -> None:
    """``serve --config FILE --set KEY=VALUE --set KEY=VALUE``."""
    (directory / "my.yaml").write_text("node: {id: a, drain_seconds: 3}")
    result = run("serve", "--config", "my.yaml", "--set", "node.id=b", "--set", "admin.port=0")
    assert (result.exit_code, result.output) == (0, "")
    (config,) = served
    assert (config.node.id, config.node.drain_seconds, config.admin.port) == ("b", 3.0, 0)


def test_what_was_read_at_the_start_can_be_read_again(directory: Path, served: list[Any]) -> None:
    """The same file and the same sets, with what stands in the file then."""
    file = directory / "my.yaml"
    file.write_text("uplink: {rules: [{filter: a}]}")
    assert run("serve", "--config", "my.yaml", "--set", "node.id=b").exit_code == 0
    file.write_text("{node: {id: c}, uplink: {rules: [{filter: b}]}}")
    loaded = again[-1]()
    assert (loaded.config.node.id, loaded.config.uplink.rules) == ("b", ({"filter": "b"},))


def test_serve_takes_application_yaml_if_there_is_one(directory: Path, served: list[Any]) -> None:
    """And the defaults if not."""
    assert run("serve").exit_code == 0
    (directory / "application.yaml").write_text("node: {id: from-file}")
    assert run("serve").exit_code == 0
    assert [config.node.id for config in served] == ["node-1", "from-file"]


def test_serve_reads_the_environment(served: list[Any]) -> None:
    """Between the file and ``--set``."""
    run("serve", "--set", "admin.port=2", env={"IOT_MQTT__NODE__ID": "e", "IOT_MQTT__ADMIN__PORT": "1"})
    assert (served[0].node.id, served[0].admin.port) == ("e", 2)


def test_serve_refuses_a_wrong_configuration(directory: Path, served: list[Any]) -> None:
    """All problems on standard error, nothing on standard output, exit code 1."""
    (directory / "application.yaml").write_text("node: {idd: a}\n")
    result = run("serve", "--set", "grid.kind=x")
    assert (result.exit_code, result.stdout, served) == (1, "", [])
    assert "application.yaml:1:8: node.idd: unknown key; did you mean node.id?" in result.stderr
    assert "--set grid.kind: " in result.stderr


def test_a_file_that_is_not_there_is_a_wrong_command() -> None:
    """Exit code 2, as for any wrong argument."""
    assert run("serve", "--config", "gone.yaml").exit_code == 2


def test_check_says_ok_or_what_is_wrong() -> None:
    """0 and 1."""
    assert run("config", "check").output == "defaults: ok\n"
    result = run("config", "check", "--set", "listeners.mqtt.host=0.0.0.0")
    assert (result.exit_code, "auth.allow_anonymous" in result.stderr) == (1, True)


def test_explain_prints_one_key() -> None:
    """With where it comes from."""
    result = run("config", "explain", "node.id", "--set", "node.id=x")
    assert result.output.startswith("node.id = x\n  from       --set node.id\n")


def test_explain_works_for_what_could_not_be_served() -> None:
    """That is when one asks."""
    assert run("config", "explain", "grid.kind", "--set", "grid.kind=ignite").exit_code == 0


def test_explain_of_no_key_names_the_nearest() -> None:
    """Exit code 1."""
    result = run("config", "explain", "mqtt.max_qs")
    assert (result.exit_code, result.stderr) == (1, "Error: mqtt.max_qs: unknown key; did you mean mqtt.max_qos?\n")


def test_show_and_reference_print_yaml() -> None:
    """The effective values, and the annotated file."""
    assert "  id: x  # --set node.id\n" in run("config", "show", "--set", "node.id=x").output
    assert "  #id: node-1\n" in run("config", "reference").output


def test_version_is_told_both_ways() -> None:
    """As a command and as an option."""
    assert run("--version").output == f"iot-mqtt, version {__version__}\n"
    assert run("version").output.startswith(f"iot-mqtt {__version__} ")


@pytest.mark.parametrize(
    "arguments", [("--help",), ("serve", "-h"), ("config", "explain", "--help"), ("ctl", "--help")]
)
def test_every_command_explains_itself(arguments: tuple[str, ...]) -> None:
    """On standard output, exit code 0."""
    result = run(*arguments)
    assert (result.exit_code, "Usage:" in result.stdout) == (0, True)


@pytest.mark.parametrize("arguments", [("sreve",), ("serve", "--sett", "x"), ("config", "explain"), ("passwd", "f")])
def test_a_wrong_command_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    """And says how it should be."""
    result = run(*arguments)
    assert (result.exit_code, "Usage:" in result.stderr) == (2, True)


def test_passwd_sets_a_password_from_standard_input(directory: Path) -> None:
    """For scripts; the password is never an argument."""
    result = run("passwd", "users", "joe", "--password-stdin", input="s3cret w\u00f6rd\n")
    assert (result.exit_code, "s3cret" in result.output) == (0, False)
    assert verify("users", "joe", "s3cret w\u00f6rd".encode())
    assert (directory / "users").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_passwd_says_that_only_root_can_read_what_it_has_made(directory: Path) -> None:
    """Once; who owns the folder owns the file."""
    (directory / "theirs").mkdir()
    os.chown(directory / "theirs", 12345, 12346)
    said = [
        run("passwd", path, "joe", "--password-stdin", input="x\n").stderr
        for path in ("users", "users", "theirs/users")
    ]
    assert said == ["only root can read users: give it to the user that the node runs as (chown)\n", "", ""]


def test_passwd_asks_twice_on_a_terminal() -> None:
    """And does not echo."""
    result = run("passwd", "users", "joe", input="a\na\n")
    assert (result.exit_code, verify("users", "joe", b"a")) == (0, True)


def test_passwd_removes_a_user() -> None:
    """Once; the second time there is none."""
    run("passwd", "users", "joe", "--password-stdin", input="x\n")
    assert [run("passwd", "users", "joe", "--delete").exit_code for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "typed", "code"),
    [
        (("users", "joe", "--password-stdin"), "\n", 2),
        (("users", "joe", "--password-stdin", "--delete"), "x\n", 2),
        (("users", "a:b", "--password-stdin"), "x\n", 1),
        (("gone/users", "joe", "--password-stdin"), "x\n", 1),
    ],
)
def test_passwd_refuses_what_cannot_be(arguments: tuple[str, ...], typed: str, code: int) -> None:
    """An empty password, a name the file cannot hold, a directory that is not there."""
    result = run("passwd", *arguments, input=typed)
    assert (result.exit_code, result.stderr != "") == (code, True)


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    command = command.load() if isinstance(command, LazyCommand) else command
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name, inner in command.commands.items():
        yield from _leaves(inner, (*path, name))


def test_no_command_has_an_option_twice() -> None:
    """What all commands of ctl share must not hide what one of them has."""
    twice = {}
    for path, command in _leaves(main):
        # Two options may also end in one argument of the command.
        counted = Counter(option for one in command.params for option in {*one.opts, str(one.name)})
        if doubled := [option for option, count in counted.items() if count > 1]:
            twice[path] = doubled
    assert twice == {}
