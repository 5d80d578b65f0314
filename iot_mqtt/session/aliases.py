"""Topic aliases of MQTT 5 towards a client; they live and die with the connection [MQTT-3.3.2-7]. Those of a client are
the decoder's.
"""

from __future__ import annotations

from collections import OrderedDict


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
