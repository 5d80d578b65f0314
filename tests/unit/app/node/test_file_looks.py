"""Files that are looked at while a node runs: whatever they do, the reactor goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from iot_mqtt.app.config.sections import AdminConfig, Config, GridConfig, ListenerConfig, NodeConfig
from iot_mqtt.app.node.file_looks import PATIENCE, FileLooks
from iot_mqtt.app.node.service import Service
from iot_mqtt.app.slow_files import OwnThreads
from iot_mqtt.auth import files as watched
from iot_mqtt.auth.settings import AuthSettings
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.alarms import AlarmKind
from tests.unit.app.node.lifekit import Turning
from tests.unit.app.threadkit import Reactor


class Looked:
    """Files that are looked at; what was found is noted when it is put in force."""

    def __init__(self) -> None:
        self.found: list[bool] = []

    def __call__(self, *, changed_only: bool) -> Callable[[], object]:
        return lambda: self.found.append(changed_only)


@pytest.fixture
def reactor(monkeypatch: pytest.MonkeyPatch) -> Reactor:
    reactor = Reactor()
    pool = reactor.pool
    monkeypatch.setattr(
        OwnThreads, "callInThreadWithCallback", lambda _, *arguments: pool.callInThreadWithCallback(*arguments)
    )
    return reactor


def test_a_thread_looks_and_the_reactor_takes_what_it_has_found(reactor: Reactor) -> None:
    looked = Looked()
    looks = FileLooks(looked, reactor, "the files")
    looks.look()
    looks.look()
    assert (looked.found, len(reactor.pool.waiting)) == ([], 1)
    reactor.pool.go()
    assert looked.found == [True]


def test_who_asks_gets_a_look_that_began_after_that(reactor: Reactor) -> None:
    """One that was under way may have seen what there was before."""
    looked, done = Looked(), list[Any]()
    looks = FileLooks(looked, reactor, "the files")
    looks.look()
    done_call, call, arguments = reactor.pool.waiting[0]
    early = call(*arguments)
    reactor.pool.waiting[0] = (done_call, lambda: early, ())
    ensureDeferred(looks.reload()).addBoth(done.append)
    reactor.pool.go()
    assert False not in looked.found and done == []
    reactor.pool.go()
    assert looked.found[-1] is False and done == [None]


def test_files_that_do_not_come_are_told_once_and_nobody_waits(
    reactor: Reactor, caplog: pytest.LogCaptureFixture
) -> None:
    """What comes of that look after all is nobody's: the next one looks again."""
    caplog.set_level(logging.INFO)
    looked, done = Looked(), list[Any]()
    looks = FileLooks(looked, reactor, "the files")
    for _ in range(3):
        looks.look()
        reactor.advance(PATIENCE + 1)
    ensureDeferred(looks.reload()).addBoth(done.append)
    reactor.advance(PATIENCE + 1)
    assert isinstance(done[0].value, Unavailable)
    assert len(reactor.pool.waiting) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "the files cannot be seen: the files: nothing was read within 10 seconds"
    ]
    reactor.pool.go()
    assert looked.found == []
    looks.look()
    reactor.pool.go()
    assert looked.found == [False]


class Hanging:
    """A file system that does not answer until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.reached = threading.Event(), threading.Event()
        self._signature_of = watched.signature_of
        monkeypatch.setattr(watched, "signature_of", self)
        self.hangs = False

    def __call__(self, path: str) -> watched.Signature:
        if self.hangs:
            self.reached.set()
            self.go.wait(20)
        return self._signature_of(path)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    hanging = Hanging(monkeypatch)
    yield hanging
    hanging.go.set()


def serving(turning: Turning, users: Path) -> Service:
    """A node that looks at this file of users all the time."""
    users.write_text("# nobody\n")
    config = Config(
        node=NodeConfig(data_dir=str(users.parent), gc_threshold=0, drain_seconds=1.0),
        listeners={"first": ListenerConfig()},
        admin=AdminConfig(port=0),
        grid=GridConfig(kind="memory"),
        auth=AuthSettings(users_file=str(users), allow_anonymous=True, reload_seconds=0.01),
    )
    service = Service(config, turning.reactor, lambda _: None)
    turning.run(service.start())
    return service


def test_a_node_whose_users_are_on_a_file_system_that_hangs_serves_and_stops(tmp_path: Path, hanging: Hanging) -> None:
    """And no thread is waited for."""
    turning = Turning()
    service = serving(turning, tmp_path / "users")
    hanging.hangs = True
    turning.until(hanging.reached.is_set)
    turns: list[None] = []
    turning.reactor.callLater(0.05, turns.append, None)
    turning.until(lambda: bool(turns))
    assert [one.daemon for one in threading.enumerate() if one.name == "iot-mqtt-files"] == [True]
    turning.run(service.stop())
    turning.reactor.disconnectAll()


def test_a_file_of_users_that_cannot_be_used_is_an_alarm_until_it_can_be(tmp_path: Path) -> None:
    """Users who were disabled in it are in meanwhile."""
    turning, users = Turning(), tmp_path / "users"
    service = serving(turning, users)
    users.write_text("ann:oops\n")
    turning.until(lambda: bool(service.view.alarms))
    (alarm,) = service.view.alarms
    assert alarm.kind is AlarmKind.ACCESS_FILE
    assert alarm.text.startswith(f"access rules were not reloaded, the old ones stay: {users}:1: ")
    users.write_text("# nobody at all\n")
    turning.until(lambda: not service.view.alarms)
    turning.run(service.stop())
    turning.reactor.disconnectAll()
