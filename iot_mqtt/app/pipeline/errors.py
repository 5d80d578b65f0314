"""What keeps a command of ``iot-mqtt pipeline`` from doing what it was asked for."""

from __future__ import annotations


class PipelineError(Exception):
    """What is missing or wrong, and what to do about it."""
