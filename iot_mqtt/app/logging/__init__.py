"""The node's log."""

from iot_mqtt.app.logging.setup import (
    configure_logging,
    log_alarms,
    make_handler,
    observe_twisted,
    reopen_log,
    set_level,
)

__all__ = ["configure_logging", "log_alarms", "make_handler", "observe_twisted", "reopen_log", "set_level"]
