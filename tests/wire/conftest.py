"""Options, the broker under test, and the tables of known differences.

pytest tests/wire                                   our broker, started here
pytest tests/wire --broker HOST:PORT                any broker that runs already
pytest tests/wire --broker-name mosquitto           mosquitto, started here, with its known differences
pytest tests/wire --broker HOST:PORT --lenient      accept every answer the specification permits
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from . import brokers
from .client import Client, Transport
from .packets import V5, V31, Will

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this suite."""
    group = parser.getgroup("wire", "MQTT wire suite")
    group.addoption("--broker", metavar="HOST:PORT", help="a broker that runs already; without it one is started")
    group.addoption("--broker-ws", metavar="HOST:PORT/PATH", help="WebSocket address of that broker")
    group.addoption("--broker-name", default="", help="iot-mqtt (default), mosquitto ...: which differences are known")
    group.addoption("--lenient", action="store_true", help="accept every answer to an error that the text permits")
    group.addoption("--deadline", type=float, default=5.0, help="seconds to wait for an expected packet")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks and load the differences."""
    config.addinivalue_line("markers", "clauses(*ids): normative statements that the test covers")
    config.addinivalue_line("markers", "variant(name): needs a broker configured as in brokers.VARIANTS")
    name = config.getoption("--broker-name", default="")
    path = HERE / "differences" / f"{name}.yaml"
    groups = yaml.safe_load(path.read_text()) if name and path.exists() else []
    config.stash[DIFFERENCES] = {test: group for group in groups for test in group["tests"]}


DIFFERENCES = pytest.StashKey[dict[str, dict[str, Any]]]()


def difference_id(item: pytest.Item) -> str:
    """``test_05_qos::test_name[5]``, or ``connect/name-of-the-case[5]``: the names in differences/*.yaml."""
    if "[" in item.name and "/" in item.name:
        return item.name.split("[", 1)[1]
    return f"{item.path.stem}::{item.name}"


def known_difference(item: pytest.Item) -> dict[str, Any] | None:
    """What is known about this test at this broker; an entry without [version] holds for all of them."""
    known = item.config.stash[DIFFERENCES]
    name = difference_id(item)
    return known.get(name) or known.get(name.split("[", 1)[0])


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A known difference must show, and show in the way its entry describes."""
    known = known_difference(pyfuncitem)
    if known is None:
        return (yield)
    try:
        result = yield
    except AssertionError as error:
        if re.search(known["shows"], str(error)):
            pytest.xfail(f"{known['kind']}: {known['why']}")
        raise
    if known.get("sometimes"):
        return result
    pytest.fail("known difference no longer shows: remove it from the table")


class Broker:
    """The broker under test, and the connections that one test has made to it."""

    def __init__(self, running: brokers.Running, *, deadline: float, lenient: bool) -> None:
        self.running = running
        self.deadline = deadline
        self.lenient = lenient
        self.clients: list[Client] = []
        self._names = itertools.count(1)
        self._run = secrets.token_hex(4)

    def name(self, stem: str = "c") -> str:
        """A client id that nobody else uses; within 23 characters of letters and digits."""
        return f"{stem[:8]}{self._run}{next(self._names)}"

    def topic(self, *levels: str) -> str:
        """A topic that nobody else uses."""
        return "/".join(["wire", f"{self._run}{next(self._names)}", *levels])

    def open(self, version: int = V5, client_id: str | None = None) -> Client:
        """A network connection without CONNECT."""
        transport = Transport(self.running.host, self.running.port, self.deadline)
        client = Client(transport, version, self.deadline, self.name() if client_id is None else client_id)
        self.clients.append(client)
        return client

    def connect(
        self,
        version: int = V5,
        client_id: str | None = None,
        *,
        clean: bool = True,
        will: Will | None = None,
        expiry: int | None = None,
        **options: Any,
    ) -> Client:
        """A connection whose CONNECT was accepted; ``expiry`` is the v5 session expiry and ignored before."""
        client = self.open(version, client_id)
        if version == V5 and expiry is not None:
            options["session_expiry_interval"] = expiry
        answer = client.connect(clean=clean, will=will, **options)
        assert answer.reason == 0, f"connect was refused: {answer}"
        return client

    def durable(self, version: int, client_id: str, **options: Any) -> Client:
        """A connection whose session stays when it ends."""
        return self.connect(version, client_id, clean=False, expiry=300, **options)

    def resumed(self, version: int, client_id: str, **options: Any) -> Client:
        """A connection whose session was there; without it nothing that comes or stays away says anything. The CONNACK
        of MQTT 3.1 can't tell.
        """
        client = self.durable(version, client_id, **options)
        assert version == V31 or client.connack.session_present, f"the session of {client_id} is gone"
        return client

    def refused(self, client: Client, *reasons: int, timeout: float | None = None) -> None:
        """`Client.refused`, as lenient as the run is."""
        client.refused(*reasons, lenient=self.lenient, timeout=timeout)

    def retained_gone(self, *topics: str) -> None:
        """Remove what a test has retained."""
        client = self.connect()
        for topic in topics:
            client.publish(topic, b"", qos=1, retain=True)
        client.disconnect()

    def close(self) -> None:
        """Drop every connection of the test."""
        for client in self.clients:
            client.drop()
        self.clients.clear()


@pytest.fixture(scope="session")
def running(pytestconfig: pytest.Config) -> Iterator[Callable[[str], brokers.Running]]:
    """Brokers by variant, started when first asked for."""
    started: dict[str, brokers.Running] = {}
    address, web = pytestconfig.getoption("--broker"), pytestconfig.getoption("--broker-ws")

    def get(variant: str) -> brokers.Running:
        if variant in started:
            return started[variant]
        if address:
            if variant != "default":
                pytest.skip(f"needs a broker configured with {variant}; this one was not started here")
            host, port = address.rsplit(":", 1)
            started[variant] = brokers.Running(host, int(port), brokers.websocket_address(web))
        else:
            try:
                started[variant] = brokers.start(pytestconfig.getoption("--broker-name") or "iot-mqtt", variant)
            except brokers.NoVariant as reason:
                pytest.skip(str(reason))
        return started[variant]

    yield get
    for broker in started.values():
        broker.stop()


@pytest.fixture
def broker(request: pytest.FixtureRequest, running: Callable[[str], brokers.Running]) -> Iterator[Broker]:
    """The broker under test, with the variant that the test is marked with."""
    mark = request.node.get_closest_marker("variant")
    deadline = request.config.getoption("--deadline")
    if known_difference(request.node) is not None:
        deadline = min(deadline, 0.8)  # it is known that the expected does not come
    under_test = Broker(
        running(mark.args[0] if mark else "default"),
        deadline=deadline,
        lenient=request.config.getoption("--lenient"),
    )
    yield under_test
    under_test.close()
