"""What one client may use up: the keys of ``mqtt``, and in their place whatever is said of its identity.

Most clients share one allowance, the usual one; asking it costs no more than asking the settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.ports.limits import NO_LIMITS, Limits, Said


@dataclass(frozen=True, slots=True)
class Allowance:
    """Of one client, or of all of whom nothing is said."""

    #: Longest, in seconds.
    session_expiry: int
    queue_messages: int
    queue_bytes: int
    #: QoS 1 and 2 messages under way to the client, and from it.
    max_inflight: int
    receive_maximum: int
    subscriptions: int
    #: A consumer that is to get everything.
    application: bool
    #: What was said: rates, and what is counted over all clients of the user.
    limits: Limits = NO_LIMITS


def allowance_of(settings: MqttSettings, limits: Limits | None = None) -> Allowance:
    """What somebody may of whom this is said."""
    said = limits or NO_LIMITS
    application = said.client_class == "application"
    usual = settings.application if application else settings
    return Allowance(
        session_expiry=_either(said.session_expiry, settings.session_expiry_interval),
        queue_messages=_either(said.queue_messages, usual.max_queued_messages),
        queue_bytes=_either(said.queue_bytes, usual.max_queued_bytes),
        max_inflight=_either(said.inflight, usual.max_inflight),
        receive_maximum=_either(said.inflight, usual.receive_maximum),
        subscriptions=_either(said.subscriptions, settings.max_subscriptions_per_client),
        application=application,
        limits=said,
    )


def usual_limits(settings: MqttSettings, application: bool) -> list[Said]:
    """What holds where nothing is said of a client, and which key says it."""
    part = "mqtt.application" if application else "mqtt"
    usual: Any = settings.application if application else settings
    return [
        Said("session_expiry", settings.session_expiry_interval, "mqtt.session_expiry_interval"),
        Said("queue_messages", usual.max_queued_messages, f"{part}.max_queued_messages"),
        Said("queue_bytes", usual.max_queued_bytes, f"{part}.max_queued_bytes"),
        Said("inflight", min(usual.max_inflight, usual.receive_maximum), f"{part}.max_inflight, receive_maximum"),
        Said("subscriptions", settings.max_subscriptions_per_client, "mqtt.max_subscriptions_per_client"),
        Said("class", "application" if application else "device", "the usual one"),
    ]


def _either(said: int | None, usual: int) -> int:
    return usual if said is None else said
