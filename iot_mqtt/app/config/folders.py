"""Where a node and its jobs keep what they have, as far as it is below ``node.data_dir``."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.app.config.sections import Config


def grid_dir(config: Config) -> Path:
    """The embedded grid."""
    return Path(config.node.data_dir) / "grid"


def copies_dir(config: Config) -> Path:
    """Copies of the embedded grid, while a backup is made."""
    return Path(config.node.data_dir) / "copies"


def history_file(config: Config) -> Path:
    """The node's figures of the last week."""
    return Path(config.node.data_dir) / "history.bin"


def webhooks_dir(config: Config) -> Path:
    """Events that wait for the addresses of ``events.webhooks``."""
    return Path(config.node.data_dir) / "webhooks"


def uplink_dir(config: Config) -> Path:
    """The files that ``uplink.kind: file`` writes."""
    return Path(config.node.data_dir) / "uplink"


def failover_dir(config: Config, number: int) -> Path:
    """The same, of what another node had recorded that is gone."""
    return Path(config.node.data_dir) / f"uplink-of-{number}"


def plugins_dir(config: Config) -> Path:
    """The versions of plugins that this node keeps."""
    return Path(config.node.data_dir) / "plugins"


def captures_dir(config: Config) -> Path:
    """What ``ctl capture`` recorded."""
    return Path(config.node.data_dir) / "captures"


def recorder_dir(config: Config) -> Path:
    """What the flight recorder has saved."""
    return Path(config.node.data_dir) / "recorder"


def pipeline_dir(config: Config) -> Path:
    """Tables, checkpoints and status of the jobs; elsewhere if the configuration says so."""
    return Path(config.pipeline.dir or Path(config.node.data_dir) / "pipeline")
