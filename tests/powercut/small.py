"""``iot-mqtt`` with small buffers: segments and memory tables end every moment. ``python small.py serve ...``."""

from __future__ import annotations

from iot_mqtt.app.cli import main
from iot_mqtt.grid import commit_log, engine_options

if __name__ == "__main__":
    for module, name, value in (
        (commit_log, "SEGMENT", 96 << 10),
        (engine_options, "WRITE_BUFFER_BYTES", 128 << 10),
    ):
        setattr(module, name, value)
    main()
