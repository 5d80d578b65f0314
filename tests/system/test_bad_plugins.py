"""Plugins that loop, allocate, exit, crash, sleep or write garbage, each in a real worker beside a good one.

Each is in quarantine within ten seconds, and its neighbour's frames are decoded all the while.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.plugins.running import NotAvailable
from tests.reactor import run, turn, until
from tests.unit.plugins.plugkit import PLAIN, FakeSink, House, house, settings, vendors, write_plugin

#: What it does with a frame, and what its connections are told.
BAD = {
    "infinite loop": ("while True: pass", "timeout"),
    "2 GB": ("self.hoard = bytearray(2 << 30)", "died"),
    "many small objects": ("self.hoard = [bytearray(4096) for n in range(10 ** 9)]", "died or timeout"),
    "os._exit": ("import os; os._exit(0)", "died"),
    "segfault": ("import ctypes; ctypes.string_at(8)", "died"),
    "10 s sleep": ("import time; time.sleep(10)", "timeout"),
    "garbage on the socket": ("import os; os.write(3, b'\\x00\\x00\\x00\\x05hello')", "garbage"),
    "a huge length on the socket": ("import os; os.write(3, b'\\xff\\xff\\xff\\xff')", "garbage"),
    "somebody else's connection": ('import os; os.write(3, b\'\\x00\\x00\\x00\\x12[0,[[99,"send",""]]]\')', "garbage"),
    "closes the socket": ("import os; os.close(3); import time; time.sleep(10)", "died"),
    "kills itself": ("import os; os.kill(os.getpid(), 9)", "died"),
}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[House]:
    """A node's plugins without the node."""
    with house(tmp_path) as one:
        yield one


class Neighbour:
    """A good plugin whose gateway goes on sending."""

    def __init__(self, here: House) -> None:
        self._here = here
        self.opened, self.sink = here.connect("good")
        self.sent = 0

    def send(self) -> None:
        self.opened.runner.decode([b"%d" % (self.sent + n) for n in range(5)])
        self.sent += 5

    def check(self) -> None:
        until(lambda: len(self.sink.readings) >= self.sent)
        frames = [dict(one.values)["frame"] for one in self.sink.readings]  # type: ignore[arg-type]
        assert frames == [str(n) for n in range(self.sent)]
        assert self.sink.failure is None


@pytest.mark.parametrize(
    "what",
    [pytest.param(what, marks=[pytest.mark.alone] * ("timeout" in failure)) for what, (_, failure) in BAD.items()],
)
def test_a_bad_plugin_is_quarantined_and_harms_nobody(here: House, what: str) -> None:
    """Within ten seconds of its first bad frame, although its gateway comes back again and again."""
    deed, failure = BAD[what]
    write_plugin(here.site, "good", "1.0")
    write_plugin(
        here.site,
        "bad",
        "1.0",
        PLAIN.replace("        from {package}.lazy", f"        {deed}\n        from {{package}}.lazy"),
    )
    # Where no time-out is what it is about, a machine with other things to do brings none about.
    within = 1.0 if "timeout" in failure else 20.0
    plugins = here.start(good=settings("process", answer_within=20.0), bad=settings("process", answer_within=within))
    states = {info.name: info.state for info in vendors(plugins)}
    assert states == {"good": "ready", "bad": "ready"}
    neighbour = Neighbour(here)
    failures: list[tuple[object, ...]] = []
    pids: set[int] = set()
    begun = time.monotonic()
    while vendors(plugins)[0].state != "quarantined":
        assert time.monotonic() - begun < 30, vendors(plugins)[0]
        try:
            # What one address shows is held against that address.
            opened, sink = here.connect("bad", f"10.0.1.{len(failures) + 1}:4000")
        except NotAvailable:
            neighbour.send()
            turn()
            continue
        pids.add(vendors(plugins)[0].pid or 0)
        opened.runner.decode([b"x"])
        while sink.failure is None:
            neighbour.send()
            turn()
            assert time.monotonic() - begun < 30
        failures.append(sink.failure)
    print(f"{what}: quarantined after {time.monotonic() - begun:.1f} s")
    assert set(failures) <= {("codec_failed", kind) for kind in failure.split(" or ")}
    assert len(failures) == 3
    with pytest.raises(NotAvailable, match="in quarantine"):
        plugins.open("bad", "p:1", FakeSink())
    neighbour.check()
    until(lambda: not any(_runs(pid) for pid in pids))


@pytest.mark.parametrize(
    "deed",
    [
        "yield from [Send(b'x' * 10**6) for _ in range(200)]",
        "yield from [Readings('d%d' % n, {{'t%d' % k: 'y' * 60000 for k in range(15)}}) for n in range(60)]",
    ],
    ids=["sends", "readings"],
)
def test_a_frame_that_gives_too_much_is_the_fault_of_its_gateway_alone(here: House, deed: str) -> None:
    """Its connection is closed for it; after five times it is held off, and the plugin works on for all others."""
    deed = f"if frame == b'x': {deed}"
    source = PLAIN.replace("        from {package}.lazy", f"        {deed}\n        from {{package}}.lazy")
    write_plugin(here.site, "bad", "1.0", source)
    # A machine with other things to do makes nothing late.
    plugins = here.start(bad=settings("process", answer_within=20.0, stall=20.0))
    neighbour, heard = here.connect("bad", "10.0.0.2:1")
    assert [_failure(here, b"x") for _ in range(5)] == [("codec_failed", "garbage")] * 5
    (info,) = (one for one in vendors(plugins) if one.name == "bad")
    assert info.state == "ready" and info.restarts == 0
    assert [(held.kind, held.name) for held in info.held_off] == [("device", "g10.0.0.1")]
    neighbour.runner.decode([b"1"])
    until(lambda: len(heard.readings) == 1)


@pytest.mark.parametrize(
    "deed",
    ["import os; os._exit(1)", "import ctypes; ctypes.string_at(8)", "while True: pass"],
    ids=lambda deed: deed[:18],
)
def test_a_plugin_that_is_bad_at_import_stops_no_start(here: House, deed: str) -> None:
    """The start takes no longer than the plugin may take to start."""
    write_plugin(here.site, "good", "1.0")
    write_plugin(here.site, "bad", "1.0", deed + "\n" + PLAIN)
    plugins = here.start(good=settings("process"), bad=settings("process", start_within=1.5))
    assert vendors(plugins)[1].state == "ready"
    neighbour = Neighbour(here)
    neighbour.send()
    until(lambda: vendors(plugins)[0].state == "quarantined", 10)
    neighbour.check()


def test_a_reload_of_a_better_version_ends_the_quarantine(here: House) -> None:
    """Nobody has to wait for it to pass."""
    write_plugin(
        here.site,
        "bad",
        "1.0",
        PLAIN.replace("        from {package}.lazy", "        import os; os._exit(1)\n        from {package}.lazy"),
    )
    plugins = here.start(bad=settings("process", grave_faults=1))
    opened, sink = here.connect("bad")
    opened.runner.decode([b"x"])
    until(lambda: vendors(plugins)[0].state == "quarantined")
    assert sink.failure == ("codec_failed", "died")
    assert vendors(plugins)[0].faults == {"died": 1}
    write_plugin(here.site, "bad", "2.0")
    assert run(plugins.reload("bad")).state == "ready"
    opened, sink = here.connect("bad")
    opened.runner.decode([b"x"])
    until(lambda: bool(sink.readings))


@pytest.mark.alone
def test_a_quarantine_passes(here: House) -> None:
    """The worker is started again by itself then."""
    write_plugin(
        here.site,
        "bad",
        "1.0",
        PLAIN.replace(
            "        from {package}.lazy",
            "        if frame == b'x': import os; os._exit(1)\n        from {package}.lazy",
        ),
    )
    plugins = here.start(bad=settings("process", grave_faults=1, quarantine=0.3))
    opened, _ = here.connect("bad")
    opened.runner.decode([b"x"])
    until(lambda: vendors(plugins)[0].state == "quarantined")
    until(lambda: vendors(plugins)[0].state == "ready")
    opened, sink = here.connect("bad", "10.0.0.2:4000")
    opened.runner.decode([b"y"])
    until(lambda: bool(sink.readings))
    assert vendors(plugins)[0].restarts == 1


def test_a_slow_worker_makes_the_connection_wait_and_nothing_is_lost(here: House) -> None:
    """What it has not answered for is bounded; then there is room again."""
    source = PLAIN.replace(
        "        from {package}.lazy", "        import time; time.sleep(0.005)\n        from {package}.lazy"
    )
    write_plugin(here.site, "slow", "1.0", source)
    here.start(slow=settings("process", connection_bytes=2000))
    opened, sink = here.connect("slow")
    sent = 0
    for readies in range(1, 6):
        while opened.runner.decode([b"%010d" % (sent + n) for n in range(10)]):
            sent += 10
        sent += 10
        assert 2000 < opened.runner.in_flight <= 2100  # type: ignore[attr-defined]
        until(lambda: sink.readies >= readies)  # noqa: B023 - called at once
        assert opened.runner.in_flight <= 1000  # type: ignore[attr-defined]
    until(lambda: len(sink.readings) == sent)
    assert [int(dict(one.values)["frame"]) for one in sink.readings] == list(range(sent))  # type: ignore[arg-type]


def test_workers_end_with_the_broker_whatever_they_do(here: House) -> None:
    """Even in the midst of a loop: the kernel sees to it. Here the parent goes on, so it is told by its socket."""
    write_plugin(here.site, "good", "1.0")
    plugins = here.start(good=settings("process"))
    pid = vendors(plugins)[0].pid
    assert pid is not None and _runs(pid)
    plugins.stop()
    until(lambda: not _runs(pid))


def test_reloads_under_load_lose_nothing_and_decode_nothing_twice(here: House) -> None:
    """Each version is a process of its own, which ends with its last connection."""
    write_plugin(here.site, "acme", "1.0")
    plugins = here.start(acme=settings("process"))
    write_plugin(here.site, "acme", "2.0")
    run(plugins.reload("acme"))
    pids, sinks, sent = set(), [], 0
    for _ in range(10):
        opened, sink = here.connect("acme")
        sinks.append(sink)
        pids.add(vendors(plugins)[0].pid or 0)
        reloaded: list[object] = []
        _start(plugins.rollback("acme"), reloaded)
        while not reloaded:
            opened.runner.decode([b"%d" % (sent + n) for n in range(10)])
            sent += 10
            turn()
        opened.runner.decode([b"%d" % sent])
        sent += 1
        until(lambda: sum(len(one.readings) for one in sinks) == sent)  # noqa: B023 - called at once
        opened.runner.close()
    frames = sorted(int(dict(one.values)["frame"]) for sink in sinks for one in sink.readings)  # type: ignore[arg-type]
    assert frames == list(range(sent))
    until(lambda: not any(_runs(pid) for pid in pids))


def _start(coroutine: object, results: list[object]) -> None:
    Deferred.fromCoroutine(coroutine).addBoth(results.append)  # type: ignore[arg-type]


def _failure(here: House, frame: bytes) -> tuple[object, ...] | None:
    """What becomes of a connection that sends this."""
    opened, sink = here.connect("bad", "10.0.0.1:1")
    opened.runner.decode([frame])
    until(lambda: sink.failure is not None)
    return sink.failure


def _runs(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_kernel_ends_a_worker_whose_broker_was_killed(here: House, tmp_path: Path) -> None:
    """A looping codec reads no socket; it must not loop for ever."""
    write_plugin(
        here.site,
        "bad",
        "1.0",
        PLAIN.replace("        from {package}.lazy", "        while True: pass\n        from {package}.lazy"),
    )
    script = textwrap.dedent(
        f"""
        import sys; sys.path[:0] = [{str(here.site)!r}, {os.getcwd()!r}]
        from pathlib import Path
        import pytest_twisted; pytest_twisted.init_default_reactor()
        from tests.reactor import turn
        from tests.unit.plugins.plugkit import House, settings, vendors
        here = House(Path({str(tmp_path)!r}))
        plugins = here.start(bad=settings("process", answer_within=600.0))
        here.connect("bad")[0].runner.decode([b"x"])
        for _ in range(20): turn()
        print(vendors(plugins)[0].pid, flush=True)
        sys.stdin.read()
        """
    )
    broker = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert broker.stdout is not None
        worker = int(broker.stdout.readline())
        assert _runs(worker)
    finally:
        broker.send_signal(signal.SIGKILL)
        broker.communicate()
    until(lambda: not _runs(worker), 5)
