"""alice has a session, bob asks for it: at one node, or at two of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from systemkit import wire
from systemkit.access import attempt, enter
from systemkit.plain import Plain
from systemkit.process import BrokerProcess
from tests.cases.cross_users import Take

NOT_AUTHORIZED, REFUSED_IN_3X = 0x87, 5
DELAY = 1


def taken(take: Take, where: Sequence[BrokerProcess], client_id: str, topic: str) -> None:
    """bob is refused, and what is alice's is as it was: connection, messages, will. ``where``: her node, his,
    and that of who looks.
    """
    hers, his, third = where
    with enter(third, "alice", f"same-watch-{client_id}") as watcher:
        watcher.subscribe((f"{topic}/will", 1))
        alice = _hers(take, hers, client_id, topic)
        if take.state == "messages wait":
            watcher.publish(f"{topic}/waits", b"hers", qos=1, packet_id=9)
            watcher.expect(wire.PUBACK)
        bob, answer = attempt(his, "bob", client_id, version=take.version, clean=take.clean, expiry=60)
        with bob:
            assert answer.reason() == (NOT_AUTHORIZED if take.version == 5 else REFUSED_IN_3X)
            bob.until_closed()
        if alice is not None:
            with alice:
                alice.ping()
        elif take.state == "a will is delayed":
            assert watcher.expect_publication().payload == b"gone"
        else:
            back, answer = attempt(hers, "alice", client_id, version=take.version, clean=False, expiry=60)
            with back:
                assert (answer.reason(), answer.body[0]) == (0, 1), "her session is not there"
                if take.state == "messages wait":
                    assert back.expect_publication().payload == b"hers"
                else:
                    back.ping()
        watcher.ping()


def _hers(take: Take, broker: BrokerProcess, client_id: str, topic: str) -> Plain | None:
    """alice's session; her connection, if she has one."""
    delayed = take.state == "a will is delayed"
    alice = enter(
        broker,
        "alice",
        client_id,
        version=5 if delayed else take.version,
        will=(f"{topic}/will", b"gone", 1, False) if delayed else None,
        will_delay=DELAY if delayed else 0,
        kept=take.state != "connected",
    )
    alice.subscribe((f"{topic}/waits", 1))
    if take.state in ("connected", "kept while connected"):
        return alice
    if delayed:
        alice.sock.close()
    else:
        alice.disconnect()
        alice.sock.close()
    return None
