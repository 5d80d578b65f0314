"""A trie of topic filters: a value per filter, and all values whose filter matches a topic in one walk.

A node is a chain of levels in which no filter ends or branches off, so there are at most two nodes for each filter,
however many levels it has. A walk looks at the chains that agree with the topic so far, and goes no further where all
filters have more levels than the topic, or fewer. Values are opaque; ``routes`` files its receivers here.

    a/+/+/c      (root) ── a ── +/+/c*           * holds a value
    a/#                    └ # *                 "#" has no children, so it is a field, not a node
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

V = TypeVar("V")

#: Levels of a topic that "#" matches, at most: more than there are bytes in one.
_ENDLESS: Final = 1 << 17
#: What looking at a node costs, and how many levels can be compared for one: of ``looked``, some 80 ns each.
_NODE: Final = 2
_LEVELS: Final = 4


class _Node(Generic[V]):
    """A chain of levels: one that the node above knows it by, some "+", what has to be compared, and some "+".

    Levels are counted from the root. What is compared is kept as a text: a list of levels takes many times its memory.
    """

    __slots__ = ("end", "least", "most", "begin", "until", "text", "children", "hash", "here")

    def __init__(self, above: int, chain: list[str]) -> None:
        #: The fewest and most levels of a topic that a filter here or below matches; one that is gone may still count.
        self.least = _ENDLESS
        self.most = 0
        self.take(above, chain)
        #: By the first levels of their chains, "+" as any other; None if there is none, as in most nodes.
        self.children: dict[str, _Node[V]] | None = None
        self.hash: V | None = None
        self.here: V | None = None

    def take(self, above: int, chain: list[str]) -> None:
        """Have this chain, below so many levels."""
        self.end = above + len(chain)
        begin, until = 1, len(chain)
        while begin < until and chain[begin] == "+":
            begin += 1
        while begin < until and chain[until - 1] == "+":
            until -= 1
        #: Which levels ``text`` has; none, if these are the same.
        self.begin = above + begin
        self.until = above + until
        self.text = "/".join(chain[begin:until])

    def chain(self, above: int, first: str) -> list[str]:
        """The levels of it."""
        compared = self.text.split("/") if self.begin < self.until else []
        return [first] + ["+"] * (self.begin - above - 1) + compared + ["+"] * (self.end - self.until)

    def leads(self, above: int, levels: list[str]) -> bool:
        """Whether a filter that begins as the chain does goes on like all of it."""
        return self.end == above + 1 or levels[above : self.end] == self.chain(above, levels[above])

    def agrees(self, levels: list[str]) -> bool:
        """Whether the text matches a topic that has at least so many levels."""
        begin, text = self.begin, self.text
        if self.until - begin == 1:
            return levels[begin] == text
        if "+" not in text:
            return "/".join(levels[begin : self.until]) == text
        for level in text.split("/"):
            if level not in ("+", levels[begin]):
                return False
            begin += 1
        return True

    def widen(self, least: int, most: int) -> None:
        """Have a filter here or below that matches topics of so many levels."""
        self.least = min(self.least, least)
        self.most = max(self.most, most)

    def child(self, first: str) -> _Node[V] | None:
        """The node below whose chain begins with this level."""
        return None if self.children is None else self.children.get(first)

    def attach(self, first: str, child: _Node[V]) -> None:
        """Have this node below."""
        self.children = self.children or {}
        self.children[first] = child

    def detach(self, first: str) -> None:
        """Do not have it any more."""
        if self.children is not None:
            del self.children[first]
            self.children = self.children or None

    def swap(self, endless: bool, value: V | None) -> V | None:
        """Another value, or none, for the filter that ends here, with or without "#"; the value that it had."""
        if endless:
            before, self.hash = self.hash, value
        else:
            before, self.here = self.here, value
        return before


def _levels(filter: str) -> list[str]:
    """Those of a filter, without "#"."""
    levels = filter.split("/")
    if levels[-1] == "#":
        levels.pop()
    return levels


class FilterTrie(Generic[V]):
    """Valid filters to values. Values must not be None; a filter is a key as it is written."""

    __slots__ = ("_root", "count", "looked")

    def __init__(self) -> None:
        self._root: _Node[V] = _Node(0, [])
        self._root.widen(0, _ENDLESS)
        #: How many there are.
        self.count = 0
        #: What the last ``match`` cost: the nodes that it looked at, and the levels that it compared in their chains.
        self.looked = 0

    def __len__(self) -> int:
        return self.count

    def get(self, filter: str) -> V | None:
        """The value of exactly this filter."""
        path = self._path(_levels(filter))
        if not path:
            return None
        return path[-1].hash if filter[-1] == "#" else path[-1].here

    def put(self, filter: str, value: V) -> None:
        """Set or replace the value of a filter."""
        levels, endless = _levels(filter), filter[-1] == "#"
        node = self._root
        while node.end < len(levels):
            node = self._step(node, levels)
            node.widen(len(levels), _ENDLESS if endless else len(levels))
        self.count += node.swap(endless, value) is None

    @staticmethod
    def _step(node: _Node[V], levels: list[str]) -> _Node[V]:
        """The node below whose whole chain is on the way; one is made, of a part of one that is there or of nothing."""
        above = node.end
        first = levels[above]
        child = node.child(first)
        if child is None:
            child = _Node(above, levels[above:])
            node.attach(first, child)
            return child
        if child.leads(above, levels):
            return child
        chain = child.chain(above, first)
        same = 1
        while above + same < len(levels) and levels[above + same] == chain[same]:
            same += 1
        upper: _Node[V] = _Node(above, chain[:same])
        upper.widen(child.least, child.most)
        node.attach(first, upper)
        child.take(above + same, chain[same:])
        upper.attach(chain[same], child)
        return upper

    def _path(self, levels: list[str]) -> list[_Node[V]]:
        """The nodes from the root to where these levels end; empty if there is no such node."""
        node = self._root
        path = [node]
        while node.end < len(levels):
            child = node.child(levels[node.end])
            if child is None or not child.leads(node.end, levels):
                return []
            path.append(child)
            node = child
        return path

    def remove(self, filter: str) -> bool:
        """Forget a filter and the nodes that only it needed; False if it had no value."""
        levels = _levels(filter)
        path = self._path(levels)
        if not path or path[-1].swap(filter[-1] == "#", None) is None:
            return False
        self.count -= 1
        node = path.pop()
        if path and node.children is None and node.hash is None and node.here is None:
            path[-1].detach(levels[path[-1].end])
            node = path.pop()
        if path:
            self._join(path[-1], node, levels[path[-1].end])
        return True

    @staticmethod
    def _join(above: _Node[V], node: _Node[V], first: str) -> None:
        """Make one chain of a node and its only child, if it need not be two."""
        if node.children is None or len(node.children) > 1 or node.hash is not None or node.here is not None:
            return
        for second, child in node.children.items():
            child.take(above.end, node.chain(above.end, first) + child.chain(node.end, second))
            above.attach(first, child)

    def match(self, topic: str) -> list[V]:
        """The values of every filter that matches a valid topic, in no particular order."""
        found: list[V] = []
        levels = topic.split("/")
        count = len(levels)
        nodes: list[_Node[V]] = [self._root]
        if topic[:1] == "$":  # [MQTT-4.7.2-1]: neither "#" nor "+" stands for a first level that begins with "$"
            first = self._root.child(levels[0])
            nodes = [] if first is None else [first]
        compared = 0
        for node in nodes:  # grows meanwhile
            if count < node.least or count > node.most:
                continue
            if node.begin < node.until:
                compared += node.until - node.begin
                if not node.agrees(levels):
                    continue
            if node.hash is not None:  # "a/#" matches "a" too
                found.append(node.hash)
            if node.end == count:
                if node.here is not None:
                    found.append(node.here)
                continue
            if node.children is not None:
                child, plus = node.children.get(levels[node.end]), node.children.get("+")
                if child is not None:
                    nodes.append(child)
                if plus is not None:
                    nodes.append(plus)
        self.looked = _NODE * len(nodes) + compared // _LEVELS
        return found

    def items(self) -> Iterator[tuple[str, V]]:
        """Every filter with its value, in no particular order; the trie must not change meanwhile."""
        pending: list[tuple[str, _Node[V]]] = [("", self._root)]
        while pending:
            prefix, node = pending.pop()
            if node.here is not None:
                yield prefix[:-1], node.here
            if node.hash is not None:
                yield prefix + "#", node.hash
            for first, child in (node.children or {}).items():
                pending.append((f"{prefix}{'/'.join(child.chain(node.end, first))}/", child))
