"""How full a disk or a grid is, in words."""

from __future__ import annotations

from typing import Final

from iot_mqtt.app.terminal import size

_LEVELS: Final = {"none": "there is room", "alarm": "ALARM", "full": "FULL: what would be stored is refused"}


def room(used: int, limit: int, level: str, free: int | None = None) -> str:
    """Bytes that are used, those that may be, and those that the file system still has."""
    if not limit and not used:
        return "not used"
    left = "" if free is None else f", {size(free)} free"
    said = _LEVELS.get(level, level)
    if not limit and free is not None:
        # Others have filled the file system; a share of nothing would say nothing.
        return f"{size(used)}{left}, all of it kept by log.disk_reserve; {said}"
    share = f" ({100 * used // limit} %)" if limit and used <= limit else ""
    return f"{size(used)} of {size(limit)}{share}{left}; {said}"
