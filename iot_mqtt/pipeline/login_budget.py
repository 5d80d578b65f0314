"""Bytes of connections whose clients have not logged in: bounded for each of them, and for all together.

What such a client sent may still be held somewhere (half a CONNECT, a handshake, the beginning of a frame), so all of
it counts until the login. Beyond the bound of all, the connection that began to send first is closed: an honest client
is done in a moment.
"""

from __future__ import annotations

from typing import Protocol

from iot_mqtt.pipeline.reasons import BEFORE_LOGIN, CloseReason

__all__ = ["LoginBudget", "LoginLimit"]


class Sender(Protocol):
    """The channel of a client that has not logged in."""

    closing: bool

    def abort(self, reason: CloseReason) -> None: ...


class LoginBudget:
    """What the connections of all listeners share. Where it is used up, who began first is closed for ``reason``."""

    __slots__ = ("held", "limit", "_of", "_reason")

    def __init__(self, limit: int, reason: CloseReason = BEFORE_LOGIN) -> None:
        self.limit = limit
        self._reason = reason
        self.held = 0
        #: In the order of their first bytes.
        self._of: dict[Sender, int] = {}

    def add(self, channel: Sender, size: int) -> int:
        """Count bytes of a channel; returns how many it has sent."""
        of = self._of
        sent = of[channel] = of.get(channel, 0) + size
        self.held += size
        while self.held > self.limit:
            oldest = next(iter(of))
            self.forget(oldest)
            oldest.abort(self._reason)
        return sent

    def forget(self, channel: Sender) -> None:
        """Its client has logged in, or is gone."""
        self.held -= self._of.pop(channel, 0)


class LoginLimit:
    """What one connection of a listener may send before its login."""

    __slots__ = ("budget", "most")

    def __init__(self, budget: LoginBudget, most: int) -> None:
        self.budget = budget
        self.most = most

    def received(self, channel: Sender, size: int) -> None:
        """Bytes came; too many of them close the connection."""
        if not channel.closing and self.budget.add(channel, size) > self.most:
            self.budget.forget(channel)
            channel.abort(BEFORE_LOGIN)
