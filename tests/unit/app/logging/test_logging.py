"""What the log looks like, and what is never in it."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from iot_mqtt.app.config.sections import LogConfig
from iot_mqtt.app.logging import log_alarms, make_handler, observe_twisted, reopen_log
from iot_mqtt.app.logging.flood import FloodFilter
from iot_mqtt.app.logging.redaction import redact, redact_text
from iot_mqtt.ports.alarms import Alarm, AlarmKind

PASSWORD = "hunter2"


class Lines:
    """A logger of its own with a handler that writes into memory."""

    def __init__(self, kind: Any) -> None:
        self.stream = io.StringIO()
        self.logger = logging.getLogger("iot_mqtt.test_logging")
        self.handler = make_handler(LogConfig(format=kind), self.stream)
        self.logger.propagate = False
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(self.handler)

    def say(self, text: str, *parts: object, **fields: object) -> None:
        """Past everybody else who listens: what a test runner keeps of a record it cannot send to another process."""
        self.handler.handle(
            self.logger.makeRecord(self.logger.name, logging.INFO, __file__, 0, text, parts, None, extra=fields)
        )

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture(params=["console", "json"])
def lines(request: pytest.FixtureRequest) -> Iterator[Lines]:
    """Both forms: nothing may be in one of them either."""
    lines = Lines(request.param)
    yield lines
    lines.logger.removeHandler(lines.handler)


@pytest.fixture
def as_json() -> Iterator[Lines]:
    lines = Lines("json")
    yield lines
    lines.logger.removeHandler(lines.handler)


def test_a_json_line_has_message_level_logger_time_and_fields(as_json: Lines) -> None:
    """One object a line."""
    as_json.logger.warning("closed: %s", "why", extra={"peer": "1.2.3.4:5", "count": 3})
    (line,) = as_json.objects
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "message": "closed: why",
        "level": "warning",
        "logger": "iot_mqtt.test_logging",
        "peer": "1.2.3.4:5",
        "count": 3,
    }


def test_a_console_line_is_one_line(lines: Lines) -> None:
    """A client id with a line feed cannot forge a second one."""
    lines.logger.info("closed: %s", "\x1b[2J\rb\nc", extra={"client": "a\n[error]\x1b[2Jforged", "peer": "\x1b[2J"})
    assert len(lines.text.splitlines()) == 1
    assert "\x1b" not in lines.text


_STEERING = "\x07\x1b\x7f\x85\x9b31m\u2028\u2029\u202e\u2066\ufeff\U000e0041\udc9b"


def test_nothing_in_a_line_steers_a_terminal_or_ends_the_line(lines: Lines) -> None:
    """C1 controls, separators of Unicode, and what turns the direction of writing, in the text and in fields."""
    lines.say("closed: %s", _STEERING, client=_STEERING, within={_STEERING: [_STEERING]})
    (line,) = lines.text.splitlines()
    assert line.isprintable()


def test_json_says_what_was_meant(as_json: Lines) -> None:
    """What is escaped comes back; what can be printed stays readable."""
    as_json.say("closed", client=f"J\u00fcrgen{_STEERING}\U0001f600")
    assert [line["client"] for line in as_json.objects] == [f"J\u00fcrgen{_STEERING}\U0001f600"]
    assert "J\u00fcrgen\\u0007\\u001b\\u007f\\u0085\\u009b31m\\u2028" in as_json.text and "\U0001f600" in as_json.text


@pytest.mark.parametrize(
    "name", ["password", "passwd", "new_password", "token", "Authorization", "payload", "auth_data"]
)
def test_a_field_with_a_telling_name_loses_its_value(lines: Lines, name: str) -> None:
    """Whoever logs it by mistake logs three asterisks."""
    lines.logger.info("connect", extra={name: PASSWORD})
    assert PASSWORD not in lines.text
    assert "***" in lines.text


def test_fields_within_fields_are_looked_at(lines: Lines) -> None:
    """A dictionary of a request, a list of them."""
    lines.logger.info("x", extra={"request": {"user": "joe", "password": PASSWORD}, "all": [{"token": PASSWORD}]})
    assert PASSWORD not in lines.text
    assert "joe" in lines.text


def test_bytes_are_only_counted(lines: Lines) -> None:
    """In a broker they are packets, payloads and passwords, whatever they are called."""
    lines.logger.info("packet", extra={"data": PASSWORD.encode()})
    assert PASSWORD not in lines.text
    assert "7 bytes" in lines.text


@pytest.mark.parametrize(
    "sentence",
    [
        f"password={PASSWORD}",
        f"Password: {PASSWORD}",
        f'{{"password": "{PASSWORD}"}}',
        f"Authorization: Bearer {PASSWORD}",
        f"Connect(username='joe', password=b'{PASSWORD}')",
        f"Connect(username='joe', password='x \" {PASSWORD}')",
        f"payload=b'a\\'{PASSWORD}'",
        f"frame {PASSWORD.encode()!r}",
        f"admin_token = {PASSWORD}, next",
    ],
)
def test_a_sentence_loses_what_follows_a_telling_word(lines: Lines, sentence: str) -> None:
    """Representations of packets end up in messages sooner or later."""
    lines.logger.info("got %s", sentence)
    assert PASSWORD not in lines.text


def test_a_traceback_is_redacted_like_any_text(lines: Lines) -> None:
    """Exceptions quote what they could not digest."""
    try:
        raise ValueError(f"cannot parse payload={PASSWORD} in {PASSWORD.encode()!r}")
    except ValueError:
        lines.logger.exception("failed")
    # The source line of this very test is part of the traceback.
    assert PASSWORD not in lines.text.replace("{PASSWORD", "")
    assert "ValueError" in lines.text


def test_redaction_leaves_ordinary_sentences_alone() -> None:
    """A log that hides too much is of no use either."""
    sentence = "client 'plc-7' from 10.0.0.1:5: payload too large (2000 of 1000 bytes), 3 tokens of topic a/b left"
    assert redact_text(sentence) == sentence


def test_figures_stay_whatever_they_are_called() -> None:
    """A payload's size is no payload."""
    assert redact(None, "info", {"payload_bytes": 5, "password_given": True}) == {
        "payload_bytes": 5,
        "password_given": True,
    }


def test_redacting_twice_is_redacting_once() -> None:
    """The mask is not itself a secret."""
    once = redact_text("password='a b' token=x b'\\x00'")
    assert redact_text(once) == once


class Hand:
    """A clock turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def record(message: str, *arguments: object, level: int = logging.INFO, name: str = "a") -> logging.LogRecord:
    """A line as loggers make them."""
    return logging.LogRecord(name, level, "f.py", 1, message, arguments, None)


def test_a_flood_of_one_kind_of_line_is_thinned_out() -> None:
    """Ten thousand bad connections leave twenty lines, whatever addresses they name."""
    flood = FloodFilter(burst=20, seconds=10, now=Hand())
    assert sum(bool(flood.filter(record("closed: %s", number))) for number in range(10_000)) == 20


def test_other_lines_pass_meanwhile() -> None:
    """Kinds are told apart by logger, level and text."""
    flood = FloodFilter(burst=1, seconds=10, now=Hand())
    others = (record("x"), record("y"), record("x", level=logging.ERROR), record("x", name="b"))
    assert [bool(flood.filter(one)) for one in (*others, record("x"))] == [True, True, True, True, False]


def test_after_the_window_the_line_passes_and_says_how_many_did_not() -> None:
    """Nothing is left out without a count."""
    hand = Hand()
    flood = FloodFilter(burst=2, seconds=10, now=hand)
    for _ in range(5):
        flood.filter(record("x"))
    hand.now = 10.0
    after = record("x")
    assert flood.filter(after)
    assert after.__dict__["held_back"] == 3
    again = record("x")
    assert flood.filter(again)
    assert "held_back" not in again.__dict__


def test_ever_new_lines_do_not_fill_the_memory() -> None:
    """Where the figures are already in the text, every line is a new kind."""
    flood = FloodFilter(burst=1, seconds=10, kinds=100, now=Hand())
    for number in range(1000):
        flood.filter(record(f"closed {number}"))
    assert len(flood._kinds) <= 100


def test_lines_of_twisted_arrive_with_their_level_and_namespace(caplog: pytest.LogCaptureFixture) -> None:
    """What Twisted reports is not lost, and its template is the kind of line."""
    logger = Logger(namespace="iot_mqtt.some", observer=observe_twisted)  # type: ignore[arg-type]
    with caplog.at_level(logging.INFO):
        logger.emit(LogLevel.warn, "{count} items", count=3)
        logger.emit(LogLevel.debug, "unseen")
    (line,) = caplog.records
    assert (line.name, line.levelno, line.getMessage()) == ("iot_mqtt.some", logging.WARNING, "3 items")
    assert line.__dict__["template"] == "{count} items"


def test_failures_of_twisted_arrive_with_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Unhandled errors in Deferreds come this way."""
    logger = Logger(namespace="iot_mqtt.some", observer=observe_twisted)  # type: ignore[arg-type]
    logger.failure("broken", Failure(ZeroDivisionError("x")))
    (line,) = caplog.records
    assert line.levelno == logging.CRITICAL
    assert line.exc_info is not None
    assert line.exc_info[0] is ZeroDivisionError


def test_a_log_file_is_written_and_opened_anew_after_rotation(tmp_path: Path) -> None:
    """logrotate moves it away; the next line makes a new one."""
    handler = make_handler(LogConfig(file=str(tmp_path / "log"), format="json"))
    handler.handle(record("first"))
    (tmp_path / "log").rename(tmp_path / "log.1")
    handler.handle(record("second"))
    handler.close()
    assert "second" in (tmp_path / "log").read_text()
    assert "first" in (tmp_path / "log.1").read_text()


@pytest.mark.parametrize("reader", [False, True])
def test_a_log_that_is_a_pipe_is_refused(tmp_path: Path, *, reader: bool) -> None:
    """At once: opening it would wait for a reader, and one that does not read would hold up the node."""
    path = tmp_path / "log"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if reader else None
    with pytest.raises(OSError, match="is no plain file"):
        make_handler(LogConfig(file=str(path)))
    if descriptor is not None:
        os.close(descriptor)
    make_handler(LogConfig(file=os.devnull)).close()


@pytest.mark.parametrize("instead", ["pipe", "directory"])
def test_a_log_whose_name_cannot_be_opened_goes_on_as_it_was(tmp_path: Path, instead: str) -> None:
    """It says so once, and it is an alarm until the name can be opened."""
    path, old = tmp_path / "log", tmp_path / "log.1"
    handler = make_handler(LogConfig(file=str(path), format="json"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        handler.handle(record("first"))
        path.rename(old)
        os.mkfifo(path) if instead == "pipe" else path.mkdir()
        reopen_log()
        handler.handle(record("second"))
        handler.handle(record("third"))
        reason = "is no plain file" if instead == "pipe" else "Is a directory"
        alarm = f"the log goes on in its file of before: {path}: {reason}"
        assert log_alarms() == (Alarm(AlarmKind.LOG_FILE, alarm),)
        said = [json.loads(line)["message"] for line in old.read_text().splitlines()]
        assert said == ["first", alarm, "second", "third"]
        path.unlink() if instead == "pipe" else path.rmdir()
        handler.handle(record("fourth"))
        assert not log_alarms()
        assert "fourth" in path.read_text()
    finally:
        root.removeHandler(handler)
        handler.close()


def test_the_whole_process_logs_to_standard_error_in_one_form() -> None:
    """Our loggers, Twisted's and Python's warnings; standard output stays free."""
    program = (
        "import logging, warnings; from twisted.logger import Logger;"
        "from iot_mqtt.app.config.sections import LogConfig; from iot_mqtt.app.logging import configure_logging;"
        "configure_logging(LogConfig(format='json'));"
        "logging.getLogger('iot_mqtt.x').info('ours'); logging.getLogger('iot_mqtt.x').debug('hidden');"
        "Logger('iot_mqtt.y').warn('of twisted'); Logger('twisted.z').info('chatter'); warnings.warn('old')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    messages = [json.loads(line)["message"] for line in done.stderr.splitlines()]
    assert (messages[:2], "old" in messages[2], len(messages), done.stdout) == (["ours", "of twisted"], True, 3, "")
