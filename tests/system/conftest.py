"""Fixtures of the system tests: real broker processes that end with the test, whatever happens in it."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # pytest imports tests without their folder on the path

from systemkit.certificates import Authority  # noqa: E402
from systemkit.process import BrokerProcess, ServerTls  # noqa: E402
from systemkit.starting import StartBroker, brokers  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _all_descriptors() -> None:
    """Use all the file descriptors that the system allows; brokers inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers for one test."""
    with brokers(tmp_path) as start:
        yield start


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A fresh broker for one test."""
    return start_broker()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The certificate authority that the TLS listeners of the tests belong to."""
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[BrokerProcess]:
    """One broker for the tests of a module, with TLS; they keep apart by client ids and topics."""
    cert, key = authority.server()
    with brokers(tmp_path_factory.mktemp("shared")) as start:
        yield start(tls=ServerTls(cert, key, authority.file))
