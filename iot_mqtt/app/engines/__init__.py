"""The servers that a cluster of brokers stands on, started from jars on the loopback interface."""

from __future__ import annotations

from iot_mqtt.app.engines.cluster import READY_SECONDS, Cluster, State, Status
from iot_mqtt.app.engines.errors import EngineError
from iot_mqtt.app.engines.places import Places
from iot_mqtt.app.engines.plan import KindName, Member, Plan

__all__ = ["READY_SECONDS", "Cluster", "EngineError", "KindName", "Member", "Places", "Plan", "State", "Status"]
