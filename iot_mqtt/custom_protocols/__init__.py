"""Protocols that come with the broker. They import the SDK and nothing else of it, as a vendor's do."""

from typing import Final

#: What each of them is loaded by.
BUNDLED: Final = {
    "gateway": "iot_mqtt.custom_protocols.gateway:GatewayCodec",
    "modbus": "iot_mqtt.custom_protocols.modbus:ModbusTcp",
    "modbus-rtu": "iot_mqtt.custom_protocols.modbus:ModbusRtu",
}
