"""The node's log: standard library loggers in, structlog out, as console lines or as JSON.

Modules log with ``logging.getLogger(__name__)`` and put names and figures into ``extra``; they need not know of
structlog. Twisted's log runs into the same handler. Before anything is written it is redacted (``redaction``),
and lines that a flood of connections could repeat without end are thinned out (``flood``).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogBeginner

from iot_mqtt.app.config.sections import LogConfig
from iot_mqtt.app.logging.file import LogFile
from iot_mqtt.app.logging.flood import FloodFilter
from iot_mqtt.app.logging.redaction import redact
from iot_mqtt.ports.alarms import Alarm

#: Libraries whose chatter says nothing at our levels.
_QUIET = ("twisted", "log_legacy", "asyncio")

_TWISTED_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


def configure_logging(config: LogConfig) -> None:
    """Send every logger of the process, Twisted's included, to one place; once, before the reactor runs."""
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(make_handler(config))
    set_level(config.level)
    logging.captureWarnings(capture=True)
    globalLogBeginner.beginLoggingTo([cast(ILogObserver, observe_twisted)], redirectStandardIO=False)


def set_level(level: str) -> None:
    """The least important lines that are written from now on, as ``log.level`` names them."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def reopen_log() -> None:
    """Go on in the file of the configured name, which whoever rotates logs may have moved away."""
    for file in _files():
        file.reopenIfNeeded()


def log_alarms() -> tuple[Alarm, ...]:
    """What an operator should do something about."""
    return tuple(alarm for file in _files() for alarm in file.alarms)


def _files() -> list[LogFile]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, LogFile)]


def make_handler(config: LogConfig, stream: TextIO | None = None) -> logging.Handler:
    """The one handler: where to, in which form, redacted and thinned out."""
    target = stream or sys.stderr
    if config.file is not None:
        handler: logging.Handler = LogFile(config.file)
    else:
        handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(config.format, colors=config.file is None and target.isatty()))
    handler.addFilter(FloodFilter())
    return handler


def observe_twisted(event: LogEvent) -> None:
    """A line of Twisted's log, failures included, as one of the standard library's."""
    logger = logging.getLogger(event.get("log_namespace") or "twisted")
    level = _TWISTED_LEVELS.get(getattr(event.get("log_level"), "name", "info"), logging.INFO)
    if not logger.isEnabledFor(level):
        return
    failure = event.get("log_failure")
    raised = None if failure is None else (failure.type, failure.value, failure.getTracebackObject())
    template = {"template": str(event.get("log_format") or "")}
    logger.log(level, "%s", formatEvent(event) or "failure", exc_info=raised, extra=template)


def _formatter(kind: str, *, colors: bool) -> logging.Formatter:
    collected: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendered: list[Processor] = (
        [_message, structlog.processors.JSONRenderer(_json, default=repr)]
        if kind == "json"
        else [_spelled_out, structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0)]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=collected,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            # Before redaction: an exception's text is text like any other.
            structlog.processors.format_exc_info,
            redact,
            *rendered,
        ],
    )


def _message(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The text under the name that log stores expect."""
    return {"message": event.pop("event", ""), **event}


def _json(event: EventDict, default: Callable[[object], object]) -> str:
    """One line that can be printed. JSON itself escapes the controls of ASCII and no others, and who reads the log may
    show C1 controls to a terminal, or end a line at U+2028.
    """
    text = json.dumps(event, default=default, ensure_ascii=False)
    if text.isprintable():
        return text
    # What is left can only stand within strings.
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _spelled_out(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Control characters as escapes: what a client calls itself must not forge a line or steer a terminal."""
    return {
        name: value if name == "exception" or not isinstance(value, str) else _printable(value)
        for name, value in event.items()
    }


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
