"""Real servers for whichever test asks for them: each is started once in a session, when the first test wants it."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Awaitable, Iterator

import pytest
from hypothesis import HealthCheck, core, settings

from iot_mqtt.compiled import CHOICE
from tests import reactor
from tests.enginekit.kafka import KafkaServer, running_kafka
from tests.enginekit.servers import Server, Servers, heal_all, running
from tests.seeds import RUN

# How fast examples are made and run says something about the machine, which has other tests to run beside them.
settings.register_profile(
    "iot-mqtt", deadline=None, derandomize=False, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)

#: For `make quick`; whoever asks for so many examples gets them.
settings.register_profile("quick", settings.get_profile("iot-mqtt"), max_examples=15)
settings.load_profile(os.environ.get("TEST_EXAMPLES", "iot-mqtt"))

# Processes that run a part of the tests each (pytest-xdist) have to make the same cases.
os.environ["TEST_SEED"] = str(RUN)

#: After so many tests, what is there is looked at no more.
SET_ASIDE_EVERY = 100
_TORN_DOWN = itertools.count(1)


@pytest.fixture(scope="session")
def ignite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One Ignite server, alone in its grid."""
    with running(tmp_path_factory.mktemp("ignite"), ignite=1) as servers:
        yield servers.ignite[0]


@pytest.fixture(scope="session")
def ignites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Two Ignite servers that are one grid, apart from that of ``ignite``."""
    with running(tmp_path_factory.mktemp("ignites"), ignite=2) as servers:
        yield servers


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One ZooKeeper server."""
    with running(tmp_path_factory.mktemp("zookeeper"), zookeeper=1) as servers:
        yield servers.zookeeper[0]


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One Kafka server, broker and controller in one."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What replaces methods of compiled classes is run without them, by a test of its own."""
    if CHOICE.use:
        left = [item for item in items if item.get_closest_marker("interpreted")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def pytest_configure() -> None:
    """Hypothesis draws from the same number."""
    if core.global_force_seed is None:
        core.global_force_seed = RUN  # type: ignore[assignment]


def pytest_report_header() -> str:
    """How to have the same random cases again."""
    return f"random cases of this run: TEST_SEED={RUN}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Once more where somebody looks for the reason."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"the same random cases again: TEST_SEED={RUN}")


def _set_aside() -> None:
    """What is there now is there until the end: no garbage collection need look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    """All that the collection has made."""
    _set_aside()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Tests that are coroutines run in the reactor, and no others: pytest-twisted would run all of them there, where
    a plain function can't wait for anything.
    """
    result = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    if isinstance(result, Awaitable):
        reactor.run(result)
    return True


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """What a test has killed or paused is there again for the next one. What tests leave behind, some hundred thousand
    objects after a few thousand of them, made each full collection last a second.
    """
    heal_all()
    if next(_TORN_DOWN) % SET_ASIDE_EVERY == 0:
        _set_aside()
