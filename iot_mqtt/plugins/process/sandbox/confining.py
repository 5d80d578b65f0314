"""The steps in their order: limits, a user and a network of nobody's, files, system calls.

Each step is for good, and each is tried: what this host does not have is told, and whoever started the worker decides
whether that is too little.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from iot_mqtt.plugins.process.sandbox import landlock, seccomp
from iot_mqtt.plugins.process.sandbox.system import PR_SET_PDEATHSIG, prctl, syscall, unshare

#: What ``confine`` speaks of: no rights and no network, no files, no system calls but those that codecs need.
STEPS = ("user", "files", "calls")
#: As inside of the namespace; outside it stays who it is.
_NOBODY = 65534
_NEW_USER, _NEW_NET, _NEW_IPC, _NEW_UTS = 0x10000000, 0x40000000, 0x08000000, 0x04000000
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522
#: Where shared libraries, time zones and what libraries ask of a machine are.
_OF_THE_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime",
    "/usr/share/zoneinfo", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/proc/cpuinfo", "/proc/meminfo",
    "/sys/devices/system/cpu",
)  # fmt: skip


def limit(limits: Mapping[str, int | float]) -> None:
    """Bounds of memory, descriptors, file size and processors; no core file, which would have what the worker knows."""
    for what, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, int(limits["open_files"])),
        (resource.RLIMIT_AS, int(limits["memory"])),
        (resource.RLIMIT_FSIZE, int(limits["file_size"])),
    ):
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))
    if sys.platform == "linux":
        processors = sorted(os.sched_getaffinity(0))
        # One of them, another for each worker: however many threads it has, the rest are the broker's.
        os.sched_setaffinity(0, {processors[os.getpid() % len(processors)]})


def follow(parent: int) -> None:
    """End when the broker does, however it ends."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit("whoever started this is gone")


def confine(readable: Iterable[str], parent: int) -> dict[str, str]:
    """Give up all that a codec does not need. Answers with what this host can't enforce, and why."""
    if sys.platform != "linux":
        return dict.fromkeys(STEPS, f"{sys.platform} has no way to")
    missing = {}
    for name, step in (
        ("user", _become_nobody),
        ("files", partial(landlock.restrict, [*_OF_THE_SYSTEM, *readable])),
        ("calls", seccomp.restrict),
    ):
        try:
            step()
        except OSError as error:
            missing[name] = f"{error.strerror or error}".lower()
        if name == "user":
            follow(parent)  # the kernel forgets it when somebody becomes somebody else
    return missing


def readable_by(path: Iterable[str], packages: Iterable[str], folder: str | None, *, besides: str) -> list[str]:
    """What a worker has to read to run: Python's own folders and the plugin's.

    ``besides`` is where the broker was started, and no folder for a plugin, though Python may look for modules there.
    """
    own = [] if folder is None else [folder]
    kept = [
        entry
        for entry in path
        if Path(entry).is_absolute() and Path(entry) not in (Path(besides), Path.home(), Path("/"))
        # A folder with all that a node has: its data directory lies below it.
        and not (folder is not None and Path(folder).is_relative_to(entry))
    ]  # fmt: skip
    return [*kept, *packages, *own]


def homes_of(tops: Iterable[str]) -> list[str]:
    """Where modules lie that are not in a folder of their own: installed beside us, or from a project's directory."""
    homes = []
    for top in tops:
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            continue  # the import says why
        if spec is not None:
            homes += list(spec.submodule_search_locations or [spec.origin or ""])
    return [home for home in homes if Path(home).is_absolute()]


def _become_nobody() -> None:
    """A user namespace without rights, with a network that has no devices: nothing is nearer than nowhere."""
    user, group = os.geteuid(), os.getegid()
    unshare(_NEW_USER | _NEW_NET | _NEW_IPC | _NEW_UTS)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{_NOBODY} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{_NOBODY} {group} 1", encoding="ascii")
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    syscall(_CAPSET.get(platform.machine(), -1), header, ctypes.create_string_buffer(24))
