"""``iot-mqtt backup``: all that a node, or the grid of a cluster, keeps, in a file; and such a file back again."""
