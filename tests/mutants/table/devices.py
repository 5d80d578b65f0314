"""Faults in ``iot_mqtt.devices``: commands that are sent twice, too late, or answered by somebody else."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_BOOK: Final = "iot_mqtt/devices/book.py"
_STATES: Final = "iot_mqtt/devices/states.py"
_ACCEPTING: Final = "iot_mqtt/devices/accepting.py"
_TESTS: Final = ("tests/unit/devices/test_commands.py", "tests/unit/devices/test_gateways.py")

DEVICES: Final = (
    Mutation(
        "devices.sent-is-cancelled",
        _BOOK,
        "tracked.record.state.final or tracked.record.attempts:",
        "tracked.record.state.final:",
        _TESTS,
        "a command is called cancelled that the device carries out",
    ),
    Mutation(
        "devices.sent-twice",
        _BOOK,
        "        if record.retry:\n",
        "        if record.state is State.SENT:\n",
        _TESTS,
        "a command that must not be repeated is sent again",
    ),
    Mutation(
        "devices.key-ignored",
        _BOOK,
        "found = self._keys.get((target, key)) if key else None",
        "found = None",
        _TESTS,
        "a command that is asked for twice with one key is done twice",
    ),
    Mutation(
        "devices.key-of-another-target",
        _BOOK,
        "        if self._keys.get(key) == record.id:\n            del self._keys[key]",
        "        self._keys.clear()",
        (*_TESTS, "tests/unit/devices/test_elsewhere.py"),
        "keys are forgotten with the first command that is forgotten",
    ),
    Mutation(
        "devices.uncertain-is-expired",
        _BOOK,
        "self.change(tracked, State.EXPIRED if tracked.unsent else State.UNCERTAIN, why)",
        "self.change(tracked, State.EXPIRED, why)",
        _TESTS,
        "a command is called not done that may have been",
    ),
    Mutation(
        "devices.attempts-not-counted",
        _BOOK,
        "attempts=record.attempts + 1, due=again",
        "attempts=record.attempts, due=again",
        _TESTS,
        "after a restart nobody knows that a command was sent",
    ),
    Mutation(
        "devices.kept-for-ever",
        _BOOK,
        "self._changes.forget_command(tracked.record)",
        "self._changes",
        _TESTS,
        "records of commands that are over never go",
    ),
    Mutation(
        "devices.finished-limit",
        _BOOK,
        "len(finished) > self._settings.max_finished_commands",
        "len(finished) < 0",
        _TESTS,
        "no bound for commands that are over",
    ),
    Mutation(
        "devices.late-is-sent",
        _STATES,
        "if record.state is State.QUEUED and is_late(record, self._clock.wall()):",
        "if record.state is State.QUEUED and is_late(record, 0.0):",
        _TESTS,
        "a command leaves after its deadline",
    ),
    Mutation(
        "devices.repeated-without-leave",
        _STATES,
        "elif record.state is State.SENT and not record.retry:",
        "elif record.state is State.SENT and record.retry:",
        _TESTS,
        "a command that must not be repeated is sent again over the next connection",
    ),
    Mutation(
        "devices.sent-before-its-record",
        _STATES,
        "self._changes.after(ticket, partial(self._begun, tracked, done))",
        "self._changes.after(0, partial(self._begun, tracked, done))",
        _TESTS,
        "a command leaves before it is written that it does: a restart sends it again",
    ),
    Mutation(
        "devices.anybody-answers",
        _STATES,
        "if tracked is None or tracked.record.owner != publication.publisher or publication.run.retain:",
        "if tracked is None or publication.run.retain:",
        _TESTS,
        "any client says of a command that it was done",
    ),
    Mutation(
        "devices.settled-twice",
        _STATES,
        "tracked.record.state in (State.QUEUED, State.SENT, State.UNCERTAIN):",
        "tracked.record.state in State:",
        _TESTS,
        "a late answer changes what became of a command that was told already",
    ),
    Mutation(
        "devices.gateway-confirms",
        _STATES,
        "if tracked is None or is_gateway(session) or tracked.record.owner != session.client_id:",
        "if tracked is None or tracked.record.owner != session.client_id:",
        _TESTS,
        "a command is called done because a gateway has received it",
    ),
    Mutation(
        "devices.reply-not-awaited",
        _STATES,
        "if tracked is not None and not tracked.record.wants_reply:",
        "if tracked is not None:",
        _TESTS,
        "a command that is to be answered is called done by PUBACK",
    ),
    Mutation(
        "devices.no-limit",
        _ACCEPTING,
        "if trouble is None and self._book.full:",
        "if trouble is not None and self._book.full:",
        _TESTS,
        "no bound for commands that wait",
    ),
    Mutation(
        "devices.unheard-is-nobody",
        "iot_mqtt/devices/elsewhere.py",
        "return not self._asking.all_heard() or any(",
        "return any(",
        ("tests/unit/devices/test_elsewhere.py",),
        "a command fails although its device has a session, on a node that is not heard",
    ),
    Mutation(
        "devices.kept-is-nobodys",
        "iot_mqtt/devices/elsewhere.py",
        "        async for _ in self._kept.sessions(record.owner):\n            return False\n",
        "",
        ("tests/unit/devices/test_elsewhere.py",),
        "a command fails while its device's session is on its way from one node to another",
    ),
)
