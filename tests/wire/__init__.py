"""Black-box conformance suite: bytes on a socket, against any MQTT broker at HOST:PORT."""
