"""Landlock: no file but those named, no TCP, and no signal or abstract socket beyond one's own processes.

Each kernel enforces what it knows; ``restrict`` says how far this one goes. The numbers are those of
``linux/landlock.h``.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from iot_mqtt.plugins.process.sandbox.system import PR_SET_NO_NEW_PRIVS, prctl, syscall

#: The same on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_RULE_PATH = 1

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
#: Rights over files by the version that brought the last of them: 13 at first, then refer, truncate, ioctl.
_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_BIND_AND_CONNECT = 0b11
_SIGNALS_AND_ABSTRACT_SOCKETS = 0b11
#: Versions that TCP and signals came with.
_TCP, _SIGNALS = 4, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Path(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def restrict(readable: Iterable[str]) -> int:
    """Let this process read these files and what is below these folders, and write nothing at all, for good.

    Answers with the version of the rules that hold. ``OSError`` where the kernel has none.
    """
    version = syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    handled = _FILES[max(known for known in _FILES if known <= version)]
    rules = _Ruleset(
        handled,
        _BIND_AND_CONNECT if version >= _TCP else 0,
        _SIGNALS_AND_ABSTRACT_SOCKETS if version >= _SIGNALS else 0,
    )
    # An older kernel knows a shorter structure, and takes a longer one if the rest of it is zero.
    ruleset = syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), ctypes.c_uint32(0))
    try:
        for path in readable:
            _allow(ruleset, path)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what is not there need not be read
        return
    try:
        allowed = _READ_FILE | (_READ_DIR if Path(path).is_dir() else 0)
        rule = _Path(allowed, descriptor)
        syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
