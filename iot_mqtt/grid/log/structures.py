"""Which topics share a stream: topics of like structure, spread over buckets by what differs.

A *structure* is a topic whose variable levels are ``+``: ``m/+/v`` stands for ``m/1/v``, ``m/2/v`` and so on. A
level is variable once it has had many values, which a small trie finds out while topics come. The topics of a
structure are spread over 1024 buckets: a hash of ten bits, divided over the first variable levels, so that a
filter that says what stands in one of them needs only the buckets that agree with it.

A stream keeps its structure and bucket for ever, so the learner may change its mind about a topic: it then goes
to another stream, and filters find it in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

#: A level with more values than this is variable.
MAX_CHILDREN: Final = 16
#: Structures known at a time; beyond it, levels become variable however few values they have.
MAX_STRUCTURES: Final = 256
#: A level is made variable for that reason only if so many structures become fewer by it.
_WORTH: Final = MAX_STRUCTURES // 4
BUCKET_BITS: Final = 10
#: Takes the topics for which there is no other stream.
CATCH_ALL: Final = "#"

_PLUS: Final = b"+"


class Placing(NamedTuple):
    """Where a topic belongs."""

    structure: str
    bucket: int
    buckets: int


class Needed(NamedTuple):
    """Which buckets of a structure a filter needs: those that agree with ``value`` in the bits of ``mask``."""

    mask: int
    value: int


class _Node:
    """One level seen under what stands before it."""

    __slots__ = ("children", "variable", "terminal", "structures")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.variable = False
        #: A topic ends here.
        self.terminal = False
        #: Ends at and below this node.
        self.structures = 0


class Learner:
    """Finds the structure of a topic from the topics before it. ``version`` counts its changes of mind."""

    def __init__(self) -> None:
        self._root = _Node()
        self.version = 0

    def place(self, topic: bytes) -> Placing:
        """Where a topic belongs as far as is known now."""
        levels = topic.split(b"/")
        names = self._walk(levels)
        while names is None:
            names = self._walk(levels)
        return placing(levels, names)

    def remember(self, structure: str) -> None:
        """Take over what an earlier start had learned."""
        if structure != CATCH_ALL:
            while self._walk(structure.encode().split(b"/")) is None:
                pass

    def _walk(self, levels: Sequence[bytes]) -> list[bytes] | None:
        """The levels of the structure; None if the way to it changed meanwhile."""
        path = [self._root]
        names = []
        node = self._root
        for level in levels:
            if not node.variable and level not in node.children and (level == _PLUS or self._crowded(node)):
                self._make_variable(path)
            name = _PLUS if node.variable else level
            child = node.children.get(name)
            if child is None:
                child = node.children[name] = _Node()
            node = child
            names.append(name)
            path.append(node)
        if not node.terminal:
            node.terminal = True
            for above in path:
                above.structures += 1
            if self._root.structures > MAX_STRUCTURES:
                self._simplify(path)
                return None
        return names

    def _crowded(self, node: _Node) -> bool:
        return len(node.children) >= MAX_CHILDREN

    def _simplify(self, path: list[_Node]) -> None:
        """Make the deepest level on the way variable that has many structures below it."""
        for depth in range(len(path) - 1, -1, -1):
            node = path[depth]
            if not node.variable and node.structures >= _WORTH:
                self._make_variable(path[: depth + 1])
                return

    def _make_variable(self, path: list[_Node]) -> None:
        """The last node of the path: what is below it is learned anew, for all its values together."""
        node = path[-1]
        forgotten = node.structures - node.terminal
        for above in path:
            above.structures -= forgotten
        node.variable = True
        node.children = {}
        self.version += 1


class Structures:
    """Those that there are, level by level, so that who has a filter asks few of them."""

    def __init__(self) -> None:
        #: The next levels; ``None`` leads to the structure that ends here.
        self._root: dict[str | None, Any] = {}
        self._always: list[str] = []

    def add(self, structure: str) -> None:
        """There is one more."""
        if structure == CATCH_ALL:
            self._always = [structure]
            return
        node = self._root
        for level in structure.split("/"):
            node = node.setdefault(level, {})
        node[None] = structure

    def of(self, filter: str) -> list[str]:
        """All that may have a topic that the filter matches, and perhaps others: ``needed`` says what of them."""
        nodes, found = [self._root], list(self._always)
        for level in filter.split("/"):
            if level == "#":
                found += [structure for node in nodes for structure in _below(node)]
                return found
            if level == "+":
                nodes = [child for node in nodes for name, child in node.items() if name is not None]
            else:
                nodes = [child for node in nodes for name in {level, "+"} if (child := node.get(name)) is not None]
        found += [node[None] for node in nodes if None in node]
        return found


def _below(node: dict[str | None, Any]) -> Iterator[str]:
    """Every structure that ends at a node or below it."""
    nodes = [node]
    while nodes:
        for name, value in nodes.pop().items():
            if name is None:
                yield value
            else:
                nodes.append(value)


def placing(levels: Sequence[bytes], names: Sequence[bytes]) -> Placing:
    """The bucket of a topic in a structure, both by level."""
    variable = [level for level, name in zip(levels, names, strict=True) if name == _PLUS]
    bucket = 0
    for level, bits in zip(variable, _shares(len(variable)), strict=False):
        bucket = bucket << bits | _hashed(level, bits)
    return Placing(b"/".join(names).decode(), bucket, 1 << BUCKET_BITS if variable else 1)


def needed(filter: str, structure: str) -> Needed | None:
    """What a filter needs of a structure; None if no topic of that structure can match it."""
    if structure == CATCH_ALL:
        return Needed(0, 0)
    wanted, levels = filter.split("/"), structure.split("/")
    if wanted[0] in ("+", "#") and structure.startswith("$"):
        return None  # [MQTT-4.7.2-1]
    every = wanted[-1] == "#"
    # "sport/#" includes the parent "sport".
    if len(levels) < len(wanted) - every or (len(levels) > len(wanted) and not every):
        return None
    shares = iter(_shares(levels.count("+")))
    mask = value = 0
    for depth, level in enumerate(levels):
        want = "+" if depth >= len(wanted) or (every and depth == len(wanted) - 1) else wanted[depth]
        if level == "+":
            bits = next(shares, 0)
            known = want != "+"
            mask = mask << bits | ((1 << bits) - 1 if known else 0)
            value = value << bits | (_hashed(want.encode(), bits) if known else 0)
        elif want not in ("+", level):
            return None
    return Needed(mask, value)


def _shares(levels: int) -> tuple[int, ...]:
    """How many bits of the bucket each variable level has: the first ones one more if it does not come out even."""
    return _SHARES[min(levels, BUCKET_BITS)]


def _divided(levels: int) -> tuple[int, ...]:
    each, over = divmod(BUCKET_BITS, levels)
    return (each + 1,) * over + (each,) * (levels - over)


_SHARES: Final = ((), *(_divided(levels) for levels in range(1, BUCKET_BITS + 1)))


def _hashed(level: bytes, bits: int) -> int:
    return crc32(level) & ((1 << bits) - 1)
