"""Names that a shell completes, asked of the node: clients, plugins, users … A node that is slow is not waited for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.target import Target

if TYPE_CHECKING:
    from iot_mqtt.app.ctl.node import Json, Node

#: Seconds; somebody has pressed a key.
_PATIENCE: Final = 1.0
#: Names that are asked for, and that a shell is given.
_ASKED, _GIVEN = 1000, 200

#: Command of ``ctl`` → its parameter → the list that has the names, and the field.
_NAMES: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "admins": {"name": ("admins", "name")},
    "bans": {"id": ("bans", "id")},
    "capture": {"id": ("captures", "id")},
    "clients": {"client": ("clients", "client_id")},
    "limits": {"name": ("limits", "name")},
    "listeners": {"name": ("listeners", "name")},
    "nodes": {"name": ("nodes", "node_id")},
    "packets": {"client": ("clients", "client_id")},
    "plugins": {"name": ("plugins", "name")},
    "retained": {"topic": ("retained", "topic")},
    "sessions": {"client": ("sessions", "client_id")},
    "shadow": {"target": ("devices", "name")},
    "subscriptions": {"client": ("sessions", "client_id"), "client_id": ("sessions", "client_id")},
    "tokens": {"id": ("tokens", "id")},
    "users": {"user": ("users", "name")},
    "why": {"client": ("sessions", "client_id")},
}


class Named(click.types.StringParamType):
    """A text that stands in a list of the API."""

    def __init__(self, path: str, field: str) -> None:
        self._path = path
        self._field = field

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        target = ctx.find_object(Target) or Target()
        try:
            node = target.connect()
            node.patience = _PATIENCE
            found = sorted({name for one in self._items(node) if _begins(name := one.get(self._field), incomplete)})
        except (CtlError, OSError, ValueError, KeyError):
            return []  # an error between the keys of somebody who types helps nobody
        return [CompletionItem(name) for name in found[:_GIVEN]]

    def _items(self, node: Node) -> Iterable[Json]:
        return node.items(self._path, query={}, limit=_ASKED)


class _Member(Named):
    """A node of the cluster."""

    def _items(self, node: Node) -> Iterable[Json]:
        return list(node.get(self._path)["members"])


def prepare(name: str, command: click.Command) -> None:
    """Have the parameters of a command, and of those below it, completed."""
    for parameter in command.params:
        if parameter.name == "on":
            parameter.type = _Member("cluster", "node_id")
        elif isinstance(parameter.type, click.types.StringParamType) and parameter.name in _NAMES.get(name, {}):
            parameter.type = Named(*_NAMES[name][parameter.name])
    if isinstance(command, click.Group):
        for below in command.commands.values():
            prepare(name, below)


def _begins(value: object, incomplete: str) -> bool:
    """Names that a shell can write in one piece."""
    return isinstance(value, str) and value.startswith(incomplete) and value.isprintable()
