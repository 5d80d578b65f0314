"""The step of every topic while it is not known what some node on the list wants: whatever will be acknowledged is
recorded.

Somebody may have come to want it there that nobody here has heard of: a session moves to that node, and the node that
it comes from, the last one to tell of it, dies. Who is to have it finds it in this node's log.
"""

from __future__ import annotations

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.recording import Recording
from iot_mqtt.broker.publishing.steps import Step, Steps
from iot_mqtt.ports.store import Store


class KeptForUnheard(Step):
    """Pays nothing while all are heard."""

    __slots__ = ("_steps", "_recording", "_store", "_doubtful")

    above_qos0 = True

    def __init__(self, steps: Steps, recording: Recording, store: Store) -> None:
        self._steps = steps
        self._recording = recording
        self._store = store
        self._doubtful = False

    def doubt(self, some: bool) -> None:
        """See ``ports.cluster.Node``."""
        self._doubtful = some
        self._steps.changed()

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        return (b"",) if self._doubtful else ()

    def concerns(self, topic: bytes) -> bool:
        return self._doubtful

    def records(self, topic: bytes, qos: int) -> bool:
        return qos > 0

    def after(self, publication: Publication, outcome: Outcome) -> None:
        if publication.qos and publication.logged is None:
            self._recording.record(publication)
            outcome.ticket = self._store.latest
