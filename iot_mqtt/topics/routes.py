"""The routing table of a node: who has subscribed to what, and who gets a topic.

Filters without wildcards are keys of a dict beside the trie: the many exact subscriptions of a fleet cost a
slot each and are found at once. Wildcard filters are in the trie. What a topic's lookup found is memoised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from typing import Any, Generic

from iot_mqtt.topics.filters import is_wildcard, literal_prefix, parse_shared
from iot_mqtt.topics.match import Entry, Match, Mixed, SharedRoute, class_of, gather
from iot_mqtt.topics.memo import Memo
from iot_mqtt.topics.policies import Policy, RoundRobin
from iot_mqtt.topics.route import R, Route
from iot_mqtt.topics.shared import SharedGroup
from iot_mqtt.topics.sorted_topics import Effort
from iot_mqtt.topics.trie import FilterTrie
from iot_mqtt.values import Subscription

#: Makes the policy of a new shared group; the classes in ``POLICIES`` are such factories.
PolicyFactory = Callable[[], Policy[Any]]

_NOBODY: Match[Any] = Match()
#: Different matches that are kept to be found again.
_MOST_SAME = 10_000
#: Of ``Effort``, as the trie counts what it ``looked`` at: what any lookup takes, and adding up one more entry.
_LOOKUP = 16
_GATHERED = 8


class Routes(Generic[R]):
    """Subscriptions in, matches out. Filters must have passed ``validate_filter`` and topics ``validate_topic``.

    ``match(topic)`` answers who gets a topic. It is a bound C function, because it is asked once per run of
    messages. A match holds until the next change here; callers use it at once and keep none.
    A match is one object for all topics with the same routes and steps (``steps_of``). ``classes`` says which topics
    are served together, as ``class_of`` has it: those of one match, all that are ``MIXED``, or none (None); it is exact
    like ``match``. ``version`` moves with every change.
    Who has ``bound`` lookups is to have topics wait that are not ``known`` when nothing is left.
    ``subscription_count`` counts (receiver, filter) pairs, ``subscription_size`` the characters of their filters;
    ``foreign_count`` and ``foreign_size`` say how many of them stand for another node, with whatever receiver.
    """

    __slots__ = (
        "match",
        "classes",
        "version",
        "subscription_count",
        "subscription_size",
        "foreign_count",
        "foreign_size",
        "_exact",
        "_wild",
        "_memo",
        "_same",
        "_pick",
        "_steps_of",
        "_order",
        "_leaving",
    )

    def __init__(
        self,
        *,
        memo_limit: int = 65_536,
        pick: PolicyFactory = RoundRobin,
        class_of: Callable[[bytes, Match[R]], Match[R] | Mixed | None] = class_of,
        steps_of: Callable[[bytes], tuple[Any, ...]] = lambda _topic: (),
    ) -> None:
        self.version = 0
        self.subscription_count = self.subscription_size = 0
        self.foreign_count = self.foreign_size = 0
        self._exact: dict[str, Route[R] | Entry[R]] = {}
        self._wild: FilterTrie[Route[R] | Entry[R]] = FilterTrie()
        self._memo: Memo[R] = Memo(self.find, memo_limit, class_of)
        self.classes = self._memo.classes
        #: What the same entries added up to since the last change.
        self._same: dict[tuple[Any, ...], Match[R]] = {}
        self._pick = pick
        self._steps_of = steps_of
        self._order = count()
        #: Receivers that nothing matches any more, while their subscriptions are removed.
        self._leaving: set[R] = set()
        self.match: Callable[[bytes], Match[R]] = self._memo.__getitem__

    def subscribe(self, receiver: R, subscription: Subscription) -> bool:
        """Add a subscription, or replace the receiver's earlier one of the same filter; True if it was new."""
        shared = parse_shared(subscription.filter)
        if shared is not None:
            return self._join(receiver, subscription, *shared)
        name = subscription.filter
        filed = self._get(name)
        known = self._route_of(filed, receiver)
        if known is not None and known.subscription == subscription:
            return False
        route = Route(receiver, subscription, next(self._order) if known is None else known.order)
        if filed is None or filed is known:
            self._put(name, route)
        else:
            self._entry(name, filed).routes[receiver] = route
        if known is None:
            self._count(1, name)
        self._changed((name,))
        return known is None

    def _join(self, receiver: R, subscription: Subscription, name: str, filter: str) -> bool:
        entry = self._entry(filter, self._get(filter))
        if entry.groups is None:
            entry.groups = {}
        shared = entry.groups.get(name)
        if shared is None:
            shared = entry.groups[name] = SharedRoute(SharedGroup(name, filter, self._pick()))
            self._changed((filter,))
        else:
            self.version += 1  # matches name the group, so they hold
        new = shared.group.join(Route(receiver, subscription, next(self._order)))
        if new:
            self._count(1, subscription.filter)
        return new

    def unsubscribe(self, receiver: R, filter: str) -> bool:
        """Remove one subscription; False if there was none."""
        gone = self._remove(receiver, filter)
        if gone is not None:
            self._changed((gone,) if gone else ())
        return gone is not None

    def subscribe_foreign(self, receiver: R, subscription: Subscription) -> None:
        """Add what another node wants."""
        if self.subscribe(receiver, subscription):
            self.foreign_count += 1
            self.foreign_size += len(subscription.filter)

    def unsubscribe_foreign(self, receiver: R, filter: str) -> None:
        """Remove what was added by ``subscribe_foreign``."""
        if self.unsubscribe(receiver, filter):
            self.foreign_count -= 1
            self.foreign_size -= len(filter)

    def drop(self, receiver: R, filters: Iterable[str]) -> None:
        """Remove a receiver's subscriptions, all that it has, in one go; unknown ones are passed over."""
        changed = [gone for name in filters if (gone := self._remove(receiver, name)) is not None]
        if changed:
            self._changed([name for name in changed if name])

    def leave(self, receiver: R) -> None:
        """Nothing matches a receiver from now on. ``remove_of`` removes its subscriptions, one by one, and then it has
        ``left``; it does not subscribe meanwhile. Groups go on picking it as far as it is available.
        """
        self._leaving.add(receiver)
        self._same.clear()
        self.forget()

    def remove_of(self, receiver: R, filter: str) -> None:
        """Remove a subscription of one that leaves; unknown ones are passed over."""
        gone = self._remove(receiver, filter)
        # Matches hold, which leave it out anyway, but for those that name a group.
        if gone is not None and gone != filter:
            self._changed((gone,) if gone else ())

    def left(self, receiver: R) -> None:
        """All subscriptions of one that leaves are removed."""
        self._leaving.discard(receiver)

    def forget(self) -> None:
        """What ``class_of`` or ``steps_of`` says has changed: nothing that was found holds."""
        self.version += 1
        self._memo.forget_all()

    def bound(self, effort: Effort) -> None:
        """Have lookups take what they cost from this; ``match`` and ``find`` go on when nothing is left of it."""
        self.classes.effort = effort

    def known(self, topic: bytes) -> bool:
        """Whether ``match`` has nothing to look up for a topic."""
        return topic in self._memo

    def filters(self) -> Iterator[str]:
        """Every different filter that somebody has subscribed to; nothing may change while it is read."""
        for store in (self._exact.items(), self._wild.items()):
            for name, filed in store:
                if isinstance(filed, Route) or filed.routes:
                    yield name
                if isinstance(filed, Entry):
                    yield from (shared.group.full_filter for shared in (filed.groups or {}).values())

    def unwanted(self, most: int) -> list[str]:
        """Topics that were looked up and that nobody has subscribed to, as far as the memo has them; the last first."""
        found = (topic for topic, match in reversed(self._memo.items()) if not (match.plain or match.shared))
        return [topic.decode("utf-8", "replace") for topic in islice(found, most)]

    def receivers(self, filter: str) -> tuple[R, ...]:
        """Who has subscribed to exactly this filter, but for members of shared groups."""
        filed = self._get(filter)
        if isinstance(filed, Route):
            return (filed.receiver,)
        return () if filed is None else tuple(filed.routes)

    def groups(self, filter: str) -> tuple[SharedGroup[R], ...]:
        """The shared groups of a filter (without its ``$share/<group>/``)."""
        filed = self._get(filter)
        return tuple(shared.group for shared in (filed.groups or {}).values()) if isinstance(filed, Entry) else ()

    def find(self, topic: bytes) -> Match[R]:
        """What ``match`` says, for who does not ask again soon: it need not be remembered."""
        name, wild = topic.decode(), self._wild
        filed = wild.match(name) if wild.count else []
        effort = self.classes.effort
        effort.left -= _LOOKUP + wild.looked + len(filed)
        exact = self._exact.get(name)
        if exact is not None:
            filed.append(exact)
        steps = self._steps_of(topic)
        if not (filed or steps):
            return _NOBODY
        key = (steps, *filed)
        found = self._same.get(key)
        if found is None:
            if len(self._same) >= _MOST_SAME:
                self._same.clear()
            found = self._same[key] = gather(self._staying(filed) if self._leaving else filed, steps)
            effort.left -= _GATHERED * len(filed) + len(found.plain)
        return found

    def _staying(self, filed: list[Route[R] | Entry[R]]) -> list[Route[R] | Entry[R]]:
        """What is filed, without receivers that leave."""
        leaving = self._leaving
        staying: list[Route[R] | Entry[R]] = []
        for one in filed:
            if isinstance(one, Route):
                if one.receiver not in leaving:
                    staying.append(one)
            elif leaving.isdisjoint(one.routes):
                staying.append(one)
            else:
                entry: Entry[R] = Entry()
                entry.routes = {receiver: route for receiver, route in one.routes.items() if receiver not in leaving}
                entry.groups = one.groups
                staying.append(entry)
        return staying

    def _remove(self, receiver: R, filter: str) -> str | None:
        """Take out one subscription: None if there was none, else the filter whose matches changed, or ''."""
        shared = parse_shared(filter)
        plain = filter if shared is None else shared[1]
        filed = self._get(plain)
        if shared is not None:
            return self._leave(receiver, filed, *shared)
        if filed is None or self._route_of(filed, receiver) is None:
            return None
        self._count(-1, filter)
        if isinstance(filed, Entry):
            del filed.routes[receiver]
        if isinstance(filed, Route) or filed.unused:
            self._discard(plain)
        return plain

    def _leave(self, receiver: R, filed: Route[R] | Entry[R] | None, name: str, filter: str) -> str | None:
        if not isinstance(filed, Entry) or filed.groups is None or name not in filed.groups:
            return None
        group = filed.groups[name].group
        if not group.leave(receiver):
            return None
        self._count(-1, group.full_filter)
        if len(group):
            return ""
        del filed.groups[name]
        if filed.unused:
            self._discard(filter)
        return filter

    def _count(self, one: int, filter: str) -> None:
        self.subscription_count += one
        self.subscription_size += one * len(filter)

    def _changed(self, filters: Iterable[str]) -> None:
        self.version += 1
        self._same.clear()
        if not self._memo:
            return
        self._memo.forget_prefixes([literal_prefix(name).encode() for name in filters if is_wildcard(name)])
        self._memo.forget_topics([name.encode() for name in filters if not is_wildcard(name)])

    @staticmethod
    def _route_of(filed: Route[R] | Entry[R] | None, receiver: R) -> Route[R] | None:
        if isinstance(filed, Entry):
            return filed.routes.get(receiver)
        return filed if filed is not None and filed.receiver is receiver else None

    def _get(self, filter: str) -> Route[R] | Entry[R] | None:
        return self._wild.get(filter) if is_wildcard(filter) else self._exact.get(filter)

    def _put(self, filter: str, filed: Route[R] | Entry[R]) -> None:
        if is_wildcard(filter):
            self._wild.put(filter, filed)
        else:
            self._exact[filter] = filed

    def _entry(self, filter: str, filed: Route[R] | Entry[R] | None) -> Entry[R]:
        """The entry of a filter, made from what was filed there before."""
        if isinstance(filed, Entry):
            return filed
        entry: Entry[R] = Entry()
        if filed is not None:
            entry.routes[filed.receiver] = filed
        self._put(filter, entry)
        return entry

    def _discard(self, filter: str) -> None:
        if is_wildcard(filter):
            self._wild.remove(filter)
        else:
            del self._exact[filter]
