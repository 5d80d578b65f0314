"""Faults in ``iot_mqtt.admin``: what callers may take of a node that serves others."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_CONNECTIONS: Final = "iot_mqtt/admin/connections.py"
_REQUESTS: Final = "iot_mqtt/admin/requests.py"
_AUDITING: Final = "iot_mqtt/admin/auditing.py"
_AUDIT_FILES: Final = "iot_mqtt/admin/audit_files.py"
_AUDIT_CHAINS: Final = "tests/unit/admin/test_audit_chains.py"
_PIPELINING: Final = "tests/unit/admin/test_pipelining.py"

ADMIN: Final = (
    Mutation(
        "admin.answer-not-awaited",
        _CONNECTIONS,
        "if not self._waitingForTransport:\n            self._taken()",
        "self._taken()",
        (_PIPELINING,),
        "answers that nobody reads fill the memory",
    ),
    Mutation(
        "admin.socket-always-read",
        _CONNECTIONS,
        "if len(self._held) > HELD or self._waitingForTransport:",
        "if self._waitingForTransport:",
        (_PIPELINING,),
        "what is sent behind a request fills the memory",
    ),
    Mutation(
        "admin.no-rest",
        _CONNECTIONS,
        "if self._may_read() and not turns.open:",
        "if self._may_read() and self._held and not turns.open:",
        (_PIPELINING,),
        "who asks again and again has more than the share of calls",
    ),
    Mutation(
        "admin.strangers-at-once",
        _REQUESTS,
        "if self.path in PROBES or turns.open:",
        'if self.path in PROBES or turns.open or not self.getHeader(b"authorization"):',
        (_PIPELINING,),
        "whoever shows no token has more than the share of calls",
    ),
    Mutation(
        "admin.answer-of-the-past",
        "iot_mqtt/admin/scrapes.py",
        "if self._begun_at <= asked_at:",
        "if self._begun_at <= asked_at - 1.0:",
        (_PIPELINING,),
        "who acts and then looks does not see what he did",
    ),
    Mutation(
        "admin.streams-take-all",
        "iot_mqtt/admin/streams.py",
        "if sum(of[0] == address for of in listening) >= self._of_address:",
        "if sum(of[0] == address for of in listening) >= 2 * self._of_address:",
        ("tests/unit/admin/test_events_api.py",),
        "listeners keep the calls of their address out",
    ),
    Mutation(
        "admin.page-without-tls",
        "iot_mqtt/admin/cross_site.py",
        'if secure and page.scheme != "https":',
        'if secure and page.scheme not in ("http", "https"):',
        ("tests/unit/admin/test_requests.py",),
        "a page that somebody on the way wrote acts for whoever has logged in",
    ),
    Mutation(
        "admin.slow-in-one-piece",
        "iot_mqtt/broker/views/slow_view.py",
        "                await self._breathe()\n",
        "",
        ("tests/unit/admin/test_long_lists.py",),
        "a viewer's call holds the event loop for seconds",
    ),
    Mutation(
        "admin.host-of-anybody",
        "iot_mqtt/admin/cross_site.py",
        " or not all(map(_HOST.fullmatch, lines)):",
        ":",
        ("tests/unit/admin/test_hosts.py",),
        "a request is taken for one of another host than the one before this port has read",
    ),
    Mutation(
        "admin.refused-among-changes",
        _AUDITING,
        "room = Room.ACCESS if refused else _room_of(change)",
        "room = _room_of(change)",
        (_AUDIT_CHAINS,),
        "a viewer pushes the changes of others out of the audit log",
    ),
    Mutation(
        "admin.own-among-changes",
        _AUDITING,
        "    if change.own:\n        return Room.ACCESS\n",
        "",
        (_AUDIT_CHAINS,),
        "a viewer who logs out again and again does so, too",
    ),
    Mutation(
        "admin.messages-among-changes",
        _AUDITING,
        "return Room.MESSAGES if",
        "return Room.CHANGES if",
        (_AUDIT_CHAINS,),
        "a program that publishes pushes changes out of the audit log",
    ),
    Mutation(
        "admin.gaps-are-whole",
        _AUDIT_FILES,
        'return record["seq"] > self.last and self.last < self._dense_from',
        'return bool(record["seq"] > self.last)',
        (_AUDIT_CHAINS,),
        "the last changes can be taken out of the audit log",
    ),
    Mutation(
        "admin.chains-apart",
        _AUDIT_FILES,
        'return record.get("after", previous) == self._head',
        "return True",
        (_AUDIT_CHAINS,),
        "the last change in the audit log can be forged",
    ),
    Mutation(
        "admin.removed-unnoted",
        "iot_mqtt/admin/audit_chain.py",
        'self._beginnings.keep(self._name, self.head if then is None else then["previous"])',
        "pass",
        ("tests/unit/admin/test_audit_lost.py",),
        "an audit log that has made room is said to have been robbed",
    ),
    Mutation(
        "admin.lost-begins-anew",
        "iot_mqtt/admin/audit_chain.py",
        "            self.head = LOST\n",
        "            pass\n",
        ("tests/unit/admin/test_audit_lost.py",),
        "an audit log that was taken away is whole after the next change",
    ),
)
