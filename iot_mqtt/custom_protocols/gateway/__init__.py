"""The gateway protocol, version 1: many devices behind one gateway. Specified in ``docs/gateway-protocol.md``."""

from iot_mqtt.custom_protocols.gateway.codec import GatewayCodec

__all__ = ["GatewayCodec"]
