"""Modbus as gateways and serial servers post it, and register writes down to them. See ``docs/modbus.md``."""

from iot_mqtt.custom_protocols.modbus.codec import ModbusRtu, ModbusTcp

__all__ = ["ModbusRtu", "ModbusTcp"]
