"""The bundled codecs stand what every vendor's codec is held against."""

from __future__ import annotations

from iot_mqtt.custom_protocols.gateway import GatewayCodec
from iot_mqtt.custom_protocols.modbus import ModbusRtu, ModbusTcp
from iot_mqtt.sdk.kit import CodecTests


class TestGateway(CodecTests):
    """The gateway protocol."""

    codec = GatewayCodec


class TestModbusTcp(CodecTests):
    """Modbus with a header."""

    codec = ModbusTcp


class TestModbusRtu(CodecTests):
    """Modbus on a bare line."""

    codec = ModbusRtu
