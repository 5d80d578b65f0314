"""A new plugin project, complete and with tests that pass: ``iot-mqtt plugin new NAME``."""

from iot_mqtt.sdk.project.writing import BadName, Exists, write_project

__all__ = ["BadName", "Exists", "write_project"]
