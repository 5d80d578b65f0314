"""Seccomp: system calls that no codec needs fail with EPERM, whoever makes them in this process.

A filter is a program of the kernel's packet filter over the number and the arguments of a call. What is listed
here is what leads out of a process: sockets, other processes, other programs, mounts, keys, clocks, and ways past the
filter. Everything else is let through, because libraries that vendors bring need more than anybody could list.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from typing import NamedTuple

from iot_mqtt.plugins.process.sandbox.system import PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, prctl

#: By name: x86_64 and aarch64; None where there is no such call.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    # Sockets. The worker's own is open already.
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242), "socketpair": (53, 199),
    # Memory beside what its limits count.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    # Programs and processes.
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    # Who one is, and what one may take.
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setresuid": (117, 147), "setresgid": (119, 149), "setgroups": (116, 159), "capset": (126, 91),
    "setrlimit": (160, 164), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setattr": (314, 274), "ioprio_set": (251, 30), "personality": (135, 92),
    # The machine.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "quotactl": (179, 60), "acct": (163, 89),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "syslog": (103, 116), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "fanotify_init": (300, 262),
    # Ways past all this: calls made by the kernel for one, programs in the kernel, keys of whoever is logged in.
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219),
}  # fmt: skip


class _Machine(NamedTuple):
    """What differs between architectures."""

    column: int
    audit: int
    clone: int
    clone3: int
    prctl: int
    prlimit64: int
    kill: int
    tgkill: int


_MACHINES = {
    "x86_64": _Machine(0, 0xC000003E, 56, 435, 157, 302, 62, 234),
    "aarch64": _Machine(1, 0xC00000B7, 220, 435, 167, 261, 129, 131),
}

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_IF_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_FAIL = 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
#: Numbers from here on are those of another set of calls for the same machine.
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000
_PR_SET_PDEATHSIG = 1
_FILTER = 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def restrict() -> None:
    """Have the listed calls fail in this process and its threads, for good. ``OSError`` where it can't be had."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(errno.ENOSYS, f"there is no filter for {platform.machine()}")
    code = program(machine, os.getpid())
    buffer = ctypes.create_string_buffer(code, len(code))
    filled = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_SECCOMP, _FILTER, ctypes.byref(filled))


def program(machine: _Machine, pid: int) -> bytes:
    """The filter, as the kernel takes it."""
    refused = [number for numbers in _CALLS.values() if (number := numbers[machine.column]) is not None]
    return b"".join([
        _load(_ARCHITECTURE),
        _unless(_JUMP_EQUAL, machine.audit, [_return(_KILL)]),
        _load(_NUMBER),
        _if(_JUMP_AT_LEAST, _X32, [_fail(errno.ENOSYS)]),
        *(_if(_JUMP_EQUAL, number, [_fail(errno.EPERM)]) for number in refused),
        # Its flags lie in memory, where they can't be looked at: libraries take the older call then.
        _if(_JUMP_EQUAL, machine.clone3, [_fail(errno.ENOSYS)]),
        _if(_JUMP_EQUAL, machine.clone, [
            _argument(0), _if(_JUMP_IF_BITS, _CLONE_THREAD, [_return(_ALLOW)]),
            _fail(errno.EPERM),
        ]),
        *(_if(_JUMP_EQUAL, number, [_argument(0), _if(_JUMP_EQUAL, pid, [_return(_ALLOW)]), _fail(errno.EPERM)])
          for number in (machine.kill, machine.tgkill)),
        # Its limits may be read. (The third argument, of two words, is the new ones.)
        _if(_JUMP_EQUAL, machine.prlimit64, [
            _argument(2), _unless(_JUMP_EQUAL, 0, [_fail(errno.EPERM)]),
            _argument(2, high=True), _unless(_JUMP_EQUAL, 0, [_fail(errno.EPERM)]),
            _return(_ALLOW),
        ]),
        _if(_JUMP_EQUAL, machine.prctl, [
            _argument(0), _if(_JUMP_EQUAL, _PR_SET_PDEATHSIG, [_fail(errno.EPERM)]),
            _return(_ALLOW),
        ]),
        _return(_ALLOW),
    ])  # fmt: skip


def _instruction(code: int, if_so: int, if_not: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, 0, 0, offset)


def _argument(index: int, *, high: bool = False) -> bytes:
    # Both architectures have the lower word first.
    return _load(_ARGUMENTS + 8 * index + (4 if high else 0))


def _return(what: int) -> bytes:
    return _instruction(_RETURN, 0, 0, what)


def _fail(error: int) -> bytes:
    return _return(_FAIL | error)


def _if(test: int, value: int, then: Iterable[bytes]) -> bytes:
    body = b"".join(then)
    return _instruction(test, 0, len(body) // 8, value) + body


def _unless(test: int, value: int, then: Iterable[bytes]) -> bytes:
    body = b"".join(then)
    return _instruction(test, len(body) // 8, 0, value) + body
