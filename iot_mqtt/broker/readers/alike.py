"""Which messages of the log a session can take in one go, because nothing has to be decided one by one.

What a session finds when its client is back is mostly alike: QoS 1, of one subscription, without properties, each run
in a page of its own. Such runs are taken, noted, numbered and sent together (``sending.together``). What is different
(several subscriptions, QoS 2, retained, expiring, a repetition, a command, more than the window takes) goes run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeAlias

from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.ports.log import LogRun
from iot_mqtt.values import Subscription

#: (subscription, since, until): subscriptions that match a topic, with the part of the log that they claim.
Claims: TypeAlias = list[tuple[Subscription, int, int | None]]

#: The first byte of what is taken together, and of its repetition.
_ALIKE = (0x32, 0x3A)


def alike(
    runs: Sequence[LogRun], start: int, claims_on: Callable[[bytes], Claims], room: int
) -> tuple[int, Subscription | None]:
    """How many runs from the one at ``start`` on can be taken together, and the one subscription that they are for."""
    wanted: Subscription | None = None
    for number, found in enumerate(islice(runs, start, None)):
        run, (_, _, position, length) = found.run, found.reference
        room -= length
        if room < 0 or run.head not in _ALIKE or run.raw_properties or run.topic.startswith(DOWN):
            return number, wanted
        claims = claims_on(run.topic)
        if len(claims) != 1:
            return number, wanted
        subscription, since, until = claims[0]
        if position < since or until is not None:
            return number, wanted
        if subscription is not wanted:
            if wanted is not None or not subscription.qos or subscription.no_local:
                return number, wanted
            wanted = subscription
    return len(runs) - start, wanted
