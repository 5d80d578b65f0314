"""The first admin user: made once for a cluster where nobody could come in before, and told on the terminal alone."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.admin.admins import AdminDesk
from iot_mqtt.admin.callers import Caller, Role, RootToken, Tokens
from iot_mqtt.admin.token import load_token
from iot_mqtt.app.config.sections import Config, LogConfig
from iot_mqtt.app.node.admin_access import AdminAccess
from iot_mqtt.app.node.lives import say_first_password, terminal
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.directory import ADMINS
from tests.unit.auth.authkit import outcome, start


class Pool:
    """Hashes at once."""

    async def run(self, call: Callable[[], Any]) -> Any:
        return call()


class Reactor:
    """Whose thread this is."""

    def callFromThread(self, call: Callable[[], None]) -> None:
        call()


class Cluster:
    """Nodes over one grid, which are all about to start for the first time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.grid = MemoryGrid()
        outcome(start(self.grid.open()))

    def directory(self) -> GridDirectory:
        made = GridDirectory(self.grid, self.clock)
        outcome(start(made.load()))
        return made

    def node(self, name: str) -> AdminAccess:
        node = replace(Config().node, id=name, data_dir=str(self.folder / name))
        config = replace(Config(), node=node)
        return AdminAccess(config, self.directory(), Reactor(), self.clock, Pool())  # type: ignore[arg-type]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def first(access: AdminAccess) -> str | None:
    password: str | None = outcome(start(access.first_password()))
    access.close()
    return password


def test_one_of_the_nodes_that_start_together_makes_it(cluster: Cluster) -> None:
    """An admin with that password, who has to set another."""
    one, two = cluster.node("n1"), cluster.node("n2")
    password, other = first(one), first(two)
    assert (password is not None, other) == (True, None)
    desk = AdminDesk(cluster.directory(), Pool(), cluster.clock.wall)  # type: ignore[arg-type]
    admin = desk.admin("admin")
    assert admin is not None
    assert (admin.role, admin.must_change) == (Role.ADMIN, True)
    assert password is not None and len(password) >= 24
    assert not any(
        password in path.read_text(errors="replace") for path in cluster.folder.rglob("*.*") if path.is_file()
    )
    assert first(cluster.node("n1")) is None
    assert first(cluster.node("n3")) is None


@pytest.mark.parametrize("what", ["a token file", "a token"])
def test_none_is_made_where_somebody_can_come_in(cluster: Cluster, what: str) -> None:
    """Whoever set the node up, or ran it before, has what he needs."""
    if what == "a token file":
        load_token(str(cluster.folder / "n1"))
    else:
        tokens = Tokens(RootToken("t"), cluster.directory(), cluster.clock.wall)
        outcome(start(tokens.make("t", Role.VIEWER, (), None, by=Caller("t", Role.ADMIN))))
    assert first(cluster.node("n1")) is None
    assert not cluster.directory().of(ADMINS)


@pytest.mark.parametrize(
    ("format", "file", "stream"),
    [
        ("console", None, "stderr"),
        ("console", "node.log", "stderr"),
        ("json", "node.log", "stderr"),
        ("json", None, "stdout"),
    ],
)
def test_it_is_told_where_no_log_is(format: Any, file: str | None, stream: str) -> None:
    """Standard error, unless JSON is collected there."""
    assert terminal(replace(LogConfig(), format=format, file=file)) is getattr(sys, stream)


def test_it_is_told_once() -> None:
    """And nothing is told where there is nothing."""
    stream = io.StringIO()
    say_first_password(stream, None)
    say_first_password(stream, "the-password")
    assert stream.getvalue().count("the-password") == stream.getvalue().count("\n") == 1
