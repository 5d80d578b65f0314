"""The facade for the admin side, about messages: retained ones, and publishing as the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iot_mqtt.broker.cluster.peers import wanted_elsewhere
from iot_mqtt.broker.facade import Published
from iot_mqtt.broker.publication import Publication, publication_of
from iot_mqtt.broker.publishing.budget import Pause
from iot_mqtt.broker.publishing.path import Publishing
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.turn import Turn
from iot_mqtt.errors import MqttError, ReasonCode, Refused
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.topics import RESERVED, is_reserved, validate_topic
from iot_mqtt.values import NOBODY, Message, Origin


class MessagesView:
    """Of one node."""

    def __init__(
        self,
        publishing: Publishing,
        retention: Retention,
        counters: Counters,
        turn: Turn,
        clock: Clock,
        max_levels: int,
        publishes: Callable[[str], None],
    ) -> None:
        """``max_levels``: of topics; ``publishes``: told which user is about to retain something."""
        self._publishing = publishing
        self._retention = retention
        self._counters = counters
        self._turn = turn
        self._clock = clock
        self._max_levels = max_levels
        self._publishes = publishes

    def retained(self, filter: str = "#", after: bytes | None = None, limit: int = 100) -> list[Message]:
        """Retained messages whose topics match; those whose time is over are forgotten."""
        wall = self._clock.wall()
        while True:
            found = self._retention.index.page(filter, after, limit)
            if len(self._retention.living(found, wall)) == len(found):
                return found

    def unwanted(self, most: int) -> list[str]:
        """Topics that something was published to, and nobody had subscribed to; the last ones that are remembered."""
        return self._publishing.routes.unwanted(most)

    async def publish(self, message: Message, user: str | None = None) -> Published:
        """Publish as the node, or in the name of a user, and wait until it is as safe as an acknowledged one."""
        published = self._publish(message, user)
        await self._turn.settled()
        return published

    async def publish_all(self, messages: Sequence[Message], user: str | None = None) -> list[Published | MqttError]:
        """Each by itself; those that were taken wait for one commit."""
        found: list[Published | MqttError] = []
        for message in messages:
            try:
                found.append(self._publish(message, user))
            except MqttError as refusal:
                found.append(refusal)
        await self._turn.settled()
        return found

    def _publish(self, message: Message, user: str | None) -> Published:
        validate_topic(message.topic.decode(), max_levels=self._max_levels)
        if is_reserved(message.topic):
            raise Refused(RESERVED, ReasonCode.TOPIC_NAME_INVALID)
        publication = publication_of(message, self._clock.wall(), NOBODY if user is None else Origin(user))
        if self._publishing.refuses(publication):
            self._counters.messages_refused[Pause.DISK_FULL] += 1
            raise Refused("the disk is full", ReasonCode.QUOTA_EXCEEDED)
        if message.retain:
            self._check_room(publication, user)
        elsewhere = wanted_elsewhere(self._publishing.routes.match(message.topic), message.qos)
        return Published(self._publishing.publish(publication).receivers, elsewhere)

    def _check_room(self, publication: Publication, user: str | None) -> None:
        """Refuse what may not be retained."""
        if user is not None:
            self._publishes(user)
        if self._publishing.may_retain(publication):
            return
        self._counters.messages_refused["retained_quota"] += 1
        detail = "there are as many retained messages as there may be"
        if user is not None:
            self._counters.limited["retained"] += 1
            detail = f"{detail}, or {user} has retained as much as he may"
        raise Refused(detail, ReasonCode.QUOTA_EXCEEDED)

    async def remove_retained(self, topic: bytes) -> bool:
        """Remove one retained message."""
        removed = self._retention.remove(topic)
        await self._turn.settled()
        return removed

    async def remove_all_retained(self, filter: str, limit: int) -> int:
        """Remove those that a filter matches."""
        topics = [message.topic for message in self.retained(filter, None, limit)]
        for topic in topics:
            self._retention.remove(topic)
        await self._turn.settled()
        return len(topics)
