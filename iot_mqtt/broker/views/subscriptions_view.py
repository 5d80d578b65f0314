"""The facade for the admin side, about who gets what: filters, shared groups, and subscriptions for a client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.handlers.subscribe import Requests, wants_retained
from iot_mqtt.broker.facade import GroupInfo, GroupShare, NotPermitted, RouteInfo
from iot_mqtt.broker.publishing.retained_reading import RetainedReading
from iot_mqtt.broker.readers.replay import twin
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.broker.shared_groups import GroupKeeper
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.views.paging import by_client, page, pieces, plain_of
from iot_mqtt.codec import Request
from iot_mqtt.errors import ReasonCode, Refused, Unavailable
from iot_mqtt.ports.access import Action
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.log import Breath
from iot_mqtt.topics import SharedGroup, matches, parse_shared
from iot_mqtt.values import Subscription

#: Members of a group that are named.
NAMED = 100
#: Seconds in which a subscription has to be in force at all nodes.
IN_FORCE = 10.0


class SubscriptionsView:
    """Of the sessions that are at home at one node; it changes them as their clients would."""

    def __init__(
        self,
        sessions: Sessions,
        subscriptions: Subscriptions,
        requests: Requests,
        retained: RetainedReading,
        settings: MqttSettings,
        clock: Clock,
        turn: Turn,
        breathe: Breath,
    ) -> None:
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._requests = requests
        self._retained = retained
        self._settings = settings
        self._clock = clock
        self._turn = turn
        self._breathe = breathe

    async def routes(self, topic: str | None = None, after: str | None = None, limit: int = 100) -> list[RouteInfo]:
        """Different filters in their order, with how many sessions have them."""
        found: Counter[str] = Counter()
        connected: Counter[str] = Counter()
        async for piece in pieces(self._filters(), self._breathe):
            for session, filter in piece:
                if (after is None or filter > after) and (topic is None or matches(plain_of(filter), topic)):
                    found[filter] += 1
                    connected[filter] += session.connection is not None
        shown = await page(found, str, after, limit, self._breathe)
        return [RouteInfo(one, found[one], connected[one]) for one in shown]

    async def groups(self, after: str | None = None, limit: int = 100) -> list[GroupInfo]:
        """Shared groups in the order of their filters, with their members here, and what waits for them here."""
        members: dict[str, list[Session]] = {}
        waiting: Counter[str] = Counter()
        async for parts in pieces(self._subscriptions.groups.parts(), self._breathe):
            for part in parts:
                if part.owed and (after is None or part.filter > after):
                    waiting[part.filter] += part.owed
                    members.setdefault(part.filter, [])
        async for piece in pieces(self._filters(), self._breathe):
            for session, filter in piece:
                if (after is None or filter > after) and parse_shared(filter) is not None:
                    members.setdefault(filter, []).append(session)
        found = []
        for one in await page(members, str, after, limit, self._breathe):
            found.append(await self._group(one, members[one], waiting[one]))
            await self._breathe()
        return found

    def _filters(self) -> Iterator[tuple[Session, str]]:
        return ((session, filter) for session in list(self._sessions) for filter in list(session.subscriptions))

    async def _group(self, filter: str, members: list[Session], waiting: int) -> GroupInfo:
        name, topics = parse_shared(filter) or ("", filter)
        named = await page(members, by_client, None, NAMED, self._breathe)
        return GroupInfo(
            filter=filter,
            group=name,
            topics=topics,
            members=len(members),
            connected=sum(one.connection is not None for one in members),
            client_ids=[one.client_id for one in named],
            waiting=waiting,
        )

    def shares(self, client_id: str) -> list[GroupShare]:
        """See ``facade.SubscriptionPart``."""
        session = self._sessions.get(client_id)
        filters = () if session is None else (one for one in session.subscriptions if parse_shared(one) is not None)
        found = ((filter, self._subscriptions.groups.find(filter)) for filter in filters)
        return [self._share(session, filter, group) for filter, group in found if group is not None]

    def _share(self, session: Session | None, filter: str, group: SharedGroup[Any]) -> GroupShare:
        others = [one for one in group.members if one is not session]
        here = (one.client_id for one in others if isinstance(one, Session) and one.connection is not None)
        elsewhere = (one.client_id for one in others if isinstance(one, GroupKeeper) and one.reachable)
        holder = group.holder
        return GroupShare(
            filter,
            self._settings.shared_policy,
            tuple(here),
            tuple(elsewhere),
            None if holder is None or holder is session else holder.client_id,
            group.keeps_order,
        )

    async def subscribe(self, client_id: str, wanted: Subscription) -> Subscription | None:
        """See ``facade.SubscriptionPart``."""
        session = self._sessions.get(client_id)
        if session is None:
            return None
        request = Request(
            wanted.filter, wanted.qos, wanted.no_local, wanted.retain_as_published, wanted.retain_handling
        )
        asked = self._requests.understood(request)
        if asked.begin is not None:
            raise Refused("a replay is asked for by its client", ReasonCode.TOPIC_FILTER_INVALID)
        if wanted.no_local and parse_shared(wanted.filter) is not None:
            # [MQTT-3.8.3-4]
            raise Refused("no_local is not for shared subscriptions", ReasonCode.PROTOCOL_ERROR)
        _require_right(session, asked.inner)
        known = self._subscriptions.known(session, wanted.filter)
        if known is None:
            self._require_room(session)
        subscription = replace(wanted, qos=min(wanted.qos, self._settings.max_qos))
        since = self._retained.subscribed(session)
        self._subscriptions.add(session, subscription)
        await self._in_force(session)
        if self._sessions.get(client_id) is not session or session.subscriptions.get(wanted.filter) != subscription:
            raise Unavailable("the session went away, or its subscription was changed, before it was in force")
        if session.connection is not None and wants_retained(subscription, known is None):
            self._retained.begin(session, [(subscription, since)])
            self._retained.go_on(session)
        return subscription

    async def _in_force(self, session: Session) -> None:
        """Committed, and known to whoever publishes."""
        waiting: Deferred[None] = Deferred()

        def over() -> None:
            if not waiting.called:
                waiting.callback(None)

        self._clock.call_later(IN_FORCE, over)
        self._sessions.others.when_in_force(session, over)
        await self._turn.settled()
        await waiting

    def _require_room(self, session: Session) -> None:
        connection = session.connection
        if isinstance(connection, Connection) and len(session.subscriptions) >= connection.allowance.subscriptions:
            raise Refused("the client has as many subscriptions as it may have", ReasonCode.QUOTA_EXCEEDED)
        self._subscriptions.require_room(self._settings)

    async def unsubscribe(self, client_id: str, filter: str) -> bool | None:
        """See ``facade.SubscriptionPart``."""
        session = self._sessions.get(client_id)
        if session is None:
            return None
        remove = self._subscriptions.remove
        removed = remove(session, filter) or remove(session, twin(filter))
        await self._turn.settled()
        return removed


def _require_right(session: Session, inner: str) -> None:
    """Of a client that is away it is asked when it comes."""
    connection = session.connection
    if isinstance(connection, Connection) and connection.permissions is not None:
        permissions = connection.permissions
        if not permissions.unrestricted and not permissions.allows(Action.SUBSCRIBE, inner):
            raise NotPermitted(f"{session.client_id} may not subscribe to that")
