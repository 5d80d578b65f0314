"""The step of topics that go up: recorded before other nodes hear of them, acknowledged when that is safe."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.recording import Recording
from iot_mqtt.broker.publishing.steps import Step
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.uplink.reader import Uplink
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.store import Store
from iot_mqtt.ports.uplink import Mode
from iot_mqtt.topics import prefixes_of


class SendUp(Step):
    """What a rule of the uplink matches is logged first: other nodes are told its place in the log, and do not record
    it a second time.
    """

    __slots__ = ("_uplink", "_recording", "_budget", "_counters", "_store", "_turn")

    def __init__(
        self, uplink: Uplink, recording: Recording, budget: Budget, counters: Counters, store: Store, turn: Turn
    ) -> None:
        self._uplink = uplink
        self._recording = recording
        self._budget = budget
        self._counters = counters
        self._store = store
        self._turn = turn

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        return prefixes_of(self._uplink.filters)

    def concerns(self, topic: bytes) -> bool:
        return self._uplink.mode(topic, 2) is not None

    @property
    def recorded(self) -> Sequence[str]:
        return tuple(self._uplink.filters)

    def records(self, topic: bytes, qos: int) -> bool:
        return self._uplink.mode(topic, qos) is not None

    def before(self, publication: Publication) -> bool:
        mode = self._uplink.mode(publication.topic, publication.qos)
        if mode is None:
            return True
        if self._budget.full:
            # QoS 0; anything else has been refused before.
            self._counters.messages_refused[Pause.DISK_FULL] += publication.count
        else:
            self._uplink.recorded(self._recording.record(publication, only_up=mode is Mode.ONLY))
            # Nobody waits for the commit of QoS 0 but the uplink.
            self._turn.plan()
        return mode is not Mode.ONLY

    def after(self, publication: Publication, outcome: Outcome) -> None:
        if self._uplink.mode(publication.topic, publication.qos) is None:
            return
        outcome.elsewhere = True
        if publication.logged is not None:
            outcome.ticket = self._store.latest
            if self._uplink.holding is not None:
                outcome.position = publication.logged.end

    def awaited(self, publication: Publication) -> int | None:
        if self._uplink.holding is None or self._uplink.mode(publication.topic, publication.qos) is None:
            return None
        return self._uplink.end
