"""What keeps Kafka from taking records now, in words: from errors, from silence, and from what it asks for.

The library tries again by itself and for as long as it takes, so a failure shows as *no progress*; the last error says
why. All times are those of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError

from iot_mqtt.uplink.kafka.words import words_of

#: A record that is under way for longer is being held up.
HELD_SECONDS = 2.5
#: An error of so long ago says nothing about now.
FRESH_SECONDS = 15.0
#: After the silence that a broker has asked for, it may still be what holds us up for so long.
AFTER_SILENCE_SECONDS = 3.0

_DOWN = KafkaError._ALL_BROKERS_DOWN
_LOGIN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)


class Watch:
    """Told what happens; ``trouble`` says what it means."""

    def __init__(self, servers: str, now: Callable[[], float]) -> None:
        self._servers = servers
        self._now = now
        self._error: tuple[float, KafkaError] | None = None
        self._login: str | None = None
        self._down = False
        self._silence: tuple[float, float] | None = None
        self._moved = now()
        #: Something of ours is in the way, such as a topic that is not there.
        self.waiting_for: str | None = None
        #: The sink has failed, and nothing was taken since.
        self.failed: str | None = None

    # What the library says.

    def error(self, error: KafkaError) -> None:
        code = error.code()
        if code in _LOGIN:
            self._login = words_of(error)
        if code == _DOWN:
            self._down = True
            # Which of them, and why, was said before.
            if self._error is not None and self._now() - self._error[0] < FRESH_SECONDS:
                return
        self._error = (self._now(), error)

    def throttled(self, seconds: float) -> None:
        if seconds > 0:
            self._silence = (self._now() + seconds, seconds)

    # What we see ourselves.

    def answered(self) -> None:
        """Kafka has answered: what was before is over."""
        self._error = self._login = None
        self._down = False

    def moved(self) -> None:
        """Records were taken."""
        self.answered()
        self._moved = self._now()
        self.failed = None

    @property
    def needs_a_look(self) -> bool:
        """Whether what was said may be over, without anything that shows it."""
        return self._down or self._login is not None

    def trouble(self, oldest: float | None) -> str | None:
        """What is in the way; ``oldest``: since when the oldest record is under way."""
        now = self._now()
        if self._login is not None:
            return (
                f"Kafka at {self._servers} refuses the login: {self._login}; "
                "see uplink.kafka.security.mechanism, username and password"
            )
        if oldest is not None and now - oldest >= HELD_SECONDS:
            silent = now - max(self._moved, oldest)
            if self._silence is not None and now < self._silence[0] + AFTER_SILENCE_SECONDS:
                return (
                    f"a quota of Kafka holds this node back: {self._silence[1]:.1f} s of silence asked for; "
                    "give it a higher producer_byte_rate"
                )
            if silent >= HELD_SECONDS and self.waiting_for is None:
                return self.unreachable() or f"Kafka at {self._servers} has not answered for {int(silent)} s"
        if self._down:
            return self.unreachable()
        return self.waiting_for or self.failed

    def unreachable(self) -> str | None:
        """The last error, if it is fresh."""
        if self._error is None or self._now() - self._error[0] > FRESH_SECONDS:
            return None
        return f"Kafka at {self._servers} cannot be reached: {words_of(self._error[1])}"
