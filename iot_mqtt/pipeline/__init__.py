"""Netty's vocabulary on Twisted: channels, pipelines of stages, and what stands between a socket and a protocol."""

from iot_mqtt.pipeline.channel import Channel, ChannelSettings, InputClosed
from iot_mqtt.pipeline.clock import ManualClock, ReactorClock
from iot_mqtt.pipeline.debts import Debts
from iot_mqtt.pipeline.descriptors import Descriptors, Share
from iot_mqtt.pipeline.doorman import Doorman
from iot_mqtt.pipeline.frames import FrameRefused, FramesStage
from iot_mqtt.pipeline.half_open import HalfOpen, HalfOpenLimits
from iot_mqtt.pipeline.idle import IdleEvent, IdleStage, IdleWatch
from iot_mqtt.pipeline.layout import Layout, StageFactory
from iot_mqtt.pipeline.listener import Listening, listen
from iot_mqtt.pipeline.login_budget import LoginBudget, LoginLimit
from iot_mqtt.pipeline.mqtt import MqttCodecs, MqttCodecStage
from iot_mqtt.pipeline.pipeline import Pipeline
from iot_mqtt.pipeline.ports import CalmPort
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.settings import ListenerSettings, OutboxSettings, TlsSettings, WebSocketSettings
from iot_mqtt.pipeline.stage import Batch, Context, Stage
from iot_mqtt.pipeline.timeouts import ConnectTimeouts
from iot_mqtt.pipeline.tls import TlsEstablished
from iot_mqtt.pipeline.tls_context import TlsConfigurationError, TlsContext
from iot_mqtt.pipeline.unfinished import Unfinished
from iot_mqtt.pipeline.visitors import AddressLimits, Visitors
from iot_mqtt.pipeline.wheel import Timeout, TimingWheel

__all__ = [
    "AddressLimits",
    "Batch",
    "CalmPort",
    "Channel",
    "ChannelSettings",
    "CloseReason",
    "ConnectTimeouts",
    "Context",
    "Debts",
    "Descriptors",
    "Doorman",
    "FrameRefused",
    "FramesStage",
    "HalfOpen",
    "HalfOpenLimits",
    "IdleEvent",
    "IdleStage",
    "IdleWatch",
    "InputClosed",
    "Layout",
    "Listening",
    "ListenerSettings",
    "ManualClock",
    "LoginBudget",
    "LoginLimit",
    "MqttCodecStage",
    "MqttCodecs",
    "OutboxSettings",
    "Pipeline",
    "ReactorClock",
    "Share",
    "Stage",
    "StageFactory",
    "Timeout",
    "TimingWheel",
    "TlsConfigurationError",
    "TlsContext",
    "TlsEstablished",
    "TlsSettings",
    "Unfinished",
    "Visitors",
    "WebSocketSettings",
    "listen",
]
