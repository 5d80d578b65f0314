"""What the acknowledgement of a message waits for that goes up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.publishing.fanout import Outcome


def note_sent_up(broker: Broker, publication: Publication, outcome: Outcome) -> None:
    """A publication goes up: it has a receiver, and its acknowledgement waits for the log."""
    outcome.elsewhere = True
    if publication.logged is not None:
        outcome.ticket = broker.store.latest
        if broker.holding is not None:
            outcome.position = publication.logged.end


def position_of(broker: Broker, publication: Publication) -> int:
    """What the answer to a repeated message waits for: it may have gone up and not be safe."""
    uplink = broker.uplink
    if uplink is None or uplink.holding is None or uplink.mode(publication.topic, publication.qos) is None:
        return 0
    return uplink.end
