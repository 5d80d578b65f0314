"""With which record each chain of an audit log begins, as far as the node itself has removed older ones.

::

    <data_dir>/audit.json    {"changes": "", "access": "9f…"}    what that record calls the previous one

It lies beside the folder of the records, so that it is there when they are not. What should be there by this file and
is not was taken by somebody else.
"""

from __future__ import annotations

import json
from pathlib import Path

from iot_mqtt.whole_files import new_file


class Beginnings:
    """Of one log. ``OSError`` or ``ValueError`` if they cannot be read."""

    def __init__(self, log: Path) -> None:
        """``log``: the folder of the records."""
        self._path = log.with_suffix(".json")
        self._known = _read(self._path)

    def of(self, chain: str) -> str | None:
        """What the first record calls the previous one, "" for the first of all; None: the chain never had a record."""
        return self._known.get(chain)

    def keep(self, chain: str, previous: str) -> None:
        """From now on the chain begins behind this one; older records may be removed then. ``OSError``."""
        known = {**self._known, chain: previous}
        with new_file(self._path) as file:
            file.write(json.dumps(known).encode() + b"\n")
        self._known = known


def _read(path: Path) -> dict[str, str]:
    try:
        return {str(chain): str(previous) for chain, previous in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} does not say where the audit log begins: move it away; without it that is what is there"
        ) from error
