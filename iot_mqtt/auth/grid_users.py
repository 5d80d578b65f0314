"""Users in the directory: what their documents hold, and the ``Store`` that the chain asks.

    {"hash": "$argon2id$…", "scram": "10000$…", "enabled": true, "groups": [], "client_ids": [], "limits": {}}

Everything but ``enabled`` may be absent. A document that cannot be read is a user who is disabled: whoever wrote it
meant to say something about him.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from iot_mqtt.auth import kinds, scram_keys
from iot_mqtt.auth.accounts import Account
from iot_mqtt.auth.kinds import Cost
from iot_mqtt.ports.directory import USERS, Directory, Document

log = logging.getLogger(__name__)

#: Groups and patterns of one user, and characters of one of them.
MOST_NAMES: Final = 100
LONGEST_NAME: Final = 256
_FIELDS = frozenset({"hash", "scram", "enabled", "groups", "client_ids", "limits"})


def body_of(account: Account) -> dict[str, Any]:
    """The document of a user."""
    return {
        "hash": account.hash,
        "scram": None if account.scram is None else str(account.scram),
        "enabled": account.enabled,
        "groups": sorted(account.groups),
        "client_ids": list(account.client_ids),
        "limits": dict(account.limits),
    }


def account_of(name: str, body: Mapping[str, Any]) -> Account:
    """The user of a document; ``ValueError`` says what is wrong with it. Fields of later versions are passed over, and
    limits are whatever they are: what is wrong with them is no reason to disable somebody.
    """
    encoded, keys, enabled, limits = body.get("hash"), body.get("scram"), body.get("enabled"), body.get("limits", {})
    if encoded is not None:
        kinds.check(_text(encoded))
    if not isinstance(enabled, bool):
        raise ValueError("enabled must be true or false")  # noqa: TRY004 - it is what somebody wrote
    if not isinstance(limits, dict):
        raise ValueError("limits must be an object")  # noqa: TRY004 - as above
    return Account(
        name,
        encoded,
        enabled,
        frozenset(names(body.get("groups", []), "groups")),
        tuple(names(body.get("client_ids", []), "client_ids")),
        None if keys is None else scram_keys.parse(_text(keys)),
        limits,
    )


def names(value: object, what: str) -> list[str]:
    """A list of short texts, each once."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{what} must be a list of texts")
    if len(value) > MOST_NAMES or any(not 1 <= len(one) <= LONGEST_NAME or not one.isprintable() for one in value):
        raise ValueError(f"{what} has at most {MOST_NAMES} entries of 1 to {LONGEST_NAME} printable characters")
    return list(dict.fromkeys(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a hash must be a text")  # noqa: TRY004 - as above
    return value


class GridUsers:
    """Every user of the directory, read once per change."""

    def __init__(self, directory: Directory) -> None:
        self._documents = directory.of(USERS)
        self._accounts: dict[str, Account] = {}
        self._costs: Counter[Cost] = Counter()
        self._iterations: Counter[int] = Counter()
        self.version = 0
        directory.watch(USERS, self._changed)
        self._changed(frozenset(self._documents))

    def find(self, name: str) -> Account | None:
        return self._accounts.get(name)

    def costs(self) -> Mapping[Cost, int]:
        return self._costs

    def iterations(self) -> Mapping[int, int]:
        return self._iterations

    def _changed(self, changed: frozenset[str]) -> None:
        for name in changed:
            before = self._accounts.pop(name, None)
            if before is not None:
                self._count(before, -1)
            document = self._documents.get(name)
            if document is not None:
                account = self._accounts[name] = _read(document)
                self._count(account, 1)
        self.version += 1

    def _count(self, account: Account, by: int) -> None:
        if account.hash is not None:
            self._costs[kinds.cost(account.hash)] += by
        if account.scram is not None:
            self._iterations[account.scram.iterations] += by


def _read(document: Document) -> Account:
    try:
        return account_of(document.name, document.body)
    except ValueError as error:
        log.error("user %r of the grid cannot be read and is disabled: %s", document.name, error)
        return Account(document.name, enabled=False)
