"""Faults on the way out: before the commit, without DUP, twice, one too far."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_OUTFLOW: Final = "iot_mqtt/broker/sending/outflow.py"
_WRITING: Final = "iot_mqtt/broker/sending/writing.py"
_TAKING: Final = "iot_mqtt/broker/sending/taking.py"
_ENDING: Final = "iot_mqtt/broker/sending/ending.py"
_CURSOR: Final = "iot_mqtt/broker/log_cursor.py"
_CLAIMS: Final = "iot_mqtt/broker/claims.py"
_PROGRESS: Final = "iot_mqtt/broker/readers/progress.py"
_IN_ORDER: Final = "iot_mqtt/broker/readers/in_order.py"
_OUTBOX: Final = "iot_mqtt/pipeline/outbox.py"
_OUTBOX_TESTS: Final = "tests/unit/pipeline/test_outbox.py"
_CENSUS: Final = "iot_mqtt/broker/readers/census.py"
_LOSSES: Final = "tests/unit/broker/test_losses_elsewhere.py"
_RESUME: Final = "tests/unit/broker/test_resume.py"
_CURSORS: Final = "tests/unit/broker/test_cursors.py"

SENDING: Final = (
    Mutation(
        "sending.pubrel-not-repeated",
        _OUTFLOW,
        "        if released:\n            connection.send_pubrel(released)",
        "        if not released:\n            connection.send_pubrel(released)",
        (_RESUME,),
        "an exchange of QoS 2 never ends after a reconnect [MQTT-4.4.0-1]",
    ),
    Mutation(
        "sending.expired-from-the-queue",
        _OUTFLOW,
        "            if delivery.expired(wall):\n",
        "            if delivery.expired(0.0):\n",
        ("tests/unit/broker/test_overflow.py", _RESUME, "tests/unit/broker/test_totals.py"),
        "what expired in the queue takes a packet id before it is dropped",
        harmless="writing looks at the time once more before anything leaves, and drops it there",
    ),
    Mutation(
        "sending.no-dup",
        _WRITING,
        "self._send_run(session, part, dup=True)",
        "self._send_run(session, part, dup=False)",
        (_RESUME, _CURSORS),
        "what is repeated is not marked as that [MQTT-3.3.1-1]",
    ),
    Mutation(
        "sending.right-to-receive",
        _WRITING,
        "            if not connection.may_receive(topic):\n                break\n",
        "",
        ("tests/unit/broker/test_rights.py",),
        "a client that lost a right gets what was on its way",
    ),
    Mutation(
        "sending.group-under-way-unwritten",
        _TAKING,
        "        for flight in flights if cursor.is_shared else ():\n            cursor.under_way(flight)\n",
        "",
        ("tests/unit/broker/test_durable_groups.py",),
        "a group forgets what its members have not confirmed",
    ),
    Mutation(
        "sending.discarded-id-leaks",
        _ENDING,
        "            session.outbound.entries.pop(delivery.packet_id, None)\n",
        "            pass\n",
        ("tests/unit/broker/test_maximum_packet_size.py", _RESUME, "tests/unit/broker/test_overflow.py"),
        "each message that was dropped makes the window smaller, until nothing is sent",
    ),
    Mutation(
        "sending.position-one-too-far",
        _CURSOR,
        "self.position = run.position + count",
        "self.position = run.position + count + 1",
        (_CURSORS,),
        "a message is lost where the window was full",
    ),
    Mutation(
        "sending.read-one-too-far",
        _CURSOR,
        "            self.position = reading.position\n",
        "            self.position = reading.position + 1\n",
        (_CURSORS, "tests/unit/broker/test_progress.py"),
        "a message is lost between two reads",
    ),
    Mutation(
        "sending.claim-one-late",
        _CLAIMS,
        "        self.since[filter] = end\n        self.version += 1",
        "        self.since[filter] = end + 1\n        self.version += 1",
        (_CURSORS, "tests/unit/broker/test_progress.py"),
        "the first message behind SUBACK is lost",
    ),
    Mutation(
        "sending.past-forgotten",
        _CLAIMS,
        "        self._keep_past(subscription, end)\n        self.since.pop",
        "        self.since.pop",
        (_CURSORS, "tests/unit/broker/test_progress.py"),
        "what was owed is lost by an UNSUBSCRIBE [MQTT-3.10.4-3]",
    ),
    Mutation(
        "sending.stored-one-too-far",
        _PROGRESS,
        "            cursor.place(end),\n",
        "            cursor.place(end) + 1,\n",
        ("tests/unit/broker/test_progress.py",),
        "a restart loses a message of each session",
    ),
    Mutation(
        "sending.over-and-kept",
        _PROGRESS,
        "            segment.flights = [flight for flight, _ in kept]\n",
        "",
        ("tests/unit/broker/test_freed.py",),
        "what is over stays in a cycle, until a look at all of memory holds everybody up",
    ),
    Mutation(
        "sending.left-and-kept",
        _PROGRESS,
        "        for segment in self.segments(session):\n            segment.flights = []\n",
        "",
        ("tests/unit/broker/test_freed.py",),
        "the same of what a session had under way that has moved to another node",
    ),
    Mutation(
        "sending.ids-begin-anew",
        "iot_mqtt/broker/sending/repeating.py",
        "    session.outbound.last = session.last_id_kept\n",
        "",
        ("tests/unit/broker/test_progress_late.py",),
        "after a crash messages come again under other ids [MQTT-4.4.0-1]",
    ),
    Mutation(
        "sending.ids-out-of-order",
        "iot_mqtt/broker/sending/repeating.py",
        "        session.outbound.skip(IDS_AHEAD)\n",
        "",
        ("tests/unit/broker/test_progress_late.py",),
        "a PUBACK of the last connection confirms another message",
    ),
    Mutation(
        "sending.order-offered-unseen",
        _IN_ORDER,
        "            self.next_at = logged.arrived\n\n    def may_have_more",
        "            pass\n\n    def may_have_more",
        ("tests/unit/broker/test_in_order.py",),
        "what a link has brought to a reader that rests is overtaken by what is newer in another log",
    ),
    Mutation(
        "sending.order-waits-for-ever",
        _IN_ORDER,
        "                other.next_at = GIVEN_UP\n",
        "",
        ("tests/unit/broker/test_in_order.py",),
        "a log that gives no answer holds up all others of a session",
    ),
    Mutation(
        "sending.cut-off-for-what-was-ours",
        _OUTBOX,
        "if self.pending - self._beyond > self._limits.hard_limit",
        "if self.pending > self._limits.hard_limit",
        (_OUTBOX_TESTS,),
        "a slow reader is cut off by the answer to a ping, because of what was written when it was writable",
    ),
    Mutation(
        "sending.stop-said-late",
        _OUTBOX,
        "            channel.switch_writable(writable=False)\n        if self._reporting:",
        "            if not self._reporting:\n                channel.switch_writable(writable=False)\n        if self._reporting:",
        (_OUTBOX_TESTS,),
        "whoever is told to go on writes all that a session has, however little the client reads",
    ),
    Mutation(
        "sending.ahead-of-what-is-dropped",
        _CENSUS,
        "        for cursor in behind:\n            cursor.version += 1\n",
        "        for cursor in behind:\n            pass\n",
        ("tests/unit/broker/test_in_order.py",),
        "what was counted as lost is sent after all",
    ),
    Mutation(
        "sending.gone-and-counted",
        _CENSUS,
        "not (cursor.live or cursor.closed)",
        "not cursor.live",
        ("tests/unit/broker/test_census.py",),
        "what is counted for a session that went to another node is explained by nobody",
    ),
    Mutation(
        "sending.lost-from-the-beginning",
        _CENSUS,
        "count = run.end - max(run.position, started[cursor])",
        "count = run.end - run.position",
        (_LOSSES,),
        "what a session has read of a generation is counted as lost when that is dropped",
    ),
)
