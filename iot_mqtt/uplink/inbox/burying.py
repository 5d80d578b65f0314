"""Letters that nobody can deal with go to another topic, with the reason and the place that they came from as headers.

Everything is called in the consumer's thread. A letter may be buried twice, if the node dies just behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from iot_mqtt.ports.inbox import Letter
from iot_mqtt.uplink.inbox.settings import InboxSettings
from iot_mqtt.uplink.kafka.client import LINES

#: Called in the consumer's thread.
Done = Callable[[Exception | None], None]

#: Milliseconds until a letter that is not taken is given back.
GIVE_UP_MS = 10_000
#: What remains of a letter that is too large for the topic; the whole one is where it came from.
CUT = 16 * 1024
MAX_RECORD = 16 * 1024**2


class Burying:
    """Makes its producer when there is something to bury."""

    def __init__(self, settings: InboxSettings) -> None:
        self._settings = settings
        self._producer: Producer | None = None

    def bury(self, letter: Letter, reason: str, done: Done, *, cut: bool = False) -> None:
        topic = self._settings.dead_letters
        if topic is None:
            done(None)
            return

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE and not cut:
                self.bury(letter, reason, done, cut=True)
            else:
                done(None if error is None else KafkaException(f"{topic}: {error.str()}"))

        headers = _headers(letter, reason, self._settings.member)
        if cut:
            headers.append(("cut", str(CUT).encode()))
        value = letter.value[:CUT] if cut else letter.value
        try:
            self._made().produce(topic, value, letter.key, headers=headers, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            done(error)

    def serve(self) -> None:
        """Hear what became of them."""
        if self._producer is not None:
            self._producer.poll(0)

    def end(self, seconds: float) -> None:
        """Wait for what is under way."""
        if self._producer is not None:
            self._producer.flush(seconds)

    def _made(self) -> Producer:
        if self._producer is None:
            told: dict[str, object] = {
                **self._settings.connection,
                "client.id": self._settings.member,
                "acks": "all",
                "message.timeout.ms": GIVE_UP_MS,
                "message.max.bytes": MAX_RECORD,
            }
            self._producer = Producer(told, logger=LINES)
        return self._producer


def _headers(letter: Letter, reason: str, node: str) -> list[tuple[str, str | bytes | None]]:
    told = {
        "reason": reason,
        "node": node,
        "original_topic": letter.topic,
        "partition": str(letter.partition),
        "offset": str(letter.offset),
        "size": str(len(letter.value)),
    }
    return [(name, text.encode("utf-8", "replace")) for name, text in told.items()]
