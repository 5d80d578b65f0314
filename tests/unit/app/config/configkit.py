"""What is said about a configuration."""

from __future__ import annotations

from iot_mqtt.app.config import ConfigError, load_config


def refusals(*sets: str) -> list[str]:
    """Of one that is made of these; nothing if it could be served."""
    try:
        load_config(None, sets, {})
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []
