"""``plugins.<name>``: what is written below a plugin's own name is an entry of ``plugins.codecs``.

::

    plugins:                               plugins:
      acme-meter:                            codecs:
        isolation: process        is           - name: acme-meter
        config: {unit: kWh}                      isolation: process
                                                 config: {unit: kWh}

What a codec's ``config`` looks like is the codec's own matter, so these keys are no keys of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from iot_mqtt.app.config.layers import Setting, content_of

SECTION = "plugins"
ENTRIES = "codecs"
ALLOWED = "allowed_wheels"


def folded(settings: Iterable[Setting]) -> list[Setting]:
    """The leaves of all layers, lowest first, with those of plugins by name as one setting of the list."""
    rest: list[Setting] = []
    named: dict[str, dict[str, Any]] = {}
    listed: Setting | None = None
    last: Setting | None = None
    for setting in settings:
        section, *path = setting.key.split(".")
        if section != SECTION or not path or path[0] == ALLOWED:
            rest.append(setting)
        elif path[0] == ENTRIES:
            rest.append(setting)
            listed = setting
        elif len(path) == 1 and content_of(setting) not in (None, {}):
            rest.append(setting)  # an unknown key, as far as the schema knows
        else:
            last = setting
            _put(named, path, content_of(setting))
    if last is None:
        return rest
    before = content_of(listed) if listed is not None else None
    entries = [*(before if isinstance(before, list) else ()), *({"name": name, **told} for name, told in named.items())]
    return [*rest, Setting(f"{SECTION}.{ENTRIES}", entries, last.origin)]


def _put(tree: dict[str, Any], path: list[str], value: object) -> None:
    for name in path[:-1]:
        below = tree.get(name)
        if not isinstance(below, dict):
            below = tree[name] = {}
        tree = below
    tree[path[-1]] = {} if value is None and len(path) == 1 else value
