"""YAML as people write configuration: of a depth that somebody could still read."""

from __future__ import annotations

from typing import Any

import yaml

#: Nothing of ours is as deep.
DEEPEST = 64


class Loader(yaml.SafeLoader):
    """Refuses what is nested without end with an error like others, before Python's stack is used up."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > DEEPEST:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "nested too deep", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def yaml_of(text: str | bytes) -> object:
    """The value. ``yaml.YAMLError``, or ``ValueError`` for what looks like a date and is none."""
    try:
        found: object = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except RecursionError as error:  # anchors within anchors
        raise yaml.YAMLError("nested too deep") from error
    return found
