"""Whether there is anything to replay of a filter: a replay of what nobody records would be silent for ever.

What is recorded now is known at once: what ``log.record`` or a rule of the uplink names, and what somebody durable has
subscribed to. What was recorded once, the log has to be asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publishing.steps import Steps
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.log import Log
from iot_mqtt.topics import Routes, SharedGroup, overlaps, parse_shared

#: So many filters of others are looked at; where there are more, one of them may want it.
LOOKED_AT: Final = 2000


class Groups(Protocol):
    """Those that are shared."""

    def keeps(self, group: SharedGroup[Any], /) -> bool:
        """Whether what is for it is recorded."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Of one node."""

    steps: Steps
    routes: Routes[Session]
    groups: Groups
    log: Log

    def now(self, filter: str) -> bool:
        """Whether messages that a (plain) filter matches are logged at present, some of them at least."""
        return any(overlaps(filter, one) for one in self.steps.recorded()) or self._wanted(filter)

    async def before(self, filter: str) -> bool:
        """Whether the log may have some. Raises ``Unavailable``."""
        for generation in reversed(self.log.generations()):
            if any(overlaps(filter, stream.structure) for stream in await self.log.streams(generation.id)):
                return True
        return False

    def _wanted(self, filter: str) -> bool:
        for looked, name in enumerate(self.routes.filters()):
            if looked == LOOKED_AT:
                return True
            shared = parse_shared(name)
            plain = name if shared is None else shared[1]
            if overlaps(filter, plain) and self._is_kept(plain):
                return True
        return False

    def _is_kept(self, filter: str) -> bool:
        """Whether what this filter matches is logged for somebody who has it."""
        receivers: tuple[Any, ...] = self.routes.receivers(filter)
        return any(map(_keeps, receivers)) or any(map(self.groups.keeps, self.routes.groups(filter)))


def _keeps(receiver: Any) -> bool:
    if isinstance(receiver, KeptSession):
        return receiver.cursor is not None
    return bool(getattr(receiver, "records", False))
