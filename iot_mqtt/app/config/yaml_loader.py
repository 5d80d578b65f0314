"""YAML as people write configuration: of a depth and a size that somebody could still read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

#: Nothing of ours is as deep.
DEEPEST: Final = 64
#: Values that all aliases of a document stand for together.
MOST_REPEATED: Final = 10_000


class Loader(yaml.SafeLoader):
    """Refuses what is nested, or repeated by aliases, without end: with an error like others, before Python's stack or
    anybody's patience is used up.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._depth = 0
        self._repeated = 0
        #: Of each node that is whole: how many values it is, those behind its aliases among them.
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        begins: Any = event.start_mark
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.composer.ComposerError(None, None, "nested too deep", begins)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent):
            # Within its own anchor there is no size yet, and no end.
            self._repeated += self._sizes.get(id(node), MOST_REPEATED + 1)
            if self._repeated > MOST_REPEATED:
                text = f"nested too deep: its aliases stand for more than {MOST_REPEATED} values"
                raise yaml.composer.ComposerError(None, None, text, begins)
        else:
            self._sizes[id(node)] = 1 + sum(self._sizes[id(one)] for one in _within(node))
        return node


def _within(node: Any) -> Iterable[Any]:
    if isinstance(node, yaml.MappingNode):
        return (one for pair in node.value for one in pair)
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _without_sixties(tag: str, pattern: Any) -> tuple[str, Any]:
    """YAML 1.1 reads 19:20 as 1160; whoever writes that means something else."""
    if tag.rpartition(":")[2] not in ("int", "float"):
        return tag, pattern
    return tag, re.compile(rf"(?!.*:)(?:{pattern.pattern})", re.VERBOSE)


Loader.yaml_implicit_resolvers = {
    first: [_without_sixties(*one) for one in resolvers]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def yaml_of(text: str | bytes) -> object:
    """The value. ``yaml.YAMLError``, or ``ValueError`` for what looks like a date and is none."""
    try:
        found: object = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except RecursionError as error:
        raise yaml.YAMLError("nested too deep") from error
    return found
