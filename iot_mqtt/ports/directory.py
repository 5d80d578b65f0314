"""Small documents that an operator writes and every node knows: users, rules, and what else is set while nodes run.

A document has a kind, a name and a version, and holds a JSON object. Whoever changes one may say which version he has
seen; if there is another by now, nothing is written and he is told (``Conflict``). Every node keeps all documents in
memory, so asking waits for nothing. A write that was acknowledged is in effect on every node within a second, as long
as the node reaches the grid; one that does not keeps what it knew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from iot_mqtt.errors import ReasonCode, Refused

USERS: Final = "users"
RULES: Final = "rules"
#: Of names whose users were deleted: how many.
RETIRED: Final = "retired"
LIMITS: Final = "limits"
#: What nodes must share and nobody else may know.
SECRETS: Final = "secrets"
#: Who may log in at the admin port, and who has: no users of MQTT.
ADMINS: Final = "admins"
LOGINS: Final = "logins"

#: Told the names of a kind whose documents have changed, after they have.
Listener = Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class Document:
    """What is known under a name. Nobody changes ``body``; versions grow, also over a deletion."""

    kind: str
    name: str
    version: int
    body: Mapping[str, Any]


class Conflict(Refused):
    """The document is not at the version that the caller has seen."""

    default = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR


class TooMuch(Refused):
    """The document, or the number of documents, is over a bound."""

    default = ReasonCode.QUOTA_EXCEEDED


class Directory(Protocol):
    """All documents. Reading is at once; writing raises ``Unavailable`` while the grid can't be reached."""

    def get(self, kind: str, name: str) -> Document | None:
        """The document, as this node knows it."""
        ...

    def of(self, kind: str) -> Mapping[str, Document]:
        """All of a kind by name: a view that changes with them."""
        ...

    def page(self, kind: str, after: str = "", limit: int = 100) -> list[Document]:
        """Up to ``limit`` of a kind whose names come after ``after``, by name."""
        ...

    async def put(self, kind: str, name: str, body: Mapping[str, Any], version: int | None = None) -> Document:
        """Write a document. ``version``: the one that must be there, 0 for none, None for whatever is there.

        Raises ``Conflict``, ``TooMuch``, and ``ValueError`` for a kind, a name or a body that cannot be kept.
        """
        ...

    async def delete(self, kind: str, name: str, version: int | None = None) -> bool:
        """Take a document away; False if there is none. Raises ``Conflict``."""
        ...

    async def refresh(self) -> None:
        """Know at once what others have changed. Raises ``Unavailable``."""
        ...

    def watch(self, kind: str, listener: Listener) -> Callable[[], None]:
        """Have a listener told of changes, from this node or another; the answer ends that."""
        ...
