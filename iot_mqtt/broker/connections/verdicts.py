"""What a client may publish and receive, by topic: its rights were asked once for each."""

from __future__ import annotations

from iot_mqtt.ports.access import Action, Permissions

#: Topics whose verdicts are memoised for each connection; beyond this all are asked again.
MAX_VERDICTS = 1024


class Verdicts:
    """Those of one connection whose client may not do everything."""

    __slots__ = ("publish", "version", "_receive")

    def __init__(self) -> None:
        #: Topic → whether the client may publish to it. Never replaced: the decoder looks at it.
        self.publish: dict[bytes, bool] = {}
        self._receive: dict[bytes, bool] = {}
        #: Of the rights that were asked.
        self.version = -1

    def may_publish(self, permissions: Permissions, topic: bytes) -> bool:
        """Whether the client may publish to a topic."""
        return self._verdict(self.publish, Action.PUBLISH, permissions, topic)

    def may_receive(self, permissions: Permissions, topic: bytes) -> bool:
        """Whether the client may be sent what was published to a topic."""
        return self._verdict(self._receive, Action.READ, permissions, topic)

    def _verdict(self, known: dict[bytes, bool], action: Action, permissions: Permissions, topic: bytes) -> bool:
        if self.version != permissions.version or len(known) > MAX_VERDICTS:
            self.publish.clear()
            self._receive.clear()
            self.version = permissions.version
        verdict = known.get(topic)
        if verdict is None:
            verdict = known[topic] = permissions.allows(action, topic.decode("utf-8", "replace"))
        return verdict
