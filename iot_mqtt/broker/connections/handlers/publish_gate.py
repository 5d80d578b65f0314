"""Whether what a client publishes has to wait: for room on the disk, for commits, for word from other nodes."""

from __future__ import annotations

from functools import partial
from typing import Final

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.publishing.path import Publishing
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import PublishBatch, PublishRun, RunBatch

#: In the first byte of PUBLISH.
RETAIN: Final = 0x01
QOS_2: Final = 0x04
#: What the node may not offer.
QOS_OR_RETAIN: Final = 0x07


class PublishGate:
    """Holds connections that publish, until they may go on."""

    __slots__ = ("_settings", "_publishing", "_budget", "_accompaniment")

    def __init__(
        self, settings: MqttSettings, publishing: Publishing, budget: Budget, accompaniment: Accompaniment
    ) -> None:
        self._settings = settings
        self._publishing = publishing
        self._budget = budget
        self._accompaniment = accompaniment

    def takes(self, connection: Connection, batch: PublishBatch) -> bool:
        """Whether a batch can be served at once: what it was made by still holds, and nothing in it is out of the way;
        ``Dispatch`` has seen to the routes.
        """
        session, permissions = connection.session, connection.permissions
        if session is None or permissions is None or self._budget.full:
            return False
        if not permissions.unrestricted:
            verdicts = connection.verdicts
            if verdicts is None or verdicts.scanned != permissions.version:
                return False
        head = batch.head
        if head & QOS_OR_RETAIN:
            settings = self._settings
            if head >> 1 & 3 > settings.max_qos or (head & RETAIN and not settings.retain_available):
                return False
            if head & RETAIN and not self._publishing.may_retain_all(batch, connection.origin.user):
                return False
        if head & QOS_2:
            ids = batch.ids
            received = session.inbound.received
            return (received is None or received.isdisjoint(ids)) and len(set(ids)) == len(ids)
        return True

    def takes_runs(self, connection: Connection, batch: RunBatch) -> bool:
        """The same of runs that no decoder has looked at."""
        if self._budget.full or batch.qos > self._settings.max_qos:
            return False
        classes, head = self._publishing.routes.classes, batch.head
        for run in batch.runs:
            # What is traced is served one by one.
            if (
                run.__class__ is not PublishRun
                or classes[run.topic] is None
                or not connection.may_publish(run.topic, head)
            ):
                return False
        return True

    def holds(self, connection: Connection, run: PublishRun) -> bool:
        """Whether a publisher of 3.x has to wait until the disk has room: it can't be told anything else."""
        if not self._has_to_wait(connection, run):
            return False
        self._budget.pause(connection, Pause.DISK_FULL, [run])
        return True

    def holds_runs(self, connection: Connection, batch: RunBatch) -> bool:
        """The same of runs that belong together, whichever of them has to wait."""
        if not any(self._has_to_wait(connection, run) for run in batch.runs):
            return False
        self._budget.pause(connection, Pause.DISK_FULL, [batch])
        return True

    def _has_to_wait(self, connection: Connection, run: PublishRun) -> bool:
        if not (run.qos and (connection.patient or not connection.five)):
            return False
        publication = Publication(run, run.topic, "", 0.0)
        return connection.may_publish(run.topic, run.head) and self._publishing.refuses(publication)

    def holds_command(self, connection: Connection, run: PublishRun, topic: bytes) -> bool:
        """Whether a command has to wait until it is known that no other node has accepted it."""
        if not connection.may_publish(topic, run.head):
            return False
        go_on = partial(self._budget.go_on, connection, Pause.LOOKUP)
        if not self._accompaniment.by.looks(topic, run.properties, go_on):
            return False
        self._budget.pause(connection, Pause.LOOKUP, [run])
        return True
