"""Which messages of the log a session can take in one go, because nothing has to be decided one by one.

What a session finds when its client is back is mostly alike: QoS 1, of one subscription, without properties, each run
in a page of its own. Such runs are taken, noted, numbered and sent together (``sending.together``). What is different
(several subscriptions, QoS 2, retained, expiring, a repetition, a command, more than the window takes) goes run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.ports.log import LogRun, survey
from iot_mqtt.values import Subscription

#: (subscription, since, until): subscriptions that match a topic, with the part of the log that they claim.
Claims: TypeAlias = list[tuple[Subscription, int, int | None]]

#: Of a row, at once; it is written in parts.
_ANY_SIZE = 1 << 40


def alike(
    runs: Sequence[LogRun], start: int, claims_on: Callable[[bytes], Claims], room: int
) -> tuple[int, Subscription | None]:
    """How many runs from the one at ``start`` on can be taken together, and the one subscription that they are for."""
    wanted: Subscription | None = None
    stop, _, _, topics = survey(runs, start, len(runs), room, _ANY_SIZE)
    for topic, first in topics.items():
        subscription = None if topic.startswith(DOWN) else _claimed(claims_on(topic), runs[first].reference[2])
        if subscription is None or (wanted is not None and subscription is not wanted):
            return first - start, wanted
        wanted = subscription
    return stop - start, wanted


def _claimed(claims: Claims, position: int) -> Subscription | None:
    """The one subscription that messages of a topic are for from a position on, if nothing else is to be decided."""
    if len(claims) != 1:
        return None
    subscription, since, until = claims[0]
    plain = position >= since and until is None and subscription.qos and not subscription.no_local
    return subscription if plain else None
