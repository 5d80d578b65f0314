"""An MQTT client for people and scripts: ``iot-mqtt pub``, ``iot-mqtt sub``, and what a load test is made of."""
