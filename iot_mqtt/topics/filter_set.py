"""Which of the filters of one client match a topic, as fast for thousands of them as for one."""

from __future__ import annotations

from collections.abc import Iterable

from iot_mqtt.topics.filters import is_wildcard
from iot_mqtt.topics.trie import FilterTrie


class FilterSet:
    """Valid filters that are not shared; it does not change."""

    __slots__ = ("_topics", "_wild")

    def __init__(self, filters: Iterable[str]) -> None:
        #: Those without wildcards.
        self._topics: set[str] = set()
        self._wild: FilterTrie[str] = FilterTrie()
        for filter in filters:
            if is_wildcard(filter):
                self._wild.put(filter, filter)
            else:
                self._topics.add(filter)

    def match(self, topic: str) -> list[str]:
        """Those that match a valid topic, in no particular order."""
        found = self._wild.match(topic) if self._wild.count else []
        if topic in self._topics:
            found.append(topic)
        return found
