"""What users have retained, of those whose retained messages are limited; every node has all of it.

Only what was retained while its user had a limit is counted: the message says so, in memory, in the store and on its
way to other nodes.
"""

from __future__ import annotations

from iot_mqtt.ports.limits import Limits
from iot_mqtt.values import Message, retained_by


class RetainedUse:
    """Of all users; "" is for anonymous clients."""

    __slots__ = ("limits", "_used")

    def __init__(self) -> None:
        #: User → messages and bytes at most, of users who have published here, or could have.
        self.limits: dict[str, tuple[float, float]] = {}
        #: User → messages and bytes.
        self._used: dict[str, tuple[int, int]] = {}

    @property
    def counted(self) -> bool:
        """Whether anything counts for anybody."""
        return bool(self._used)

    def of(self, user: str) -> tuple[int, int]:
        """Messages and bytes."""
        return self._used.get(user, (0, 0))

    def limit(self, user: str, limits: Limits) -> None:
        """So much is said of a user now."""
        if limits.retained_messages is None and limits.retained_bytes is None:
            self.limits.pop(user, None)
            return
        most = (limits.retained_messages, limits.retained_bytes)
        messages, size = (float("inf") if one is None else one for one in most)
        self.limits[user] = messages, size

    def refuses(self, user: str, message: Message, before: Message | None) -> bool:
        """Whether a user has no room for a message in the place of another one."""
        messages, size = self.of(user)
        if retained_by(before) == user and before is not None:
            messages -= 1
            size -= before.size
        most, most_bytes = self.limits[user]
        return messages + 1 > most or size + message.size > most_bytes

    def changed(self, before: Message | None, after: Message | None) -> None:
        """A topic has another message."""
        for message, sign in ((before, -1), (after, 1)):
            user = retained_by(message)
            if user is not None and message is not None:
                messages, size = self.of(user)
                self._used[user] = messages + sign, size + sign * message.size
                if not self._used[user][0]:
                    del self._used[user]
