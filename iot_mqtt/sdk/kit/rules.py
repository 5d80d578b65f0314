"""What a codec may return, as faults of the codec: the broker's own rules, and what only the kit looks at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from iot_mqtt.sdk import checking
from iot_mqtt.sdk.checking import Checker, Garbage
from iot_mqtt.sdk.event_json import values_of
from iot_mqtt.sdk.events import Event, Readings
from iot_mqtt.sdk.schema import Schema

#: Reasons become labels of a metric.
_REASON = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Fault(Exception):
    """The codec did what it must not; the text says what."""


class Stalled(BaseException):
    """Raised by a signal inside the codec, so nothing that catches ``Exception`` may keep it."""


#: What is raised inside the codec, but not by it.
NOT_ITS_OWN = (Fault, Stalled, KeyboardInterrupt)


@contextmanager
def _faults(of: str = "") -> Iterator[None]:
    try:
        yield
    except Garbage as error:
        raise Fault(f"{error}{of}") from None


def check_event(event: object) -> None:
    """Raises ``Fault``."""
    with _faults():
        Checker().check([event])


def check_reason(reason: object) -> None:
    """Of a ``BadFrame``. Raises ``Fault``."""
    if not isinstance(reason, str) or not _REASON.fullmatch(reason):
        raise Fault(
            f"BadFrame({reason!r}): a reason is a word such as 'checksum', in lower case and always the same; what is "
            "special about this frame belongs into its detail"
        )


def check_bytes(data: object, what: str) -> bytes:
    """What ``welcome`` and the like returned. Raises ``Fault``."""
    with _faults():
        return checking.check_bytes(data, what)


def check_encoded(data: object) -> bytes:
    """What ``encode`` returned. Raises ``Fault``."""
    with _faults():
        return checking.check_encoded(data)


def check_schema(event: Event, schema: Schema) -> None:
    """Whether readings are of the types that the schema says, also those given as JSON, which the broker leaves alone.
    Raises ``Fault``.
    """
    if isinstance(event, Readings):
        with _faults(f" (device {event.device!r})"):
            Checker(schema).check_values(values_of(event))
