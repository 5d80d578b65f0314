"""``iot-mqtt bench``: a bounded load, and what became of it."""
