"""What the command line does where its output cannot go, or its words cannot be written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from iot_mqtt.app.standard_streams import output_failure, prepare_streams

COMMAND = (sys.executable, "-m", "iot_mqtt")


def ran(*arguments: str, redirected: str = "", **environment: str) -> tuple[int, str, str]:
    """Exit code, output and errors; ``redirected`` as a shell writes it."""
    line = ["sh", "-c", f'exec "$@" {redirected}', "sh", *COMMAND, *arguments]
    done = subprocess.run(
        line, env={**os.environ, **environment}, capture_output=True, encoding="latin-1", timeout=50, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("config", "show")])
def test_a_full_disk_is_one_line(arguments: tuple[str, ...], unbuffered: str) -> None:
    """However much is written, and when."""
    code, _, errors = ran(*arguments, redirected=">/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, errors) == (1, "iot-mqtt: standard output: no space left on device\n")


def test_a_refusal_keeps_its_code_and_its_words() -> None:
    """What is to be read stands on standard error."""
    code, _, errors = ran("config", "check", "--set", "nonsense=1", redirected=">/dev/full")
    assert code == 1
    assert "nonsense" in errors and "Traceback" not in errors


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&-"])
def test_output_that_is_closed_is_none(closed: str) -> None:
    """Nobody wants it."""
    code, output, errors = ran("ctl", "status", "--url", "http://127.0.0.1:1", "--token", "x", redirected=closed)
    assert (code, output, "Traceback" in errors) == (1, "", False)
    assert ran("config", "show", redirected=closed) == (0, "", "")


def test_whatever_is_closed_is_there_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables ask whether it is a terminal."""
    monkeypatch.setattr(sys, "stdout", None)
    prepare_streams()
    with sys.stdout as made:
        assert not made.isatty()


def test_a_reader_that_has_gone_is_no_fault() -> None:
    """As ``head`` does it."""
    line = f"{' '.join(COMMAND)} config show | head -n 1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=50, check=True)
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


def test_bytes_that_are_no_text_are_one_line() -> None:
    """Also where a secret among the arguments has them listed otherwise."""
    code, _, errors = ran("ctl", "why", "\udcff", "--url", "http://127.0.0.1:1", "--token", "x")
    assert (code, errors) == (1, "Error: an argument is no text in UTF-8: it has \\udcff\n")


def test_letters_that_the_encoding_lacks_are_spelled_out() -> None:
    """Rather than that nothing is written at all."""
    told = ("config", "show", "--set", "mqtt.server_reference=press-\u0394")
    code, output, _ = ran(*told, PYTHONIOENCODING="latin-1", PYTHONUTF8="0", LC_ALL="C.UTF-8")
    assert code == 0
    assert "press-\\u0394" in output


def test_other_faults_stay_what_they_are() -> None:
    """A file that is full has a name."""
    assert output_failure(OSError(errno.ENOSPC, "No space left on device", "/data/x")) is None
    assert output_failure(OSError(errno.ECONNREFUSED, "Connection refused")) is None
    assert output_failure(SystemExit(1)) is None
