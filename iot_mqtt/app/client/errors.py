"""Why a client command did not do what it was asked for, and the exit code that scripts see.

======  ============================================================================================
0       done
2       the command itself was wrong, which is click's own
3       nobody answers at the address, or the connection was lost
4       the broker refused the client, or ended the connection with a reason
5       the broker refused a message or a subscription
27      the time that was allowed is over (as mosquitto's clients say it)
1       anything else
======  ============================================================================================
"""

from __future__ import annotations

from typing import ClassVar, Final

from iot_mqtt.errors import ReasonCode

_R = ReasonCode
#: What is over after a while; the same client may come again.
PASSING: Final = frozenset(
    {
        _R.SERVER_UNAVAILABLE,
        _R.SERVER_BUSY,
        _R.SERVER_SHUTTING_DOWN,
        _R.KEEP_ALIVE_TIMEOUT,
        _R.MESSAGE_RATE_TOO_HIGH,
        _R.QUOTA_EXCEEDED,
        _R.USE_ANOTHER_SERVER,
        _R.SERVER_MOVED,
        _R.CONNECTION_RATE_EXCEEDED,
    }
)


class ClientError(Exception):
    """In words for who typed the command."""

    exit_code: ClassVar[int] = 1


class NoConnection(ClientError):
    """Nobody is there, or not any more."""

    exit_code = 3


class Rejected(ClientError):
    """The broker does not want this client, or wants it no longer."""

    exit_code = 4

    def __init__(self, text: str, reason: ReasonCode) -> None:
        super().__init__(text)
        self.reason = reason


class NotTaken(ClientError):
    """The broker does not take a message or a subscription."""

    exit_code = 5


class TookTooLong(ClientError):
    """What was waited for did not come in the time that was allowed."""

    exit_code = 27
