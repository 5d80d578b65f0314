"""Faults in what sessions are: takeover, expiry, wills, shared groups, restart."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_ATTACHING: Final = "iot_mqtt/broker/sessions/attaching.py"
_WILLS: Final = "iot_mqtt/broker/sessions/wills.py"
_ENDING: Final = "iot_mqtt/broker/sessions/ending.py"
_RESTORING: Final = "iot_mqtt/broker/sessions/restoring.py"
_MESSAGES: Final = "iot_mqtt/broker/sessions/restoring_messages.py"
_BOOK: Final = "iot_mqtt/broker/shared_groups/lease_book.py"
_LEASES: Final = "iot_mqtt/broker/shared_groups/leases.py"
_FLIGHTS: Final = "iot_mqtt/broker/shared_groups/flights.py"
_GROUPS: Final = "tests/unit/broker/test_groups_of_many_nodes.py"

SESSIONS: Final = (
    Mutation(
        "sessions.clean-start-ignored",
        _ATTACHING,
        "anew=anew or connect.clean_start)",
        "anew=anew)",
        ("tests/unit/broker/test_takeover.py", "tests/unit/broker/test_resume.py"),
        "a client that wants to begin anew gets what waited [MQTT-3.1.2-4]",
    ),
    Mutation(
        "sessions.expiry-goes-on",
        _ATTACHING,
        "                session.expiry_timer.cancel()\n                session.expiry_timer = None",
        "                session.expiry_timer = None",
        ("tests/unit/broker/test_session_expiry.py",),
        "the timer of an earlier absence ends a session before its interval is over",
    ),
    Mutation(
        "sessions.never-expires",
        _ATTACHING,
        "if not session.never_expires:",
        "if session.never_expires:",
        ("tests/unit/broker/test_session_expiry.py",),
        "sessions stay for ever",
    ),
    Mutation(
        "sessions.expired-while-there",
        _ENDING,
        "if session.connection is None and not session.ended:",
        "if not session.ended:",
        ("tests/unit/broker/test_session_expiry.py",),
        "a timer that goes off late ends the session of a client that is there",
        harmless="the timer is cancelled at CONNECT; this is the second lock on that door",
    ),
    Mutation(
        "sessions.qos2-to-another-member",
        _ENDING,
        "if isinstance(origin, SharedGroup) and not (delivery.qos == 2 and delivery.sent) and origin:",
        "if isinstance(origin, SharedGroup) and origin:",
        ("tests/unit/broker/test_shared_groups.py",),
        "an exchange that began with one member is continued with another [MQTT-4.8.2-5]",
    ),
    Mutation(
        "sessions.expired-passed-on",
        _ENDING,
        "if delivery.expired(now):",
        "if delivery.expired(0.0):",
        ("tests/unit/broker/test_shared_groups.py",),
        "a message that expired goes to another member of the group",
        harmless="whoever gets it looks at its time again before it leaves",
    ),
    Mutation(
        "sessions.will-record-stays",
        _WILLS,
        "            self.store.remove_will(session.client_id)\n",
        "",
        ("tests/unit/broker/test_wills.py",),
        "a will that was cancelled is published by the next start [MQTT-3.1.2-10]",
    ),
    Mutation(
        "sessions.will-not-stored",
        _WILLS,
        "            self.store.save_will(session.client_id, StoredWill(will, None, session.owner))\n",
        "",
        ("tests/unit/broker/test_wills.py",),
        "the will of a client is lost when its node is killed",
    ),
    Mutation(
        "sessions.will-due-at-connect",
        _WILLS,
        "StoredWill(will, self.clock.wall() + will.delay, session.owner)",
        "StoredWill(will, None, session.owner)",
        ("tests/unit/broker/test_wills.py",),
        "a restart publishes a will whose delay is not over",
    ),
    Mutation(
        "sessions.will-expiry",
        _WILLS,
        "expires_at=None if will.expiry is None else now + will.expiry",
        "expires_at=None",
        ("tests/unit/broker/test_wills.py",),
        "a will that was to be gone in a minute waits for a year",
    ),
    Mutation(
        "sessions.will-without-right",
        _WILLS,
        "            self._send(client_id, will, owner)\n            return\n        self.counters",
        "            self._send(client_id, will, owner)\n            return\n        self._send(client_id, will, owner)\n        self.counters",
        ("tests/unit/broker/test_wills.py", "tests/unit/broker/test_rights.py"),
        "the will of somebody whose right is gone is published",
    ),
    Mutation(
        "sessions.will-after-its-session",
        _WILLS,
        '        """No session, no delay."""\n        self._go(session)',
        '        """No session, no delay."""',
        ("tests/unit/broker/test_wills.py",),
        "the end of a session swallows its will [MQTT-3.1.3-9]",
    ),
    Mutation(
        "sessions.restored-from-the-start",
        _RESTORING,
        "                    session.cursor.position = place.position\n",
        "",
        ("tests/unit/broker/test_progress.py",),
        "after a restart everything that the log has is sent once more",
    ),
    Mutation(
        "sessions.doubt-forgotten",
        _RESTORING,
        "                session.cursor.doubt = Doubt(own.end)\n",
        "",
        ("tests/unit/broker/test_progress_late.py",),
        "what may have been sent before a crash comes again without DUP",
    ),
    Mutation(
        "sessions.others-removed",
        _RESTORING,
        "                if load.wanted(client_id):\n                    self.store.remove_progress(client_id)",
        "                self.store.remove_progress(client_id)",
        ("tests/unit/broker/test_hand_over.py", "tests/unit/broker/test_elsewhere.py"),
        "a node that starts removes what sessions of other nodes have read",
    ),
    Mutation(
        "sessions.restored-flight-unsent",
        _MESSAGES,
        "            flight.sent = len(ids)\n",
        "",
        ("tests/unit/broker/test_progress.py", "tests/unit/broker/test_resume.py"),
        "what was under way comes again without DUP",
    ),
    Mutation(
        "sessions.received-not-restored",
        _MESSAGES,
        "                session.inbound.fresh((packet_id,))\n",
        "                pass\n",
        ("tests/unit/broker/test_resume.py",),
        "after a restart a QoS 2 message that is repeated is delivered twice [MQTT-4.3.3-10]",
    ),
    Mutation(
        "sessions.pubrels-by-id",
        _MESSAGES,
        "key=lambda entry: entry[2]):",
        "key=lambda entry: entry[1]):",
        ("tests/unit/broker/test_resume.py",),
        "after a restart PUBRELs come in another order [MQTT-4.6.0-4]",
    ),
    Mutation(
        "sessions.lease-not-given-back",
        _BOOK,
        "        cursor.give_back(found)\n",
        "",
        (_GROUPS, "tests/unit/broker/test_group_link.py"),
        "what a member elsewhere did not confirm is lost for its group",
    ),
    Mutation(
        "sessions.qos2-lease-back",
        _LEASES,
        "if lease.peer == peer and lease.qos != 2:",
        "if lease.peer == peer:",
        (_GROUPS, "tests/unit/broker/test_group_link.py"),
        "a QoS 2 message of a group is delivered to two members",
    ),
    Mutation(
        "sessions.stale-answer",
        "iot_mqtt/broker/shared_groups/cursor.py",
        "return not question or question > self.after",
        "return True",
        (_GROUPS,),
        "an answer about an earlier lease of a QoS 2 message gives it to another member as well",
    ),
    Mutation(
        "sessions.done-unanswered",
        _LEASES,
        'self._link.tell(peer, "noted", name, client_id, references)',
        'self._link.tell(peer, "elsewhere", name, client_id, references)',
        (_GROUPS, "tests/unit/broker/test_group_link.py"),
        "who confirmed something is never told that it is noted, and keeps it for ever",
    ),
    Mutation(
        "sessions.member-gone-keeps",
        _FLIGHTS,
        "        for cursor, references in returned.items():\n            cursor.give_back(references)",
        "        returned.clear()",
        ("tests/unit/broker/test_durable_groups.py",),
        "what a member had not confirmed when it went is for nobody",
    ),
    Mutation(
        "sessions.inbox-limit",
        "iot_mqtt/broker/allowance.py",
        "queue_messages=_either(said.queue_messages, usual.max_queued_messages)",
        "queue_messages=_either(None, usual.max_queued_messages)",
        ("tests/unit/broker/test_limits.py",),
        "limits of an identity do not hold for its queues",
    ),
    Mutation(
        "sessions.leases-looked-for-too-early",
        _LEASES,
        "            if lease.peer == peer:\n                lease.peer = None",
        "            if lease.peer is None or lease.peer == peer:\n                lease.peer = None",
        ("tests/unit/broker/test_unheard_members.py",),
        "when any node dies a message that is on its way to another one goes to a second member",
    ),
    Mutation(
        "sessions.leases-looked-for-while-unheard",
        "iot_mqtt/broker/shared_groups/lease_search.py",
        "None if self._doubtful else self._clock",
        "self._clock",
        ("tests/unit/broker/test_unheard_members.py",),
        "a node that stands still for long after a start has its messages given to others",
    ),
    Mutation(
        "sessions.ticks-left-out",
        "iot_mqtt/pipeline/wheel.py",
        "        if not self._count:  # otherwise",
        "        if self._timer is None:  # otherwise",
        ("tests/unit/pipeline/test_wheel.py",),
        "on a busy node sessions never end, and connections that are dead are kept",
    ),
)
