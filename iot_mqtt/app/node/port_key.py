"""The configuration keys of a port that cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.internet.error import CannotListenError

from iot_mqtt.pipeline import TlsConfigurationError


class PortRefused(CannotListenError):
    """Twisted's error, which names address and port, with the key."""

    def __init__(self, key: str, error: CannotListenError) -> None:
        super().__init__(error.interface, error.port, error.socketError)  # type: ignore[no-untyped-call]
        self._key = key

    def __str__(self) -> str:
        return f"{self._key}: {super().__str__()}"


@contextmanager
def named_by(section: str) -> Iterator[None]:
    """Around the opening of a port; ``section`` is what its keys begin with."""
    try:
        yield
    except CannotListenError as error:
        raise PortRefused(f"{section}.port", error) from error
    except TlsConfigurationError as error:
        raise TlsConfigurationError(f"{section}.tls: {error}") from error
