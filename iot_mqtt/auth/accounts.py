"""What is known of users who have a password here, from the file, the grid or both, and what stands in for others.

A name that no store has is asked for all the same, against a decoy. Hashes may differ in kind and cost: names that are
not there have the costs of those that are, in the same proportions, and each of them always the same. The time of an
answer does not tell who exists.
"""

from __future__ import annotations

import hashlib
import secrets
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any, Protocol

from iot_mqtt.auth import kinds
from iot_mqtt.auth.kinds import Cost
from iot_mqtt.auth.scram_keys import ITERATIONS, ScramKeys
from iot_mqtt.wildcards import for_fnmatch

#: For as long as the process lives, so that a name's decoy stays what it was when users change.
_KEY = secrets.token_bytes(16)


@dataclass(frozen=True, slots=True)
class Account:
    """One user of a store."""

    name: str
    #: None: no password fits.
    hash: str | None = None
    enabled: bool = True
    groups: frozenset[str] = frozenset()
    #: Patterns of the client ids that the user may have (``*``, ``?``); none: all of them.
    client_ids: tuple[str, ...] = ()
    #: For SCRAM; None: the user has no keys for it.
    scram: ScramKeys | None = None
    #: What the user may use up, for whoever enforces it.
    limits: Mapping[str, Any] = field(default_factory=dict)

    def may_be(self, client_id: str) -> bool:
        """Whether the user may have this client id; one that the broker gives is free."""
        if not self.client_ids or not client_id:
            return True
        return any(fnmatchcase(client_id, for_fnmatch(pattern)) for pattern in self.client_ids)


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the password of a user is, or would be; of one who is disabled: where that is said."""

    known: bool
    #: The file of users; None: in the grid.
    file: str | None
    enabled: bool = True


class Store(Protocol):
    """Where users are kept. Asked in the reactor's thread, so it answers from memory."""

    @property
    def version(self) -> object:
        """Changes with every change of its users."""
        ...

    def find(self, name: str) -> Account | None: ...

    def costs(self) -> Mapping[Cost, int]:
        """How many of its hashes have which cost."""
        ...

    def iterations(self) -> Mapping[int, int]:
        """How many of its users have keys for SCRAM of how many iterations."""
        ...


class Decoys:
    """Hashes that no password fits, for names that are not there."""

    __slots__ = ("_decoys", "_shares")

    def __init__(self, costs: Mapping[Cost, int]) -> None:
        ordered = sorted((cost, count) for cost, count in costs.items() if count > 0)
        total = sum(count for _, count in ordered)
        self._decoys = [kinds.decoy(cost) for cost, _ in ordered] or [kinds.decoy()]
        #: Where in 0…1 each decoy's part ends.
        self._shares = [ends / total for ends in accumulate(count for _, count in ordered)] or [1.0]

    def of(self, name: str) -> str:
        """The one for this name."""
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=_KEY, digest_size=6).digest()
        return self._decoys[min(bisect_right(self._shares, int.from_bytes(digest) / 2**48), len(self._decoys) - 1)]


class Accounts:
    """The users of several stores as one: the first store that has a name decides."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = tuple(stores)
        self._versions: tuple[object, ...] = ()
        self._decoys = Decoys({})

    def find(self, name: str) -> Account | None:
        return next((found for store in self.stores if (found := store.find(name)) is not None), None)

    def holder(self, name: str) -> Store | None:
        """The store that decides on a name."""
        return next((store for store in self.stores if store.find(name) is not None), None)

    def disabler(self, name: str) -> Store | None:
        """The first store that says that nobody is let in by this name."""
        return next((store for store in self.stores if (found := store.find(name)) and not found.enabled), None)

    def is_disabled(self, name: str) -> bool:
        """Whether nobody is let in by this name, whoever vouches: one store is enough."""
        return self.disabler(name) is not None

    def groups_of(self, name: str) -> frozenset[str]:
        """Those of every store that knows the name."""
        return frozenset[str]().union(*(found.groups for found in self._all(name) if found is not None))

    def may_be(self, name: str, client_id: str) -> bool:
        """Whether a user may have a client id: every store that knows the name has a say."""
        return all(found is None or found.may_be(client_id) for found in self._all(name))

    def has_patterns(self, name: str) -> bool:
        """Whether a user may have some client ids only."""
        return any(found is not None and found.client_ids for found in self._all(name))

    def hash_of(self, name: str) -> str:
        """The hash to verify a password against, whether or not there is such a user."""
        found = self.find(name)
        return self._decoy(name) if found is None or found.hash is None else found.hash

    def scram_iterations(self, point: float) -> int:
        """As many as users have, in their proportions; ``point``: 0…1, a name's own."""
        counts: Counter[int] = Counter()
        for store in self.stores:
            counts.update(store.iterations())
        ordered = sorted(iterations for iterations in counts if counts[iterations] > 0) or [ITERATIONS]
        ends = list(accumulate(counts[iterations] for iterations in ordered))
        return ordered[min(bisect_right(ends, point * ends[-1]), len(ordered) - 1)]

    def _all(self, name: str) -> Iterable[Account | None]:
        return (store.find(name) for store in self.stores)

    def _decoy(self, name: str) -> str:
        versions = tuple(store.version for store in self.stores)
        if versions != self._versions:
            costs: Counter[Cost] = Counter()
            for store in self.stores:
                costs.update(store.costs())
            self._versions, self._decoys = versions, Decoys(costs)
        return self._decoys.of(name)
