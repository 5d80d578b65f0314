"""``iot-mqtt plugin`` and ``iot-mqtt frames``: what they print and how they exit."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from iot_mqtt.app.cli import main
from iot_mqtt.sdk import Readings
from iot_mqtt.sdk.capture import CaptureWriter, Header

CODEC = "tests.unit.sdk.samples:Good"
READING = {"event": "readings", "device": "7", "values": {"v": 513}}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **settings: Any) -> Result:
    return CliRunner().invoke(main, arguments, **settings)


def told(result: Result) -> list[dict[str, Any]]:
    """The lines of JSON, without what differs from run to run."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_new_writes_a_whole_project(directory: Path) -> None:
    """With the names put in."""
    result = run("plugin", "new", "acme-meter")
    assert result.exit_code == 0, result.output
    files = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    assert {
        "acme-meter/pyproject.toml",
        "acme-meter/README.md",
        "acme-meter/src/acme_meter/codec.py",
        "acme-meter/src/acme_meter/vectors.json",
        "acme-meter/tests/test_codec.py",
    } <= files
    assert 'acme-meter = "acme_meter.codec:AcmeMeter"' in (directory / "acme-meter/pyproject.toml").read_text()
    assert not any("$" in Path(name).read_text() for name in files)


@pytest.mark.parametrize("name", ["", "Acme", "a_b", "-a", "1a", "class", "iot-mqtt", "a/b", "x" * 41])
def test_new_refuses_names_that_are_no_package(name: str, directory: Path) -> None:
    """And writes nothing."""
    result = run("plugin", "new", "--dir", "here", "--", name)
    assert result.exit_code == 1
    assert list(directory.iterdir()) == []


def test_new_writes_over_nothing(directory: Path) -> None:
    """Whatever it is."""
    (directory / "acme").mkdir()
    (directory / "acme" / "notes.txt").write_text("mine")
    result = run("plugin", "new", "acme")
    assert (result.exit_code, "not empty" in result.output) == (1, True)


def test_check_prints_a_card_and_exits_for_ci() -> None:
    """0 if all is well, 1 if not."""
    some = ("--only", "golden", "--only", "cut")
    good = run("plugin", "check", CODEC, *some)
    assert good.exit_code == 0
    assert [line.split()[:2] for line in good.output.splitlines()[2:4]] == [["golden", "PASS"], ["cut", "PASS"]]
    bad = run("plugin", "check", "tests.unit.sdk.test_kit:SaysOtherThings", *some, "--json")
    assert bad.exit_code == 1
    assert [(one["name"], one["verdict"]) for one in json.loads(bad.output)["checks"]] == [
        ("golden", "fail"),
        ("cut", "pass"),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nobody"], 1, "no installed package has an entry point 'nobody'"),
        (["no.such:Thing"], 1, "No module named 'no'"),
        (["json:JSONDecoder"], 1, "not a subclass of iot_mqtt.sdk.Codec"),
        ([CODEC, "--only", "luck"], 2, "there is no check 'luck'"),
    ],
)
def test_check_says_what_is_wrong_with_the_name(arguments: list[str], code: int, words: str) -> None:
    """No traceback."""
    result = run("plugin", "check", *arguments)
    assert (result.exit_code, words in result.output) == (code, True), result.output


def test_decode_reads_text_raw_bytes_and_captures(directory: Path) -> None:
    """Which of them a file is is seen from how it begins."""
    expected = [{"event": "login", "gateway": "g"}, READING, {"end": "size"}]
    (directory / "text").write_text("# a reading\n03 07 0201\n01 07  # bad\n")
    (directory / "raw").write_bytes(bytes.fromhex("030702010107"))
    (directory / "capture").write_bytes(captured(b"\x03\x07\x02", b"\x01\x01\x07"))
    for name in ("text", "raw", "capture"):
        result = run("frames", "decode", name, "--codec", CODEC)
        assert result.exit_code == 0, result.output
        assert [{key: one[key] for key in one if key not in ("ms", "connection")} for one in told(result)] == expected


def captured(*pieces: bytes, events: tuple[Readings, ...] = ()) -> bytes:
    """A capture of one connection."""
    lines: list[bytes] = []
    capture = CaptureWriter(lines.append, lambda: 0.0, Header(0))
    capture.opened(4, "192.0.2.1:1")
    for piece in pieces:
        capture.up(4, piece)
    capture.events(4, events)
    return b"".join(lines)


def test_encode_gives_frames_and_says_what_cannot_be() -> None:
    """Exit code 1 if there is something that cannot."""
    good, bad = '{"device": "7", "values": {"x": 1}}\n', '{"device": "7", "values": {"x": -1}}\n'
    result = run("frames", "encode", "-", "--codec", CODEC, input=good)
    assert (result.exit_code, result.stdout) == (0, "050000000101\n")
    result = run("frames", "encode", "-", "--codec", CODEC, input=good + bad)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "050000000101\n", "command 2: x is no byte\n")
    assert run("frames", "encode", "-", "--codec", CODEC, input='{"devise": 1}').exit_code == 1


def test_replay_tells_versions_of_a_codec_apart(directory: Path) -> None:
    """Against the events of a capture, or those that were printed before."""
    frame = bytes.fromhex("03070201")
    (directory / "bare").write_bytes(captured(frame))
    (directory / "before").write_text(run("frames", "decode", "bare", "--codec", CODEC).stdout)
    same = run("frames", "replay", "bare", "--codec", CODEC, "--events", "before")
    assert (same.exit_code, same.stdout) == (0, "")
    other = run("frames", "replay", "bare", "--codec", "tests.unit.sdk.test_kit:SaysOtherThings", "--events", "before")
    assert other.exit_code == 1
    assert [one["difference"] for one in told(other)] == ["values.v is 258, 513 was expected"]
    assert run("frames", "replay", "bare", "--codec", CODEC).exit_code == 1


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes], threading.Thread]]:
    """A port, and what came to it, one item for each connection."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            for _ in range(2):
                link, _ = server.accept()
                with link, link.makefile("rb") as stream:
                    link.sendall(b"hi")
                    came.append(stream.read())

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield server.getsockname()[1], came, thread


def test_replay_sends_each_connection_on_one_of_its_own(
    directory: Path, listener: tuple[int, list[bytes], threading.Thread]
) -> None:
    """The same bytes; what comes back is counted."""
    port, came, thread = listener
    lines: list[bytes] = []
    clock = iter([0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.1])
    capture = CaptureWriter(lines.append, lambda: next(clock), Header(0))
    capture.opened(1, "a")
    capture.up(1, b"one")
    capture.closed(1, "over")
    capture.opened(2, "b")
    capture.up(2, b"two")
    (directory / "capture").write_bytes(b"".join(lines))
    result = run("frames", "replay", "capture", "--to", f"127.0.0.1:{port}")
    assert result.exit_code == 0, result.output
    assert "2 connections, 6 bytes sent" in result.output
    thread.join(5)
    assert came == [b"one", b"two"]


def test_replay_needs_somewhere_to_go() -> None:
    """One of both, and an address."""
    assert run("frames", "replay", "-", input="").exit_code == 2
    assert "no HOST:PORT" in run("frames", "replay", "-", "--to", "here", input="00").output
