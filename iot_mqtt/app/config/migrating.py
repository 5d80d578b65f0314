"""Keys that were called otherwise: told with their new names, and a file written anew with them.

What is rewritten are the names of keys, in their places; comments, order and values stay. A key that is in another
section now is told, for nobody but its author knows where in the file it should stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import yaml

from iot_mqtt.app.config.limits import pattern_of
from iot_mqtt.app.config.yaml_loader import Loader


class Migrated(NamedTuple):
    """A file as it should be, what was done, and what is left to its author."""

    text: str
    done: tuple[str, ...]
    left: tuple[str, ...]


def name_of_now(key: str, renamed: Mapping[str, str]) -> str | None:
    """What a key is called now that was called so; None: it was not."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        now = renamed.get(pattern_of(".".join(parts[:length])))
        if now is not None:
            name = parts[1] if parts[0] == "listeners" and len(parts) > 1 else "*"
            return ".".join((now.replace("*", name), *parts[length:]))
    return None


def migrate(text: str, renamed: Mapping[str, str]) -> Migrated:
    """Raises ``yaml.YAMLError`` for what is not YAML."""
    root = yaml.compose(text, Loader=Loader)
    done, left, edits = [], [], []
    for key, node in _keys(root, ""):
        now = renamed.get(pattern_of(key))
        if now is None:
            continue
        section, _, name = name_of_now(key, renamed).rpartition(".")  # type: ignore[union-attr]
        where = f"{node.start_mark.line + 1}:{node.start_mark.column + 1}"
        if section == key.rpartition(".")[0]:
            done.append(f"{where}: {key} is {section}.{name} now")
            edits.append((node.start_mark.index, node.end_mark.index, name))
        else:
            left.append(f"{where}: {key} is {section}.{name} now: move it there")
    for start, end, name in sorted(edits, reverse=True):
        text = text[:start] + name + text[end:]
    return Migrated(text, tuple(done), tuple(left))


def _keys(node: yaml.Node | None, prefix: str) -> Iterator[tuple[str, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode) or prefix.count(".") > 8:
        return
    for key_node, value_node in node.value:
        key = f"{prefix}{key_node.value}"
        yield key, key_node
        yield from _keys(value_node, f"{key}.")
