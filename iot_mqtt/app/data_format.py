"""The format of the data directory as a whole: a number in its file ``VERSION``, looked at before anything else is.

::

    VERSION     {"format": 1, "written_by": "0.1.0"}

The same number: go. An older one: the steps in between, one after the other, each noted when it is done, so that a
process that is killed goes on with the same step. A newer one is refused. A directory without the file has format 1.
The grid, the copies of plugins and other parts have formats of their own, which they check themselves.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iot_mqtt import __version__
from iot_mqtt.whole_files import new_file

log = logging.getLogger(__name__)

FILE: Final = "VERSION"
FORMAT: Final = 1
#: Format → what makes the next one of it. A step may be begun again, by another process, where it was killed.
STEPS: Final[Mapping[int, Callable[[Path], None]]] = {}

_DAMAGED: Final = (
    "{} is damaged: it does not say which format the directory has; put back the file of before, or restore a backup "
    "into another directory. Without the file it counts as one of format 1"
)


class FormatRefused(Exception):
    """The directory is not for this version of the program, or cannot be read."""


@dataclass(frozen=True, slots=True)
class DataFormat:
    """What a directory says of itself."""

    format: int
    #: The version of the program that wrote it; None: one before there was the file.
    written_by: str | None


def format_of(folder: Path) -> DataFormat:
    """Raises ``FormatRefused``."""
    path = folder / FILE
    try:
        fields = json.loads(path.read_bytes())
        found = DataFormat(fields["format"], str(fields["written_by"]))
    except FileNotFoundError:
        return DataFormat(1, None)
    except OSError as error:
        raise FormatRefused(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatRefused(_DAMAGED.format(path)) from error
    if type(found.format) is not int or found.format < 1:
        raise FormatRefused(_DAMAGED.format(path))
    return found


def prepare(folder: Path, format: int = FORMAT, steps: Mapping[int, Callable[[Path], None]] = STEPS) -> None:
    """Have the directory in this format, or raise ``FormatRefused`` and leave it as it is. Whoever calls holds it."""
    found = format_of(folder)
    if found.format > format:
        raise FormatRefused(
            f"{folder} has format {found.format}, written by iot-mqtt {found.written_by}; this is {__version__}, which "
            f"knows formats up to {format}: start that version, or restore a backup into another directory"
        )
    if found == DataFormat(format, __version__):
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in range(found.format, format):
            log.warning("%s: from format %d to %d", folder, one, one + 1)
            steps[one](folder)
            _write(folder, one + 1)
        _write(folder, format)
    except OSError as error:
        raise FormatRefused(f"{folder}: {error.strerror or error}") from error


def _write(folder: Path, format: int) -> None:
    """All of it or, if this fails, what was there."""
    text = json.dumps({"format": format, "written_by": __version__})
    with new_file(folder / FILE) as file:
        file.write(f"{text}\n".encode())
