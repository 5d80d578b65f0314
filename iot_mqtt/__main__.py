"""``python -m iot_mqtt`` is the ``iot-mqtt`` command."""

from iot_mqtt.app.cli import main

if __name__ == "__main__":
    main()
