"""The library: making its clients, and what it says on its own, kept until somebody looks.

This package is the only one that knows ``confluent_kafka``. Everything here is called in the sink's thread; callbacks
come out of ``poll`` and so run there, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from iot_mqtt.uplink.kafka.settings import KafkaSettings, producing, properties, text_of
from iot_mqtt.uplink.kafka.watch import Watch

log = logging.getLogger(__name__)


class _Lines:
    """The library's own log lines: what matters of them comes as errors, too, so they are for those who search."""

    def log(self, level: int, text: str, *values: object) -> None:
        log.debug(text, *values)


LINES = _Lines()


def make_producer(settings: KafkaSettings, watch: Watch, *, gapless: bool, batch_bytes: int) -> Producer:
    """A producer; it connects in the background. ``KafkaException``: it was told something impossible."""
    told: dict[str, object] = {
        **producing(settings),
        # The first record that is rejected ends it all, or those behind it would be there before it.
        "enable.gapless.guarantee": text_of(gapless),
        "batch.size": str(batch_bytes),
        # See ``Report``.
        "delivery.report.only.error": True,
        "error_cb": watch.error,
        "throttle_cb": lambda event: watch.throttled(event.throttle_time),
    }
    return Producer(told, logger=LINES)


def make_admin(settings: KafkaSettings) -> AdminClient:
    """A client that asks about topics and makes them."""
    return AdminClient({**properties(settings), "log_level": "0"}, logger=LINES)


def error_of(exception: KafkaException) -> KafkaError:
    """What an exception of the library is about."""
    error: KafkaError = exception.args[0]
    return error


def let_go(producer: Producer) -> None:
    """Forget what is under way."""
    try:
        producer.purge(blocking=False)
        producer.poll(0)
    except KafkaException as error:
        # It has failed for good, which is why it is let go.
        log.debug("at the end of a producer: %s", error)


class Report:
    """Stands for something that is under way, and hears of what becomes of it.

    A delivery report costs a message object and a call for each record, so the library is asked for those of failures
    only. That it is done with a record shows by its letting go of the callback: the last reference that goes takes the
    report with it.
    """

    __slots__ = ("_failed", "_over")

    def __init__(self, failed: Callable[[KafkaError, Message], None], over: Callable[[], None]) -> None:
        self._failed = failed
        self._over = over

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(error, message)

    def __del__(self) -> None:
        self._over()
