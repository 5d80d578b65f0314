"""Faults on the way in: acknowledgements, what is stored for them, retained messages, rights."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_ANSWERS: Final = "iot_mqtt/broker/connections/handlers/publish_answers.py"
_ACKS: Final = "iot_mqtt/broker/connections/handlers/acks.py"
_SUBSCRIBE: Final = "iot_mqtt/broker/connections/handlers/subscribe.py"
_RETENTION: Final = "iot_mqtt/broker/publishing/retention.py"
_FANOUT: Final = "iot_mqtt/broker/publishing/fanout.py"
_COMMIT: Final = "tests/unit/broker/test_ack_order.py"

PUBLISHING: Final = (
    Mutation(
        "publishing.acknowledged-early",
        _ANSWERS,
        "ticket, position = outcome.ticket, outcome.position",
        "ticket, position = 0, outcome.position",
        (_COMMIT,),
        "a message that was acknowledged is lost with the power",
    ),
    Mutation(
        "publishing.qos2-id-not-stored",
        _ANSWERS,
        "store.save_received(session.client_id, ids)",
        "store.save_received(session.client_id, ids[:-1])",
        (_COMMIT, "tests/unit/broker/test_resume.py"),
        "after a restart, a message of QoS 2 that is repeated is delivered twice",
    ),
    Mutation(
        "publishing.pubrec-before-its-id",
        _ANSWERS,
        "            outcome.ticket = store.latest\n",
        "",
        (_COMMIT,),
        "PUBREC says that an id is remembered which the next start does not know",
    ),
    Mutation(
        "publishing.repeated-pubrec-overtakes",
        _ANSWERS,
        "[packet_id], self._store.latest, position)",
        "[packet_id], 0, position)",
        (_COMMIT, "tests/unit/broker/test_ack_order.py"),
        "a client that sends again is told at once what is not safe yet",
        harmless="answers keep their order, and the CONNACK of a session that is kept waits for the same commit",
    ),
    Mutation(
        "publishing.refused-id-stays",
        _ANSWERS,
        "            session.inbound.release(ids[position])\n",
        "",
        ("tests/unit/broker/test_overflow.py", "tests/unit/broker/test_disk_budget.py", _COMMIT),
        "a message that was refused is taken for a repetition when it is sent again, and is lost",
    ),
    Mutation(
        "publishing.denied-silently",
        _ANSWERS,
        "raise ProtocolViolation(why or",
        "return ProtocolViolation(why or",
        ("tests/unit/broker/test_publish_limits.py", "tests/unit/broker/test_rights.py"),
        "a client of 3.1.1 waits for ever for an acknowledgement of what it may not publish",
    ),
    Mutation(
        "publishing.pubrel-early",
        _ACKS,
        "            ticket = self._store.latest\n",
        "            ticket = 0\n",
        (_COMMIT,),
        "a restart sends a message again whose id the client has freed: it is delivered twice",
    ),
    Mutation(
        "publishing.pubcomp-early",
        _ACKS,
        "known, store.latest if session.durable else 0)",
        "known, 0)",
        (_COMMIT,),
        "the next message under an id is taken for a repetition after a restart, and is lost",
    ),
    Mutation(
        "publishing.released-id-stored",
        _ACKS,
        "                    store.remove_received(session.client_id, packet_id)\n",
        "                    pass\n",
        ("tests/unit/broker/test_resume.py", _COMMIT),
        "the next message under an id is taken for a repetition after a restart, and is lost",
    ),
    Mutation(
        "publishing.pubrel-record-stays",
        _ACKS,
        "                self._store.remove_pubrel(session.client_id, packet_id)\n",
        "                pass\n",
        ("tests/unit/broker/test_resume.py", _COMMIT),
        "PUBREL is repeated after every restart, and its record never goes",
    ),
    Mutation(
        "publishing.pubrec-not-stored",
        _ACKS,
        "                self._store.save_pubrel(session.client_id, packet_id, session.sequence)\n",
        "",
        ("tests/unit/broker/test_resume.py", _COMMIT),
        "an exchange of QoS 2 is forgotten by a restart: its id is given to another message",
    ),
    Mutation(
        "publishing.acl-of-the-wrong-filter",
        _SUBSCRIBE,
        "if not permissions.allows(action, asked.inner):",
        "if not permissions.allows(action, asked.filter):",
        ("tests/unit/broker/test_rights.py",),
        "$share/g/secret is asked for as a topic that begins with $share: rules for secret do not hold",
    ),
    Mutation(
        "publishing.replay-right-not-asked",
        _SUBSCRIBE,
        "(Action.SUBSCRIBE,) if asked.begin is None else (Action.SUBSCRIBE, Action.REPLAY)",
        "(Action.SUBSCRIBE,)",
        ("tests/unit/broker/test_replay_requests.py", "tests/unit/broker/test_rights.py"),
        "who may hear what comes may read all that was",
    ),
    Mutation(
        "publishing.subscription-limit",
        _SUBSCRIBE,
        "if known is None and len(session.subscriptions) >= most:",
        "if known is None and len(session.subscriptions) > most:",
        ("tests/unit/broker/test_limits.py",),
        "max_subscriptions_per_client is off by one",
    ),
    Mutation(
        "publishing.retained-on-every-subscribe",
        _SUBSCRIBE,
        "(subscription.retain_handling == 1 and is_new)",
        "(subscription.retain_handling == 1)",
        ("tests/unit/broker/test_retained.py",),
        "retain handling 1 brings retained messages again and again [MQTT-3.3.1-10]",
    ),
    Mutation(
        "publishing.retained-not-deleted",
        _RETENTION,
        "            self.remove(topic)\n            return True",
        "            return True",
        ("tests/unit/broker/test_retained.py",),
        "an empty retained message deletes nothing [MQTT-3.3.1-6]",
    ),
    Mutation(
        "publishing.retained-comes-back",
        _RETENTION,
        "            self._versions.changed(topic, None)\n            self._store.remove_retained(topic)\n",
        "            self._versions.changed(topic, None)\n",
        ("tests/unit/broker/test_retained.py",),
        "a retained message that was deleted is there again after a restart",
    ),
    Mutation(
        "publishing.retained-quota",
        _RETENTION,
        "if known is None and index.count >= settings.max_retained_messages:",
        "if known is None and index.count > settings.max_retained_messages:",
        ("tests/unit/broker/test_retained.py", "tests/unit/broker/test_retained_batches.py"),
        "max_retained_messages is off by one",
    ),
    Mutation(
        "publishing.older-retained-wins",
        _RETENTION,
        "elif order > 0 and message is not None:",
        "elif message is not None:",
        ("tests/unit/broker/test_retained_versions.py", "tests/unit/broker/test_retained.py"),
        "nodes of a cluster keep different retained messages of a topic",
    ),
    Mutation(
        "publishing.no-local",
        _FANOUT,
        "exclude_no_local=True",
        "exclude_no_local=False",
        ("tests/unit/broker/test_fanout_rules.py",),
        "a bridge gets back what it publishes, for ever [MQTT-3.8.3-3]",
    ),
    Mutation(
        "publishing.qos-raised",
        _FANOUT,
        "        session = route.receiver\n        qos = min(route.qos, publication.qos)  # [MQTT-3.8.4-8]",
        "        session = route.receiver\n        qos = route.qos",
        ("tests/unit/broker/test_fanout_rules.py",),
        "messages of QoS 0 are kept and repeated as QoS 1",
    ),
    Mutation(
        "publishing.log-not-awaited",
        _FANOUT,
        "self.recording.record(publication), qos, retain, route.identifiers)\n        outcome.ticket = self.store.latest",
        "self.recording.record(publication), qos, retain, route.identifiers)",
        (_COMMIT,),
        "a message is acknowledged before it is in the log",
    ),
    Mutation(
        "publishing.rows-know-no-steps",
        "iot_mqtt/broker/publishing/path.py",
        "if found.above is not MIXED or found.steps:",
        "if found.above is not MIXED:",
        ("tests/unit/broker/test_unheard.py",),
        "what comes in a row is not recorded for a node that is not heard",
    ),
)
