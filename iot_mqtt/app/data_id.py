"""What a data directory is known by: a text in its file ``ID``, made at the first start, and which file that is.

So a copy of a directory, on this machine or another, is another directory.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from iot_mqtt.whole_files import new_file

FILE: Final = "ID"
_BYTES: Final = 16


def data_id(folder: Path) -> str:
    """Of this directory, which whoever calls holds (``data_lock``). A file that was emptied or spoilt is made again."""
    path = folder / FILE
    try:
        found = path.read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        found = ""
    if len(found) != 2 * _BYTES:
        found = secrets.token_hex(_BYTES)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with new_file(path) as file:
            file.write(f"{found}\n".encode())
    return f"{found}-{path.stat().st_ino}"
