"""The pure-Python twin of the part of ``_scan.pyx`` that reads user properties, which a packet may have any number of.

::

    | 26 | name | value | 26 | name | value | …      strings behind two bytes of length
"""

from __future__ import annotations

_USER_PROPERTY = 0x26


def pairs(raw: bytes, at: int) -> tuple[int, int]:
    """(where the run of user properties at ``at`` ends, how many they are): in front of what is none, or wrong."""
    count, end = 0, len(raw)
    while end - at >= 5 and raw[at] == _USER_PROPERTY:
        name = at + 3 + (raw[at + 1] << 8 | raw[at + 2])
        if name + 2 > end:
            break
        value = name + 2 + (raw[name] << 8 | raw[name + 1])
        if value > end:
            break
        try:
            if "\0" in raw[at + 3 : name].decode() or "\0" in raw[name + 2 : value].decode():
                break
        except UnicodeDecodeError:
            break
        at = value
        count += 1
    return at, count


def values(run: bytes, name: bytes) -> list[str]:
    """The values that a run of user properties, which ``pairs`` took, has under a name."""
    found = []
    at = 0
    while at < len(run):
        start = at + 3 + (run[at + 1] << 8 | run[at + 2])
        stop = start + 2 + (run[start] << 8 | run[start + 1])
        if run[at + 3 : start] == name:
            found.append(run[start + 2 : stop].decode())
        at = stop
    return found
