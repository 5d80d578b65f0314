"""The configuration key of a port that cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.internet.error import CannotListenError


class PortRefused(CannotListenError):
    """Twisted's error, which names address and port, with the key."""

    def __init__(self, key: str, error: CannotListenError) -> None:
        super().__init__(error.interface, error.port, error.socketError)  # type: ignore[no-untyped-call]
        self._key = key

    def __str__(self) -> str:
        return f"{self._key}: {super().__str__()}"


@contextmanager
def named_by(key: str) -> Iterator[None]:
    """Around the opening of a port."""
    try:
        yield
    except CannotListenError as error:
        raise PortRefused(key, error) from error
