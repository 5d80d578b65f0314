"""The configuration read once more: on a thread, one read at a time, and nobody waits for files that do not come."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.app.config.errors import DEFAULT, ConfigError, Problem
from iot_mqtt.app.config.reading import LoadedConfig, read_config
from iot_mqtt.app.slow_files import SlowFiles
from iot_mqtt.errors import Unavailable
from tests.unit.app.threadkit import Reactor

PATIENCE = 10.0


class Files:
    """A configuration that is read; ``id`` is what stands in it."""

    def __init__(self) -> None:
        self.id = "one"
        self.reads = 0
        self.error: Exception | None = None

    def read(self) -> LoadedConfig:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return read_config(None, [f"node.id={self.id}"], {})


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


@pytest.fixture
def rereading(files: Files, reactor: Reactor) -> SlowFiles[LoadedConfig]:
    return SlowFiles(files.read, reactor, PATIENCE, "the configuration", reactor.pool)


def asked(rereading: SlowFiles[LoadedConfig]) -> list[Any]:
    """What came of it, once it has."""
    found: list[Any] = []
    asking: Deferred[LoadedConfig] = ensureDeferred(rereading.read_alone())
    asking.addBoth(found.append)
    return found


def test_a_thread_reads_and_not_the_reactor(rereading: SlowFiles[LoadedConfig], files: Files, reactor: Reactor) -> None:
    """Asking reads nothing; the answer is what stood there when the thread did."""
    found = asked(rereading)
    assert (files.reads, found) == (0, [])
    files.id = "two"
    reactor.pool.go()
    assert [one.config.node.id for one in found] == ["two"]
    assert reactor.getDelayedCalls() == []


def test_what_is_wrong_with_it_is_told_as_at_the_start(
    rereading: SlowFiles[LoadedConfig], files: Files, reactor: Reactor
) -> None:
    """And the next one can ask again."""
    files.error = ConfigError([Problem(DEFAULT, "mqtt", "is broken")])
    found = asked(rereading)
    reactor.pool.go()
    assert isinstance(found[0].value, ConfigError)
    files.error = None
    found = asked(rereading)
    reactor.pool.go()
    assert found[0].config.node.id == "one"


def test_one_read_at_a_time(rereading: SlowFiles[LoadedConfig], reactor: Reactor) -> None:
    """What was read before is never put in force after what was read later."""
    first, second = asked(rereading), asked(rereading)
    assert isinstance(second[0].value, Unavailable)
    assert len(reactor.pool.waiting) == 1
    reactor.pool.go()
    assert first[0].config.node.id == "one"


def test_files_that_do_not_come_keep_one_thread_and_no_caller(
    rereading: SlowFiles[LoadedConfig], reactor: Reactor
) -> None:
    """What comes of it after that is nobody's; then it is read again."""
    found = asked(rereading)
    reactor.advance(PATIENCE + 0.1)
    assert isinstance(found[0].value, Unavailable)
    assert isinstance(asked(rereading)[0].value, Unavailable)
    assert len(reactor.pool.waiting) == 1
    reactor.pool.go()
    assert len(found) == 1
    again = asked(rereading)
    reactor.pool.go()
    assert again[0].config.node.id == "one"
