"""Shared groups: the sessions that divide the messages of one ``$share/<name>/<filter>`` among them."""

from __future__ import annotations

from typing import Generic

from iot_mqtt.topics.policies import Available, Policy, Shares
from iot_mqtt.topics.route import R, Route
from iot_mqtt.values import Subscription


class SharedGroup(Generic[R]):
    """The members of one group and the policy that picks among them [MQTT-4.8.2-4].

    The same name with another filter is another group. A group that nobody is left in picks nobody, so that
    one found in an older match does no harm.
    """

    __slots__ = ("name", "filter", "_routes", "_order", "_policy")

    def __init__(self, name: str, filter: str, policy: Policy[R]) -> None:
        self.name = name
        self.filter = filter
        self._routes: dict[R, Route[R]] = {}
        # The same members by position: policies need to begin in the middle.
        self._order: list[R] = []
        self._policy = policy

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return f"<SharedGroup {self.full_filter} of {len(self)}>"

    @property
    def full_filter(self) -> str:
        """The filter as its members subscribed to it."""
        return f"$share/{self.name}/{self.filter}"

    @property
    def members(self) -> dict[R, Subscription]:
        """Everyone in it with the subscription; a copy."""
        return {receiver: route.subscription for receiver, route in self._routes.items()}

    def has(self, receiver: R) -> bool:
        """Whether somebody is in it."""
        return receiver in self._routes

    @property
    def keeps_order(self) -> bool:
        """Whether the policy promises that the messages of one publisher or topic go to one member."""
        return self._policy.keeps_order

    @property
    def holder(self) -> R | None:
        """The member that everything goes to now, by a policy that has one."""
        return self._policy.holder

    def route(self, receiver: R) -> Route[R]:
        """How a picked member wants its messages. KeyError for one that isn't a member."""
        return self._routes[receiver]

    def join(self, route: Route[R]) -> bool:
        """Add a member or replace its options; True if it is new."""
        receiver = route.receiver
        known = receiver in self._routes
        self._routes[receiver] = route
        if not known:
            self._order.append(receiver)
            self._policy.joined(receiver)
        return not known

    def leave(self, receiver: R) -> bool:
        """Remove a member; False if it was none."""
        if self._routes.pop(receiver, None) is None:
            return False
        index = self._order.index(receiver)
        del self._order[index]
        self._policy.left(receiver, index)
        return True

    def pick(self, publisher: str, topic: bytes, available: Available[R]) -> R | None:
        """The member that gets the next message; None if none is available."""
        return self._policy.choose(self._order, publisher, topic, available) if self._order else None

    def pick_many(self, count: int, publisher: str, topic: bytes, available: Available[R]) -> Shares[R]:
        """Who gets the next ``count`` messages, as (member, how many > 0); empty if none is available.

        The caller gives the first member the first messages of the run, the next member the following ones.
        """
        if not self._order or count <= 0:
            return []
        return self._policy.spread(count, self._order, publisher, topic, available)
