"""Calls of Linux that Python's library does not have."""

from __future__ import annotations

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38


def syscall(number: int, *arguments: object) -> int:
    """The result; ``OSError`` if there is none."""
    return _checked(_LIBC.syscall(ctypes.c_long(number), *arguments))


def prctl(option: int, second: object = 0, third: object = 0) -> None:
    """``OSError`` if it is refused."""
    _checked(_LIBC.prctl(ctypes.c_int(option), _word(second), _word(third), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def unshare(flags: int) -> None:
    """``OSError`` if it is refused."""
    _checked(_LIBC.unshare(ctypes.c_int(flags)))


def _word(value: object) -> object:
    return ctypes.c_ulong(value) if isinstance(value, int) else value


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(result)
