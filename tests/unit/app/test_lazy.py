"""What the commands import: a broker only where one runs."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from iot_mqtt.app import cli
from iot_mqtt.app.ctl import cli as ctl
from iot_mqtt.app.lazy import LazyCommand, importing

#: Prints what a command of ``iot-mqtt`` imported, beyond what the interpreter has from the beginning.
_PROBE = """
import sys
before = set(sys.modules)
from iot_mqtt.app.cli import main
try:
    main(sys.argv[1:], standalone_mode=False)
except BaseException as error:
    print(error, file=sys.stderr)
print("\\n" + " ".join(set(sys.modules) - before))
"""
#: Of the standard library: what costs the most, and comes with other things than help.
_DEAR = {"asyncio", "concurrent", "email", "http", "logging", "multiprocessing", "sqlite3", "ssl", "xml"}


#: Of ``iot_mqtt.app.ctl``, what ``ctl status`` is made of.
_CTL = ("", ".cli", ".command", ".errors", ".node", ".status", ".target", ".trust")


#: The same of a node by itself.
_NODE = """
import sys
import iot_mqtt.app.serve, iot_mqtt.app.node.lives

print(" ".join(sys.modules))
"""

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


def _foreign(imported: set[str]) -> set[str]:
    """Packages that are neither Python's nor what Cython makes."""
    found = {name.partition(".")[0] for name in imported}
    return {name for name in found - sys.stdlib_module_names if "cython" not in name}


def _imported(*arguments: str, probe: str = _PROBE) -> set[str]:
    command = [sys.executable, "-c", probe, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(shown.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["ctl", "--help"]], ids=" ".join)
def test_who_asks_for_help_loads_no_broker(arguments: list[str]) -> None:
    """Click, and what the command line itself is made of."""
    imported = _imported(*arguments)
    ours = {name for name in imported if name.startswith("iot_mqtt.")}
    assert ours <= {
        "iot_mqtt.app",
        "iot_mqtt.app.cli",
        "iot_mqtt.app.lazy",
        "iot_mqtt.app.process_list",
        "iot_mqtt.app.standard_streams",
        "iot_mqtt.app.terminal",
        "iot_mqtt.compiled",
        "iot_mqtt.secrecy",
        *(f"iot_mqtt.app.ctl{module}" for module in ("", ".cli", ".command", ".errors", ".target")),
    }
    packages = {name.partition(".")[0] for name in imported}
    assert packages - sys.stdlib_module_names <= {"iot_mqtt", "click"}
    assert not packages & _DEAR


def test_a_command_of_ctl_loads_no_broker() -> None:
    """It speaks HTTP with one."""
    packages = {name.partition(".")[0] for name in _imported("ctl", "publish", "--help")}
    assert packages - sys.stdlib_module_names <= {"iot_mqtt", "click"}


def test_a_command_at_work_loads_the_client_of_the_api_alone(tmp_path: Path) -> None:
    """And of the configuration what finds the data directory in it; here nobody answers."""
    (tmp_path / "admin.token").write_text("t")
    (tmp_path / "admin.url").write_text("http://127.0.0.1:1")
    configuration = tmp_path / "mine.yaml"
    configuration.write_text(f"node: {{data_dir: {tmp_path}}}\nuplink: {{no such key: 1}}")
    imported = _imported("ctl", "status", "--config", str(configuration))
    assert {name for name in imported if name.startswith("iot_mqtt.")} <= {
        *(f"iot_mqtt.admin{module}" for module in ("", ".paths", ".token")),
        "iot_mqtt.app",
        *(f"iot_mqtt.app.{module}" for module in ("cli", "lazy", "process_list", "standard_streams", "terminal")),
        *(f"iot_mqtt.app.config{module}" for module in ("", ".errors", ".layers", ".yaml_loader")),
        *(f"iot_mqtt.app.ctl{module}" for module in _CTL),
        "iot_mqtt.compiled",
        "iot_mqtt.plain_files",
        "iot_mqtt.secrecy",
        "iot_mqtt.whole_files",
    }
    assert "iot_mqtt.app.ctl.node" in imported
    assert _foreign(imported) <= {"iot_mqtt", "click", "yaml", "_yaml"}


@pytest.mark.parametrize(
    "arguments", [["pub", "-t", "a", "-m", "x"], ["sub", "-t", "a"]], ids=lambda each: str(each[0])
)
def test_a_client_loads_the_codec_and_no_broker(arguments: list[str]) -> None:
    """Neither Twisted nor WebSockets nor what a node is made of."""
    imported = _imported(*arguments, "--unix", "/nowhere")
    assert "iot_mqtt.app.client.client" in imported
    ours = {name.split(".")[1] for name in imported if name.startswith("iot_mqtt.")}
    # What mypyc has compiled is one library; of it only the modules that are asked for run.
    ours -= {"hot__mypyc"}
    assert ours <= {"app", "codec", "compiled", "errors", "native", "secrecy", "topics", "values"}
    assert {name for name in imported if name.startswith("iot_mqtt.app.")} <= {
        *(
            f"iot_mqtt.app.{module}"
            for module in ("cli", "client", "lazy", "process_list", "standard_streams", "terminal")
        ),
        *(name for name in imported if name.startswith("iot_mqtt.app.client.")),
    }
    assert _foreign(imported) <= {"iot_mqtt", "click", "mypy_extensions"}


def test_a_node_by_itself_loads_no_cluster() -> None:
    """Nor what makes a data platform, nor other commands."""
    imported = _imported(probe=_NODE)
    packages = {name.partition(".")[0] for name in imported}
    assert not packages & {"kazoo", "pyignite", "confluent_kafka", "pyspark", "duckdb"}
    assert not imported & {"iot_mqtt.cluster", "iot_mqtt.grid.ignite", "iot_mqtt.app.ctl", "iot_mqtt.app.engines"}


@pytest.mark.parametrize("listed", [*cli.COMMANDS, *ctl.COMMANDS], ids=lambda listed: str(listed.place))
def test_what_is_listed_is_what_the_command_says(listed: LazyCommand) -> None:
    """Its name, and the first sentence of its help; what is loaded is no placeholder."""
    command = listed.load()
    assert (command.name, command.get_short_help_str(1000)) == (listed.name, listed.help)


def test_what_was_imported_is_no_work_for_the_collector() -> None:
    """It is not looked at again, and what comes after it is."""
    before = gc.get_freeze_count()
    with importing():
        assert not gc.isenabled()
        kept: list[list[object]] = [[]]
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    assert not any(one is kept for one in gc.get_objects())


def test_a_command_that_is_no_command_is_refused() -> None:
    """With the place, for whoever moved it."""
    with pytest.raises(TypeError, match="iot_mqtt:__version__"):
        LazyCommand("version", "iot_mqtt:__version__", "").load()
