"""What the tests of this folder share: cheap hashes, threads and time that are turned by hand, CONNECTs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from argon2 import PasswordHasher
from twisted.internet.defer import Deferred

from iot_mqtt.ports.access import ConnectAttempt

T = TypeVar("T")
_CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def cheap_hash(password: str) -> str:
    """A real argon2id hash that costs next to nothing."""
    return _CHEAP.hash(password)


def attempt(username: str | None = None, password: bytes | None = None, **more: Any) -> ConnectAttempt:
    """A CONNECT of client c1."""
    return ConnectAttempt("c1", username, password, "198.51.100.7:50000", "mqtt", 5, **more)


class Threads(Executor):
    """A pool and the way back from it, both of which run only when told to."""

    def __init__(self) -> None:
        self.work: list[Callable[[], object]] = []
        self.crossed: list[Callable[[], None]] = []
        self.ended = False

    def submit(self, call: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        self.work.append(lambda: call(*arguments, **named))
        return Future()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.ended = True

    def cross(self, call: Callable[[], None]) -> None:
        self.crossed.append(call)

    def turn(self) -> None:
        """Let the threads do all their work and the reactor take all of it in."""
        while self.work or self.crossed:
            while self.work:
                self.work.pop(0)()
            while self.crossed:
                self.crossed.pop(0)()


class AtOnce(Threads):
    """Work that is done where it is asked for."""

    def submit(self, call: Any, /, *arguments: Any, **named: Any) -> Any:
        return call(*arguments, **named)

    def cross(self, call: Callable[[], None]) -> None:
        call()


class Clock:
    """Monotonic time, turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def start(coroutine: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
    """Run a coroutine as the reactor would."""
    return Deferred.fromCoroutine(coroutine)


def outcome(deferred: Deferred[T]) -> T:
    """The result, which must be there; raises if it is an error."""
    results: list[T] = []
    errors: list[BaseException] = []
    deferred.addCallbacks(results.append, lambda failure: errors.append(failure.value))
    if errors:
        raise errors[0]
    assert results, "still waiting"
    return results[0]
