"""What the system tests stand on: broker processes, an MQTT client of their own, certificates."""
