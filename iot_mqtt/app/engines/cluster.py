"""The servers of one directory: started together, watched, stopped, killed one by one and started again.

Everything that is known is in the directory: the plan (``cluster.json``), and for each server a folder with its pid
file, log, configuration and data. So any later command finds what an earlier one has started.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from iot_mqtt.app.engines import certificates, probe, snippet
from iot_mqtt.app.engines.errors import EngineError
from iot_mqtt.app.engines.kinds import KINDS, Role
from iot_mqtt.app.engines.places import Places
from iot_mqtt.app.engines.plan import BROKER, KindName, Member, Plan
from iot_mqtt.app.engines.ports import HOST, bindable
from iot_mqtt.app.engines.process import TICK, ServerProcess, wait_until

#: Seconds for all servers to be there. A loaded machine of two cores needs a fifth of it.
READY_SECONDS = 90.0
#: Seconds between SIGTERM and SIGKILL.
STOP_SECONDS = 15.0
#: Seconds for the kernel to take away a killed process.
_GONE_SECONDS = 10.0
#: Seconds for a port of a server that has just ended.
_PORT_SECONDS = 2.0
#: Seconds after which it is said that a server is there that had been started before.
_LONG_SECONDS = 0.5

State = Literal["running", "starting", "paused", "dead", "stopped"]


class Status(NamedTuple):
    """One server as it is now. ``starting`` is also what lives and does not answer, ``dead`` what should live."""

    member: Member
    state: State
    pid: int | None
    role: Role | None
    log: Path


class Cluster:
    """A directory with servers. Every method may block; ``EngineError`` says what a person can do."""

    def __init__(
        self,
        folder: Path,
        places: Places,
        *,
        die_with_parent: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.folder = folder.absolute()
        self._places = places
        self._bound = die_with_parent
        self._say = say
        self._plan: Plan | None = None
        self._processes: dict[str, ServerProcess] = {}

    # --- what there is ------------------------------------------------------------------------------------

    @property
    def broker_file(self) -> Path:
        """What a broker of this cluster is to be started with."""
        return self.folder / "broker.yaml"

    @property
    def plan(self) -> Plan:
        if (found := self.planned()) is None:
            raise EngineError(f"there is no cluster in {self.folder}: make one with `iot-mqtt cluster up`")
        return found

    def planned(self) -> Plan | None:
        """The plan, if there is one."""
        if self._plan is None:
            self._plan = Plan.read(self.folder / "cluster.json")
        return self._plan

    def running(self) -> list[Member]:
        """The members with a living process, paused ones included."""
        plan = self.planned()
        return [member for member in plan.members if self.process(member).life()] if plan else []

    def process(self, member: Member) -> ServerProcess:
        if (found := self._processes.get(member.name)) is None:
            found = ServerProcess(
                member.name, self.folder / member.name, die_with_parent=self._bound, again=KINDS[member.kind].again
            )
            self._processes[member.name] = found
        return found

    def status(self) -> list[Status]:
        return [self._status(member) for member in self.plan.members]

    def find(self, what: str) -> list[Member]:
        """The members that a word means: a name, a kind, or ``zookeeper-leader`` and other roles."""
        plan = self.plan
        if found := [member for member in plan.members if what in (member.name, member.kind)]:
            return found
        kind, _, role = what.partition("-")
        for status in self.status() if kind in KINDS and role.isalpha() else ():
            if status.member.kind == kind and status.role is not None and status.role.name == role:
                return [status.member]
        names = ", ".join(member.name for member in plan.members)
        raise EngineError(f"there is no {what} now; there are {names}, and roles such as zookeeper-leader")

    def _status(self, member: Member) -> Status:
        process = self.process(member)
        life = process.life()
        if life is None:
            return Status(member, "stopped" if process.was_stopped else "dead", None, None, process.log)
        if life.paused:
            return Status(member, "paused", life.pid, None, process.log)
        try:
            role = KINDS[member.kind].role(self.plan, member)
        except probe.NotThere:
            return Status(member, "starting", life.pid, None, process.log)
        return Status(member, "running", life.pid, role, process.log)

    # --- what is done -------------------------------------------------------------------------------------

    def up(self, plan: Plan, *, timeout: float = READY_SECONDS) -> list[Member]:
        """Start what the plan has and does not run; returns what was started, when all of it works."""
        with self._alone():
            if plan.tls is not None:
                names = [*(member.name for member in plan.members), BROKER]
                certificates.issue(Path(plan.tls), names, ("localhost", HOST))
            plan.write(self.folder / "cluster.json")
            self._plan = plan
            snippet.write(self.broker_file, plan)
            return self._start(plan.members, timeout)

    def start(self, members: Iterable[Member], *, timeout: float = READY_SECONDS) -> list[Member]:
        """Start those of the members that do not run, on the ports and data of before."""
        with self._alone():
            return self._start(tuple(members), timeout)

    def signal(self, member: Member, number: signal.Signals) -> bool:
        """Send a signal; returns when its effect is there. False if the member does not run."""
        process = self.process(member)
        if not process.signal(number):
            return False
        if number is signal.SIGKILL and not process.wait_gone(_GONE_SECONDS):
            raise EngineError(f"{member.name} is still there after SIGKILL: it hangs in the kernel")
        if number is signal.SIGTERM and not process.wait_gone(STOP_SECONDS):
            raise EngineError(f"{member.name} does not end {STOP_SECONDS:.0f} s after SIGTERM; --signal KILL ends it")
        if number is signal.SIGSTOP:
            wait_until(lambda: (life := process.life()) is None or life.paused, _GONE_SECONDS)
        return True

    def down(self, *, purge: bool = False, gently: bool = True) -> list[Member]:
        """Stop everything; with ``purge`` also remove the directory. Returns what did run."""
        if self.planned() is None:
            return []
        with self._alone():
            stopped = self.running()
            processes = [self.process(member) for member in stopped]
            if gently:
                for process in processes:
                    process.signal(signal.SIGTERM)
                    # A paused process takes its SIGTERM only after this.
                    process.signal(signal.SIGCONT)
                wait_until(lambda: not any(process.life() for process in processes), STOP_SECONDS)
            for process in processes:
                process.signal(signal.SIGKILL)
            for process in processes:
                if not process.wait_gone(_GONE_SECONDS):
                    raise EngineError(f"{process.name} is still there after SIGKILL: it hangs in the kernel")
            for member in self.plan.members:
                self.process(member).forget()
        if purge:
            shutil.rmtree(self.folder)
            self._plan = None
        return stopped

    def _start(self, members: tuple[Member, ...], timeout: float) -> list[Member]:
        """All at once: most of the time of each is waiting for disk, class loading and the others."""
        plan = self.plan
        missing = [member for member in members if not self.process(member).life()]
        for member in missing:
            for use, port in member.ports.items():
                if not wait_until(partial(bindable, port), _PORT_SECONDS):
                    raise EngineError(
                        f"port {port} ({use} of {member.name}) is taken by another program: "
                        "end that, or get other ports with `iot-mqtt cluster down --purge`"
                    )
        for member in missing:
            process = self.process(member)
            process.folder.mkdir(parents=True, exist_ok=True)
            process.spawn(KINDS[member.kind].prepare(plan, member, process.folder, self._places))
        # Those that ran before, too: an earlier command may have given up waiting for them.
        self._wait([member for member in members if not self._is_paused(member)], timeout, missing)
        return missing

    def _is_paused(self, member: Member) -> bool:
        life = self.process(member).life()
        return life is not None and life.paused

    def _wait(self, members: list[Member], timeout: float, started: list[Member]) -> None:
        """``started``: those that somebody wants to hear of in any case."""
        began = time.monotonic()
        waiting = {member.name: member for member in members}
        while waiting:
            for member in list(waiting.values()):
                problem = self._problem(member)
                passed = time.monotonic() - began
                if problem is None:
                    del waiting[member.name]
                    if member not in started and passed < _LONG_SECONDS:
                        continue
                    self._say(f"{member.name} is there after {passed:.1f} s")
                elif passed > timeout:
                    raise self.process(member).failed(f"is not ready after {timeout:.0f} s ({problem})")
            time.sleep(TICK)

    def _problem(self, member: Member) -> str | None:
        """What a started server still lacks; ``EngineError`` if it will never be ready."""
        process = self.process(member)
        if process.life() is None:
            raise process.failed("ended instead of getting ready")
        try:
            role = KINDS[member.kind].role(self.plan, member)
        except probe.NotThere as problem:
            return str(problem)
        expected = self._expected(member.kind)
        if role.sees is None or role.sees >= expected:
            return None
        return f"it sees {role.sees} of {expected} servers"

    def _expected(self, kind: KindName) -> int:
        """How many servers of a kind are to see each other: those that have a process which is not paused."""
        lives = [self.process(member).life() for member in self.plan.of(kind)]
        return sum(1 for life in lives if life is not None and not life.paused)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One command at a time changes what runs in a directory."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("w", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise EngineError(f"another command is at work in {self.folder}: try again when it is done") from error
            yield
