"""Faults in ``iot_mqtt.admin``: what callers may take of a node that serves others."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_CONNECTIONS: Final = "iot_mqtt/admin/connections.py"
_REQUESTS: Final = "iot_mqtt/admin/requests.py"
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
)
