"""Whose the files are that a node writes: its owner's, before the first of them is there.

::

    node.readable_by        owner            group
    umask                   077              027
    node.data_dir           0700             0750
      uplink, pipeline      0700             0750        what is for others: Spark as another user
      grid, plugins, …      0700             0700        sessions, messages, vendors' code: never
    log.file                0600             0640

What is there already and is wider is narrowed, and the log says so; a place below which nothing of ours lies (the
directory of the log, a ``pipeline.dir`` elsewhere) is left as it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from iot_mqtt.app.config.folders import captures_dir, copies_dir, grid_dir, pipeline_dir, plugins_dir, uplink_dir
from iot_mqtt.app.config.sections import Config

_UMASKS = {"owner": 0o077, "group": 0o027}


def set_umask(config: Config) -> None:
    """What this process and its children write is for nobody else. First of all, and in the main thread."""
    os.umask(_UMASKS[config.node.readable_by])


def narrow(config: Config) -> list[str]:
    """Make the data directory, and take from others what they may do in what is there; returns what was done."""
    data_dir = Path(config.node.data_dir)
    lines: list[str] = []
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError:
        return lines  # whoever needs it says so
    for path, mode in _places(config, data_dir):
        try:
            found = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if not found & ~mode & 0o777:
            continue
        try:
            path.chmod(found & (mode | 0o7000))
        except OSError as error:
            lines.append(f"{path} can be read by others (mode {found:04o}) and cannot be narrowed: {error.strerror}")
        else:
            lines.append(f"{path} was narrowed from mode {found:04o} to {found & mode:04o}")
    return lines


def _places(config: Config, data_dir: Path) -> Iterator[tuple[Path, int]]:
    """What is ours, and the most that it may be."""
    open_to = ~_UMASKS[config.node.readable_by]
    yield data_dir, 0o777 & open_to
    for shared in (uplink_dir(config), pipeline_dir(config)):
        if shared.is_relative_to(data_dir):
            yield shared, 0o777 & open_to
    for own in (grid_dir(config), copies_dir(config), plugins_dir(config), captures_dir(config)):
        yield own, 0o700
    if config.log.file is not None and Path(config.log.file).is_file():
        yield Path(config.log.file), 0o666 & open_to
