"""Which member of a shared group gets the next message: one small class per policy.

A policy sees the members in the order of joining and asks ``available`` of each before it picks it. ``choose``
is for one message; ``spread`` for a run of them, as (member, how many) pairs that are served one after the
other, so that each member sees a publisher's messages in their order [MQTT-4.6.0-6].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from heapq import nlargest
from typing import Any, Generic

from iot_mqtt.topics.route import R

Available = Callable[[R], bool]
Shares = list[tuple[R, int]]


class Policy(Generic[R]):
    """The base: all of a run goes to the member that one message would go to."""

    __slots__ = ()

    #: Whether messages must wait for the member that is theirs while that is connected, full or not.
    keeps_order = False

    @property
    def holder(self) -> R | None:
        """The member that everything goes to now; None: there is none."""
        return None

    def joined(self, receiver: R) -> None:
        """A member was added, at the end."""

    def left(self, receiver: R, index: int) -> None:
        """A member was removed; ``index`` is where it stood."""

    def choose(self, members: Sequence[R], publisher: str, topic: bytes, available: Available[R]) -> R | None:
        """The member for one message, None if none is available."""
        raise NotImplementedError

    def spread(
        self, count: int, members: Sequence[R], publisher: str, topic: bytes, available: Available[R]
    ) -> Shares[R]:
        """The members for ``count`` messages; empty if none is available."""
        chosen = self.choose(members, publisher, topic, available)
        return [] if chosen is None else [(chosen, count)]


class _Rotating(Policy[R]):
    """A place in the ring of members that moves on behind whoever was served last."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def left(self, receiver: R, index: int) -> None:
        if index < self._next:
            self._next -= 1

    def _ring(self, members: Sequence[R], available: Available[R]) -> Iterator[tuple[int, R]]:
        """The available members with their index, beginning at the place."""
        start, size = self._next, len(members)
        for step in range(size):
            index = (start + step) % size
            if available(members[index]):
                yield index, members[index]


class RoundRobin(_Rotating[R]):
    """In turn. While the available members stay the same, no two differ by more than one message."""

    __slots__ = ()

    def choose(self, members: Sequence[R], publisher: str, topic: bytes, available: Available[R]) -> R | None:
        for index, member in self._ring(members, available):
            self._next = index + 1
            return member
        return None

    def spread(
        self, count: int, members: Sequence[R], publisher: str, topic: bytes, available: Available[R]
    ) -> Shares[R]:
        ready: list[tuple[int, R]] = []
        for entry in self._ring(members, available):
            ready.append(entry)
            if len(ready) == count:
                break
        if not ready:
            return []
        each, extra = divmod(count, len(ready))
        self._next = ready[extra - 1][0] + 1
        return [(member, each + (position < extra)) for position, (_, member) in enumerate(ready)]


class Sticky(_Rotating[R]):
    """One member takes everything until it is unavailable or leaves; then the next one does."""

    __slots__ = ("_holder",)

    keeps_order = True

    def __init__(self) -> None:
        super().__init__()
        self._holder: R | None = None

    @property
    def holder(self) -> R | None:
        return self._holder

    def left(self, receiver: R, index: int) -> None:
        super().left(receiver, index)
        if receiver is self._holder:
            self._holder = None

    def choose(self, members: Sequence[R], publisher: str, topic: bytes, available: Available[R]) -> R | None:
        if self._holder is not None and available(self._holder):
            return self._holder
        for index, member in self._ring(members, available):
            self._next, self._holder = index + 1, member
            return member
        return None


class LeastInflight(_Rotating[R]):
    """The member with the fewest unfinished messages; in turn among equals."""

    __slots__ = ()

    def choose(self, members: Sequence[R], publisher: str, topic: bytes, available: Available[R]) -> R | None:
        ready = list(self._ring(members, available))
        if not ready:
            return None
        index, member = min(ready, key=lambda entry: entry[1].inflight_count)
        self._next = index + 1
        return member

    def spread(
        self, count: int, members: Sequence[R], publisher: str, topic: bytes, available: Available[R]
    ) -> Shares[R]:
        ready = sorted(
            ((member.inflight_count, index, member) for index, member in self._ring(members, available)),
            key=lambda entry: entry[0],
        )
        if not ready:
            return []
        # Like water: the emptiest are filled up to the next one's level, then rise together with it.
        used, rest = 1, count
        while used < len(ready) and (ready[used][0] - ready[used - 1][0]) * used <= rest:
            rest -= (ready[used][0] - ready[used - 1][0]) * used
            used += 1
        level = ready[used - 1][0]
        each, extra = divmod(rest, used)
        self._next = ready[(extra or used) - 1][1] + 1
        shares = [(ready[i][2], level - ready[i][0] + each + (i < extra)) for i in range(used)]
        return [share for share in shares if share[1]]


class _Hashed(Policy[R]):
    """Rendezvous hashing: the available member that scores highest with the key, whatever else happened.

    A member that leaves or joins moves only the keys that were or become its own. The best few of a key are
    remembered; only when all of these are unavailable are the members scored again.
    """

    __slots__ = ("_ranked",)

    keeps_order = True
    _BEST = 4
    _REMEMBERED = 10_000

    def __init__(self) -> None:
        self._ranked: dict[bytes, list[R]] = {}

    def joined(self, receiver: R) -> None:
        self._ranked.clear()

    def left(self, receiver: R, index: int) -> None:
        self._ranked.clear()

    @staticmethod
    def key(publisher: str, topic: bytes) -> bytes:
        """What messages must have in common to reach the same member."""
        raise NotImplementedError

    def choose(self, members: Sequence[R], publisher: str, topic: bytes, available: Available[R]) -> R | None:
        key = self.key(publisher, topic)
        best = self._ranked.get(key)
        if best is None:
            if len(self._ranked) >= self._REMEMBERED:
                self._ranked.clear()
            best = self._ranked[key] = nlargest(self._BEST, members, key=_score(key))
        for member in best:
            if available(member):
                return member
        ready = [member for member in members if available(member)]
        return max(ready, key=_score(key)) if ready else None


def _score(key: bytes) -> Callable[[R], bytes]:
    # Not hash(): that differs from process to process, and nodes must agree.
    return lambda member: blake2b(member.client_id.encode() + b"\0" + key, digest_size=8).digest()


class HashClient(_Hashed[R]):
    """All messages of one publisher go to the same member."""

    __slots__ = ()

    @staticmethod
    def key(publisher: str, _topic: bytes) -> bytes:
        return publisher.encode()


class HashTopic(_Hashed[R]):
    """All messages of one topic go to the same member."""

    __slots__ = ()

    @staticmethod
    def key(_publisher: str, topic: bytes) -> bytes:
        return topic


#: The names that configuration uses.
POLICIES: dict[str, type[Policy[Any]]] = {
    "round_robin": RoundRobin,
    "sticky": Sticky,
    "hash_client": HashClient,
    "hash_topic": HashTopic,
    "least_inflight": LeastInflight,
}
