"""A vendor's code that wants more than its frames, in a real worker: whatever it tries is refused.

Each frame names one attempt; the reading is how it ended. What the attempts are after is there: a token that this
user may read, a port that accepts, a parent with a secret in its memory.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iot_mqtt.plugins.settings import OFF, REQUIRED
from tests.reactor import until
from tests.unit.plugins.plugkit import FakeSink, House, house, info_of, settings, write_plugin

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

HOSTILE = """
import ctypes, json, os, resource, signal, socket, subprocess, sys, tempfile, threading
from pathlib import Path
from iot_mqtt.sdk import *

LIBC = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    check(LIBC.syscall(ctypes.c_long(number), *arguments))

def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def connect(kind, address):
    with socket.socket(*kind) as one:
        one.connect(address)

def threads():
    started = []
    go = threading.Event()
    try:
        while len(started) < 5000:
            one = threading.Thread(target=go.wait, daemon=True)
            one.start()
            started.append(one)
    finally:
        go.set()

def fork_bomb():
    while True:
        os.fork()

def clone_bomb():
    while True:
        call({clone}, ctypes.c_ulong(signal.SIGCHLD), None, None, None, None)

def resize(size):
    # The memory that the broker reads.
    for descriptor in range(3, 64):
        try:
            shared = os.fstat(descriptor).st_nlink == 0
        except OSError:
            continue
        if shared:
            os.ftruncate(descriptor, size)

ATTEMPTS = {{
    "token": lambda told: Path(told["token"]).read_text(),
    "list": lambda told: os.listdir(Path(told["token"]).parent),
    "passwd": lambda told: Path("/etc/passwd").read_text(),
    "write": lambda told: Path(told["token"]).with_name("mine").write_text("x"),
    "temporary": lambda told: tempfile.TemporaryFile(),
    "own file": lambda told: Path(__file__).write_text("x"),
    "remove": lambda told: Path(__file__).unlink(),
    "environment": lambda told: Path(f"/proc/{{os.getppid()}}/environ").read_bytes(),
    "memory": lambda told: open(f"/proc/{{os.getppid()}}/mem", "rb"),
    "attach": lambda told: call({ptrace}, ctypes.c_long(16), ctypes.c_long(os.getppid()), None, None),
    "api": lambda told: connect((socket.AF_INET,), ("127.0.0.1", told["port"])),
    "datagrams": lambda told: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "raw": lambda told: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "unix": lambda told: connect((socket.AF_UNIX,), told["unix"]),
    "netlink": lambda told: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "program": lambda told: subprocess.run(["/bin/true"], check=True),
    "replace": lambda told: os.execv("/bin/true", ["true"]),
    "fork bomb": lambda told: fork_bomb(),
    "clone bomb": lambda told: clone_bomb(),
    "threads": lambda told: threads(),
    "kill": lambda told: os.kill(os.getppid(), signal.SIGKILL),
    "kill all": lambda told: os.kill(-1, signal.SIGTERM),
    "limits": lambda told: resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
    "outlive": lambda told: check(LIBC.prctl(1, 0, 0, 0, 0)),
    "namespace": lambda told: check(LIBC.unshare(0x10000000)),
    "other calls": lambda told: call(0x40000000 + 41, ctypes.c_int(2), ctypes.c_int(1), ctypes.c_int(0)),
    "processors": lambda told: os.sched_setaffinity(0, range(os.cpu_count())),
    "ring": lambda told: call(425, ctypes.c_uint(8), ctypes.create_string_buffer(120)),
    "root": lambda told: os.setuid(0),
    "cut what is shared": lambda told: resize(0),
    "swell what is shared": lambda told: resize(8192),
    "memory of its own": lambda told: os.memfd_create("more"),
    "pair of sockets": lambda told: socket.socketpair(),
    "open descriptors": lambda told: [os.dup(0) for _ in range(100_000)],
}}

class Hostile(Codec):
    framing = Line()

    def opened(self):
        yield Login("g")

    def decode(self, frame):
        told = json.loads(frame)
        try:
            ATTEMPTS[told["try"]](told)
            result = "done"
        except (OSError, RuntimeError, ValueError) as error:
            result = f"{{type(error).__name__}}: {{error}}"
        yield Readings("d", {{"result": result}})
"""
_NUMBERS = {"x86_64": {"clone": 56, "ptrace": 101}, "aarch64": {"clone": 220, "ptrace": 117}}
ATTEMPTS = [
    line.strip().split('"')[1] for line in HOSTILE.splitlines() if line.startswith('    "') and "lambda told" in line
]


#: No right, no descriptor left, no such call, no thread left, and no folder in which a temporary file could be.
REFUSALS = (
    "PermissionError",
    "OSError: [Errno 24]",
    "OSError: [Errno 38]",
    "RuntimeError: can't start new thread",
    "ValueError: not allowed to raise",
    "FileNotFoundError: [Errno 2] No usable temporary directory",
)


class Scene:
    """A node's plugins with a hostile one, and what it is after."""

    def __init__(self, folder: Path, home: House) -> None:
        source = HOSTILE
        for name, number in _NUMBERS[os.uname().machine].items():
            source = source.replace(f"{{{name}}}", str(number))
        self.home = home
        self.sink: FakeSink
        self.runner: object = None
        (folder / "data").mkdir(exist_ok=True)
        self.token = folder / "data" / "admin.token"
        self.token.write_text("the-token")
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(folder / "s"))
        self.unix.listen()
        write_plugin(home.site, "hostile", "1", source, target="Hostile")

    def open(self, sandbox: str) -> None:
        self.home.start(hostile=replace(settings("process"), sandbox=sandbox))
        until(lambda: info_of(self.home.plugins, "hostile").state in ("ready", "refused"))
        assert info_of(self.home.plugins, "hostile").state == "ready", info_of(self.home.plugins, "hostile").reason
        opened, self.sink = self.home.connect("hostile")
        self.runner = opened.runner

    def attempt(self, what: str) -> str:
        """How it ended."""
        told = {
            "try": what,
            "token": str(self.token),
            "port": self.listening.getsockname()[1],
            "unix": self.unix.getsockname(),
        }
        before = len(self.sink.readings)
        self.runner.decode([json.dumps(told).encode()])  # type: ignore[attr-defined]
        until(lambda: len(self.sink.readings) > before or self.sink.failure is not None)
        assert self.sink.failure is None, self.sink.failure
        values = self.sink.readings[-1].values
        assert isinstance(values, dict)
        return str(values["result"])

    def close(self) -> None:
        self.listening.close()
        self.unix.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One worker for all attempts: it must be as able after one as before."""
    folder = tmp_path_factory.mktemp("hostile")
    with house(folder) as home:
        scene = Scene(folder, home)
        scene.open(REQUIRED)
        yield scene
        scene.close()


@pytest.mark.parametrize("what", ATTEMPTS)
def test_what_a_hostile_plugin_tries_is_refused(scene: Scene, what: str) -> None:
    """By the kernel, and the worker goes on."""
    pid = info_of(scene.home.plugins, "hostile").pid
    told = scene.attempt(what)
    assert told.startswith(REFUSALS), told
    assert info_of(scene.home.plugins, "hostile").pid == pid


def test_nothing_is_missing_here_and_the_worker_is_nobody(scene: Scene) -> None:
    """The attempts would mean nothing on a host that could not enforce it."""
    info = info_of(scene.home.plugins, "hostile")
    assert info.unconfined == {}
    status = Path(f"/proc/{info.pid}/status").read_text(encoding="ascii")
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert "CapEff:\t0000000000000000" in status


def test_the_attempts_work_without_a_sandbox(tmp_path: Path) -> None:
    """So it is the sandbox that refuses them; and a node says that there is none."""
    with house(tmp_path) as home:
        scene = Scene(tmp_path, home)
        scene.open(OFF)
        harmless = (
            "token",
            "list",
            "passwd",
            "temporary",
            "environment",
            "memory",
            "api",
            "datagrams",
            "unix",
            "program",
        )
        assert {what: scene.attempt(what) for what in harmless} == dict.fromkeys(harmless, "done")
        assert info_of(home.plugins, "hostile").unconfined == dict.fromkeys(("user", "files", "calls"), "sandbox: off")
        scene.close()
