"""What happens to clients, for whoever watches: events, attempts to connect, the last packets of each."""

from __future__ import annotations

from functools import partial

from iot_mqtt.broker.recorder import Recorder
from iot_mqtt.broker.sessions.attempts import Attempts, tell_attempt
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.events import Events
from iot_mqtt.ports.recording import RecorderSettings


class Monitoring:
    """Filled by connections and sessions; nothing that serves clients reads it."""

    def __init__(self, recording: RecorderSettings, clock: Clock) -> None:
        self.attempts = Attempts(clock.wall)
        self.events = Events(clock.wall)
        self.attempts.noted = partial(tell_attempt, self.events)
        #: The last packets of every client.
        self.recorder = Recorder(recording, clock.wall)
