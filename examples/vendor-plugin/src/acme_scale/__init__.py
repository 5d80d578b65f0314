"""ACME's industrial scales, for iot-mqtt."""
