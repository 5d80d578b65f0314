"""A trie of topic filters: a value per filter, and all values whose filter matches a topic in one walk.

A walk costs the number of nodes that agree with the topic so far, however many filters there are. Values are
opaque; ``routes`` files its receivers here.

    a/+/c        (root) ── a ── + ── c*          * holds a value
    a/#                    └ # *                 "#" has no children, so it is a field, not a node
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class _Node(Generic[V]):
    """One level. Each field is None while unused: most nodes of a large trie have one child."""

    __slots__ = ("children", "plus", "hash", "here")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] | None = None
        self.plus: _Node[V] | None = None
        self.hash: V | None = None
        self.here: V | None = None

    @property
    def unused(self) -> bool:
        return not self.children and self.plus is None and self.hash is None and self.here is None


class FilterTrie(Generic[V]):
    """Valid filters to values. Values must not be None; a filter is a key as it is written."""

    __slots__ = ("_root", "count", "looked")

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        #: How many there are.
        self.count = 0
        #: Nodes that the last ``match`` looked at.
        self.looked = 0

    def __len__(self) -> int:
        return self.count

    def get(self, filter: str) -> V | None:
        """The value of exactly this filter."""
        node: _Node[V] | None = self._root
        for level in filter.split("/"):
            if level == "#":
                return node.hash if node else None
            if node is None:
                return None
            node = node.plus if level == "+" else (node.children or {}).get(level)
        return node.here if node else None

    def put(self, filter: str, value: V) -> None:
        """Set or replace the value of a filter."""
        node = self._root
        for level in filter.split("/"):
            if level == "#":
                self.count += node.hash is None
                node.hash = value
                return
            node = self._child(node, level)
        self.count += node.here is None
        node.here = value

    @staticmethod
    def _child(node: _Node[V], level: str) -> _Node[V]:
        if level == "+":
            if node.plus is None:
                node.plus = _Node()
            return node.plus
        if node.children is None:
            node.children = {}
        child = node.children.get(level)
        if child is None:
            child = node.children[level] = _Node()
        return child

    def remove(self, filter: str) -> bool:
        """Forget a filter and the nodes that only it needed; False if it had no value."""
        path: list[tuple[_Node[V], str]] = []
        node = self._root
        for level in filter.split("/"):
            if level == "#":
                break
            path.append((node, level))
            child = node.plus if level == "+" else (node.children or {}).get(level)
            if child is None:
                return False
            node = child
        held = node.hash if filter[-1] == "#" else node.here
        if held is None:
            return False
        if filter[-1] == "#":
            node.hash = None
        else:
            node.here = None
        self.count -= 1
        self._prune(path, node)
        return True

    @staticmethod
    def _prune(path: list[tuple[_Node[V], str]], node: _Node[V]) -> None:
        while path and node.unused:
            node, level = path.pop()
            if level == "+":
                node.plus = None
            elif node.children is not None:
                del node.children[level]
                if not node.children:
                    node.children = None

    def match(self, topic: str) -> list[V]:
        """The values of every filter that matches a valid topic, in no particular order."""
        found: list[V] = []
        root = self._root
        levels = topic.split("/")
        if topic[:1] == "$":  # [MQTT-4.7.2-1]: neither "#" nor "+" stands for a first level that begins with "$"
            first = (root.children or {}).get(levels[0])
            nodes = [first] if first is not None else []
            del levels[0]
        else:
            nodes = [root]
        looked = len(nodes)
        for level in levels:
            if not nodes:
                break
            nodes = self._descend(nodes, level, found)
            looked += len(nodes)
        self.looked = looked
        for node in nodes:
            if node.here is not None:
                found.append(node.here)
            if node.hash is not None:  # "a/#" matches "a" too
                found.append(node.hash)
        return found

    @staticmethod
    def _descend(nodes: list[_Node[V]], level: str, found: list[V]) -> list[_Node[V]]:
        below: list[_Node[V]] = []
        for node in nodes:
            if node.hash is not None:
                found.append(node.hash)
            if node.children is not None:
                child = node.children.get(level)
                if child is not None:
                    below.append(child)
            if node.plus is not None:
                below.append(node.plus)
        return below

    def items(self) -> Iterator[tuple[str, V]]:
        """Every filter with its value, in no particular order; the trie must not change meanwhile."""
        pending: list[tuple[str, _Node[V]]] = [("", self._root)]
        while pending:
            prefix, node = pending.pop()
            if node.here is not None:
                yield prefix[:-1], node.here
            if node.hash is not None:
                yield prefix + "#", node.hash
            if node.plus is not None:
                pending.append((prefix + "+/", node.plus))
            pending += [(f"{prefix}{level}/", child) for level, child in (node.children or {}).items()]
