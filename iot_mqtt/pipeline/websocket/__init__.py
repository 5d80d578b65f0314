"""MQTT over WebSocket: RFC 6455, server side, sans-IO underneath."""

from iot_mqtt.pipeline.websocket.stage import WebSocketEstablished, WebSocketStage

__all__ = ["WebSocketEstablished", "WebSocketStage"]
