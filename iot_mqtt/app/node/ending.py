"""The end of a process that must not go on: as ``kill -9`` ends it, but for a line in the log. Whoever watches over it
(systemd, Kubernetes) is told by the exit code.
"""

from __future__ import annotations

import logging
import os
from typing import Final, NoReturn

log = logging.getLogger(__name__)

#: Another start helps.
AGAIN: Final = os.EX_SOFTWARE
#: Another start does not help, and may begin with nothing, before somebody has put the directory back.
NOT_AGAIN: Final = os.EX_IOERR


def end_at_once(error: BaseException) -> NoReturn:
    """What this process holds and what it has written may differ: nothing more of it may reach the grid or a client."""
    _end(AGAIN, "a commit could not be made", error)


def end_without_directory(why: str) -> NoReturn:
    """What it wrote would be lost, or spoil what is there now: RocksDB writes by path, also when it is closed."""
    _end(NOT_AGAIN, why)


def _end(code: int, why: str, error: BaseException | None = None) -> NoReturn:
    try:
        log.critical("this node ends at once: %s", why, exc_info=error)
        logging.shutdown()
    finally:
        os._exit(code)
