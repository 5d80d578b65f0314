"""``iot-mqtt pub`` and ``sub``: what is a wrong command, and what the options amount to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.client.options import MosquittoCommand, Setup, connection_options, setup, with_property_options
from iot_mqtt.values import NEVER, ProtocolVersion


def _setup(*arguments: str, **settings: Any) -> Setup:
    """What the shared options amount to."""
    made: list[Setup] = []

    @click.command(cls=MosquittoCommand)
    @connection_options
    def command(**options: Any) -> None:
        made.append(setup("test", options))

    result = CliRunner().invoke(command, arguments, **settings)
    assert result.exit_code == 0, result.output
    return made[0]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("pub", "-m", "x"), "where to?"),
        (("pub", "-t", "a"), "one of -m"),
        (("pub", "-t", "a", "-m", "x", "-n"), "one of -m"),
        (("pub", "-t", "a/#", "-m", "x"), "wildcard"),
        (("pub", "-t", "", "-m", "x"), "empty"),
        (("pub", "-t", "a", "-l", "--repeat", "2"), "lines come once"),
        (("pub", "-t", "a", "-m", "x", "-V", "311", "--content-type", "x"), "MQTT 5"),
        (("pub", "-t", "a", "-m", "x", "-V", "311", "--wait-response", "1"), "MQTT 5"),
        (("pub", "-t", "a", "-m", "x", "-e", "b/#"), "wildcard"),
        (("pub", "-t", "a", "-m", "x", "-V", "6"), "'6' is not one of"),
        (("pub", "-t", "a", "-m", "x", "-c"), "-i"),
        (("pub", "-t", "a", "-m", "x", "-i", "a", "-I", "b"), "exclude"),
        (("pub", "-t", "a", "-m", "x", "-V", "31", "-P", "x"), "-u"),
        (("pub", "-t", "a", "-m", "x", "-L", "http://h"), "mqtt://"),
        (("pub", "-t", "a", "-m", "x", "-L", "mqtt://h:99999"), "mqtt://"),
        (("pub", "-t", "a", "-m", "x", "-L", "mqtt://[h"), "mqtt://"),
        (("pub", "-t", "a", "-m", "x", "--will-payload", "x"), "--will-topic"),
        (("pub", "-t", "a", "-m", "x", "--will-topic", "a/+"), "will"),
        (("pub", "-t", "a", "-m", "x", "-D", "publish", "nonsense", "x"), "-D publish nonsense"),
        (("pub", "-t", "a", "-m", "x", "-F", "%k"), "no %k"),
        (("pub", "-t", "a", "-f", "gone"), "gone"),
        (("pub", "-t", "a\udcff", "-m", "x"), "UTF-8"),
        (("pub", "-t", "a" * 70_000, "-m", "x"), "70000 bytes is too long"),
        (("pub", "-t", "a", "-m", "x", "-i", "\udcff"), "no text in UTF-8"),
        (("pub", "-t", "a", "-m", "x", "--user-property", "k" * 70_000, "v"), "70000 bytes is too long"),
        (("pub", "-t", "a", "-m", "x", "--will-topic", "w", "--will-payload", "x" * 70_000), "too long"),
        (("sub", "-t", "a\udcff"), "no filter"),
        (("sub", "-t", "a" * 70_000), "no filter"),
        (("sub", "-U", "a\udcff"), "no text in UTF-8"),
        (("sub", "-t", "a", "--user-property", "\udcff", "v"), "no text in UTF-8"),
        (("sub",), "to what?"),
        (("sub", "-t", "a/#/b"), "no filter"),
        (("sub", "-t", "a", "-T", "+b"), "no filter"),
        (("sub", "-t", "a", "-V", "311", "--no-local"), "MQTT 5"),
        (("sub", "-t", "a", "-V", "311", "--subscription-id", "1"), "MQTT 5"),
        (("sub", "-t", "a", "-V", "311", "-x", "5"), "MQTT 5"),
    ],
)
def test_a_wrong_command_is_exit_code_2(command: tuple[str, ...], says: str) -> None:
    """Before anything is connected to, and with a sentence."""
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in " ".join(result.stderr.split())


@pytest.mark.parametrize("arguments", [("pub", "-t", "a", "-m", "x"), ("sub", "-t", "a")])
def test_nobody_there_is_exit_code_3(arguments: tuple[str, ...]) -> None:
    """With the address; nothing at all with --quiet."""
    command = (*arguments, "--unix", "/nowhere/at/all")
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: cannot connect to /nowhere/at/all: No such file or directory\n",
    )
    assert CliRunner().invoke(main, (*command, "--quiet")).output == ""


def test_properties_may_be_written_as_mosquitto_has_them() -> None:
    """``-D packet name value``; a user property has two values."""
    given = ["-t", "a", "-D", "publish", "user-property", "k", "v", "-D", "publish", "content-type", "x", "-m", "y"]
    assert with_property_options(given) == ["-t", "a", "--user-property", "k", "v", "--content-type", "x", "-m", "y"]


def test_a_url_says_where_and_who() -> None:
    """Percent signs are read; the topic is what stands behind the first slash."""
    made = _setup("-L", "mqtts://jo%40e:p%3Aw@host:99/plant/1")
    assert (made.address.host, made.address.port, made.address.tls is not None) == ("host", 99, True)
    assert (made.connect.username, made.connect.password, made.topic) == ("jo@e", b"p:w", "plant/1")
    ws = _setup("-L", "ws://host/mqtt")
    assert (ws.address.port, ws.address.ws, ws.topic) == (80, "/mqtt", None)


def test_passwords_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    """The first line of it."""
    file = tmp_path / "secret"
    file.write_bytes(b"from file\r\nmore\n")
    assert _setup("-u", "j", env={"IOT_MQTT_CLIENT_PASSWORD": "from env"}).connect.password == b"from env"
    assert _setup("-u", "j", "--password-file", str(file)).connect.password == b"from file"


def test_ports_follow_from_what_is_spoken(tmp_path: Path) -> None:
    """Unless one is named."""
    assert [_setup(*one).address.port for one in ((), ("--tls",), ("--ws", "/mqtt"))] == [1883, 8883, 8083]


def test_a_kept_session_is_kept_for_ever_unless_said_otherwise() -> None:
    """As with mosquitto's clients."""
    kept = _setup("-c", "-i", "me").connect
    assert (kept.clean_start, kept.properties.session_expiry_interval) == (False, NEVER)
    assert _setup("-c", "-i", "me", "-x", "60").connect.properties.session_expiry_interval == 60
    assert _setup("-c", "-i", "me", "-V", "311").connect.properties.session_expiry_interval is None


def test_a_will_has_all_that_a_message_has() -> None:
    """Topic, payload, QoS, retain, delay and properties."""
    will = _setup(
        *("--will-topic", "gone/x", "--will-payload", "bye", "--will-qos", "1", "--will-retain", "--will-delay", "5"),
        *("--will-user-property", "a", "b", "--will-correlation-data", "c"),
    ).connect.will
    assert will is not None
    assert (will.topic, will.payload, will.qos, will.retain) == (b"gone/x", b"bye", 1, True)
    assert (will.properties.will_delay_interval, will.properties.user_properties) == (5, (("a", "b"),))
    assert will.properties.correlation_data == b"c"


def test_mqtt_31_has_a_client_id_always() -> None:
    """It knows none that the broker chooses."""
    assert _setup("-V", "mqttv31").connect.client_id.startswith("iot-mqtt-test-")
    assert (_setup().connect.client_id, _setup().connect.version) == ("", ProtocolVersion.V5)
    assert _setup("-I", "plc-").connect.client_id.startswith("plc-")
