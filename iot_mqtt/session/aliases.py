"""Topic aliases of MQTT 5, both ways; they live and die with the connection [MQTT-3.3.2-7]."""

from __future__ import annotations

from collections import OrderedDict

from iot_mqtt.errors import ProtocolViolation, ReasonCode


class InboundAliases:
    """Aliases that the client has set."""

    __slots__ = ("maximum", "_topics")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._topics: dict[int, bytes] | None = None

    def resolve(self, topic: bytes, alias: int) -> bytes:
        """The topic that is meant; a topic beside an alias sets it."""
        if alias == 0 or alias > self.maximum:  # [MQTT-3.3.2-8] [MQTT-3.3.2-9]
            raise ProtocolViolation(f"topic alias {alias} of at most {self.maximum}", ReasonCode.TOPIC_ALIAS_INVALID)
        if self._topics is None:
            self._topics = {}
        if topic:
            self._topics[alias] = topic
            return topic
        known = self._topics.get(alias)
        if known is None:
            raise ProtocolViolation(f"topic alias {alias} was never set", ReasonCode.PROTOCOL_ERROR)
        return known


class OutboundAliases:
    """Aliases that we give to the topics a client receives most lately; the oldest gives way."""

    __slots__ = ("maximum", "_aliases")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._aliases: OrderedDict[bytes, int] = OrderedDict()

    def knows(self, topic: bytes) -> bool:
        """Whether the client has been told an alias for this topic that still stands."""
        return topic in self._aliases

    def assign(self, topic: bytes) -> tuple[int, bool]:
        """(alias, whether the client knows it already). A new one travels once with its topic."""
        aliases = self._aliases
        alias = aliases.get(topic)
        if alias is not None:
            aliases.move_to_end(topic)
            return alias, True
        if len(aliases) < self.maximum:
            alias = len(aliases) + 1
        else:
            _, alias = aliases.popitem(last=False)
        aliases[topic] = alias
        return alias, False
