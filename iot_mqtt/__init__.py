"""iot-mqtt: a clustered IoT message broker on an in-memory data grid."""

__version__ = "0.1.0"

from iot_mqtt import compiled

compiled.install()
