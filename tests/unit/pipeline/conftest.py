"""A reactor of its own for each loopback test; the client is a blocking function in a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from twisted.internet.main import CONNECTION_DONE
from twisted.python.failure import Failure

from iot_mqtt.pipeline import Layout, ListenerSettings, Listening, LoginBudget, ReactorClock, TimingWheel, listen
from iot_mqtt.pipeline.reactor import TurnReactor

from .tls_kit import Echo

T = TypeVar("T")


class Server:
    """Listeners on a reactor that runs while a client does."""

    def __init__(self) -> None:
        self.reactor: Any = TurnReactor()
        self.wheel = TimingWheel(ReactorClock(self.reactor), 0.02)

    def listen(
        self, layout: Layout, settings: ListenerSettings | None = None, handshakes: LoginBudget | None = None
    ) -> Listening:
        """Open a port."""
        settings = settings or ListenerSettings("test", port=0)
        return listen(self.reactor, settings, lambda _: layout, wheel=self.wheel, handshakes=handshakes)

    def run(self, client: Callable[[], T]) -> T:
        """Run the client in a thread and the reactor until it is done; once per server."""
        results: list[T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(client())
            except BaseException as error:
                errors.append(error)
            finally:
                self.reactor.callFromThread(self.reactor.stop)

        thread = threading.Thread(target=work, daemon=True)
        self.reactor.callWhenRunning(thread.start)
        self.reactor.callLater(20, self.reactor.stop)
        self.reactor.run(installSignalHandlers=False)
        thread.join(1)
        if errors:
            raise errors[0]
        assert results, "the client did not come to an end"
        return results[0]

    def close(self) -> None:
        """Give all descriptors back."""
        for selectable in self.reactor.removeAll():
            selectable.connectionLost(Failure(CONNECTION_DONE))
        self.reactor._poller.close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that is cleaned up."""
    before = len(os.listdir("/proc/self/fd"))
    it = Server()
    yield it
    it.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 3  # the reactor's waker stays


@pytest.fixture
def echo() -> Layout:
    """A layout of one echo stage, with fresh notes."""
    Echo.ended, Echo.events, Echo.names = [], [], []
    return Layout([("echo", Echo)])
